{{/*
(list AFFINITY OTHERS) -> the affinity with every required node term narrowed to nodes without the other labels.
Terms are alternatives, so each one gets the condition.
*/}}
{{- define "numaplace.affinity" -}}
{{- $affinity := deepCopy (index . 0) -}}
{{- $without := list -}}
{{- range index . 1 -}}
{{- range $key, $value := . -}}
{{- $without = append $without (dict "key" $key "operator" "NotIn" "values" (list $value)) -}}
{{- end -}}
{{- end -}}
{{- if $without -}}
{{- $node := $affinity.nodeAffinity | default dict -}}
{{- $required := $node.requiredDuringSchedulingIgnoredDuringExecution | default dict -}}
{{- $terms := list -}}
{{- range $required.nodeSelectorTerms | default (list dict) -}}
{{- $terms = append $terms (mergeOverwrite (deepCopy .) (dict "matchExpressions" (concat (.matchExpressions | default list) $without))) -}}
{{- end -}}
{{- $_ := set $required "nodeSelectorTerms" $terms -}}
{{- $_ := set $node "requiredDuringSchedulingIgnoredDuringExecution" $required -}}
{{- $_ := set $affinity "nodeAffinity" $node -}}
{{- end -}}
{{- $affinity | toYaml -}}
{{- end -}}
