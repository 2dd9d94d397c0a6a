{{/*
What the values' schema cannot say, one line per problem with what to do about it. The rules over several settings
are the daemon's own (numaplace.config): here they fail the installation instead of the daemon's start.
*/}}

{{- define "numaplace.check" -}}
{{- $problems := include "numaplace.problems" . | trim -}}
{{- if $problems -}}
{{- fail (printf "\n\nnumaplace: these values cannot work:\n%s\n" $problems) -}}
{{- end -}}
{{- end -}}

{{- define "numaplace.problems" -}}
{{- if not .Values.image.repository }}
- image.repository: is not set, and there is no published image yet. Build and push one (docs/install-helm.md), and set its name here.
{{- end }}
{{- if not (include "numaplace.daemonSets" . | fromJsonArray) }}
- config.resources: no resource is named, so there is nothing to serve. Name at least one, for example {name: nvidia.com/gpu, gpu: {vendor: nvidia}}.
{{- end }}
{{- include "numaplace.problems.config" (dict "root" $ "place" "config" "own" .Values.config "config" .Values.config) }}
{{- if and .Values.rbac.create (include "numaplace.anyCluster" .) (not .Values.serviceAccount.create) (not .Values.serviceAccount.name) }}
- serviceAccount.name: is not set, and rbac.create would give the namespace's account "default", and so every pod that uses it, the right to read pods. Set serviceAccount.name to an account of its own, or serviceAccount.create to true.
{{- end }}
{{- if and .Values.podMonitor.enabled .Values.serviceMonitor.enabled }}
- serviceMonitor.enabled: podMonitor.enabled is true as well, so every daemon would be scraped twice, and every sum be doubled. Set one of the two to false.
{{- end }}
{{- if .Values.prometheusRule.enabled }}
{{- $alerts := list "NumaplaceDown" "NumaplaceAbsent" "NumaplaceFragmented" }}
{{- range include "numaplace.alerts" . | fromYamlArray }}
{{- $alerts = append $alerts .alert }}
{{- end }}
{{- range .Values.prometheusRule.disabled }}
{{- if not (has . $alerts) }}
- prometheusRule.disabled: there is no alert {{ . }}. There are {{ $alerts | uniq | sortAlpha | join ", " }}.
{{- end }}
{{- end }}
{{- end }}
{{- include "numaplace.problems.nodeConfigs" . }}
{{- include "numaplace.problems.workload" . }}
{{- end -}}

{{/* root, place, own (what is written there), config (what is in effect). */}}
{{- define "numaplace.problems.config" -}}
{{- include "numaplace.problems.resources" . }}
{{- include "numaplace.problems.weights" (list (printf "%s.weights" .place) .own.weights) }}
{{- if or (eq .place "config") (hasKey .own "http") }}
{{- include "numaplace.problems.http" . }}
{{- end }}
{{- if or (eq .place "config") (hasKey .own "host") }}
{{- $place := .place }}
{{- $config := .config }}
{{- range $key, $path := dict "sysfs" "/sys" "devfs" "/dev" "procfs" "/proc" }}
{{- $value := include "numaplace.get" (list $config "host" $key $path) | clean }}
{{- if or (eq $value $path) (hasPrefix (printf "%s/" $path) $value) (eq $value "/") }}
- {{ $place }}.host.{{ $key }}: is {{ $value }}, which the container has of its own. Set it to the chart's default, /host{{ $path }}, where the node's {{ $path }} is mounted.
{{- end }}
{{- end }}
{{- end }}
{{- end -}}

{{- define "numaplace.problems.resources" -}}
{{- $root := .root }}
{{- $names := dict }}
{{- $sources := dict }}
{{- range $number, $resource := .own.resources }}
{{- $place := printf "%s.resources[%d]" $.place $number }}
{{- $given := list }}
{{- range list "sriov" "gpu" "declared" "relay" }}
{{- if hasKey $resource . }}
{{- $given = append $given . }}
{{- $source := printf "%s %s" . (get $resource . | default dict | toJson) }}
{{- if hasKey $sources $source }}
- {{ $place }}.{{ . }}: selects the same devices as {{ get $sources $source }}. A device belongs to one resource: remove one of the two, or give them different selectors.
{{- end }}
{{- $_ := set $sources $source $place }}
{{- end }}
{{- end }}
{{- if ne (len $given) 1 }}
- {{ $place }}: exactly one of sriov, gpu and declared has to say where its devices come from; it has {{ $given | join " and " | default "none" }}.
{{- end }}
{{- if has "relay" $given }}
- {{ $place }}.relay: is not available in this version. Use sriov, gpu or declared.
{{- end }}
{{- if hasKey $names .name }}
- {{ $place }}.name: {{ .name }} is given twice, first in {{ get $names .name }}. Names have to differ: remove one of the two.
{{- end }}
{{- $_ := set $names .name $place }}
{{- with (.declared | default dict).file }}
{{- include "numaplace.problems.file" (list $root (printf "%s.declared.file" $place) .) }}
{{- end }}
{{- end }}
{{- end -}}

{{/* (list ROOT PLACE FILE): the file has to be in a volume. */}}
{{- define "numaplace.problems.file" -}}
{{- $values := (index . 0).Values }}
{{- $file := index . 2 | clean }}
{{- $found := and (eq (dir $file) "/etc/numaplace") (hasKey $values.declaredFiles (base $file)) }}
{{- range $values.extraVolumeMounts }}
{{- if or (eq $file (clean .mountPath)) (hasPrefix (printf "%s/" (clean .mountPath)) $file) }}
{{- $found = true }}
{{- end }}
{{- end }}
{{- if not $found }}
- {{ index . 1 }}: {{ $file }} is in no volume. Put its content into declaredFiles as {{ base $file }} and name it /etc/numaplace/{{ base $file }} here, or mount a folder with extraVolumes and extraVolumeMounts.
{{- end }}
{{- end -}}

{{/* (list PLACE WEIGHTS): pairs such as cpu=3,memory=1. A mapping is checked by the schema. */}}
{{- define "numaplace.problems.weights" -}}
{{- $place := index . 0 }}
{{- $weights := index . 1 }}
{{- if kindIs "string" $weights }}
{{- $names := list }}
{{- range splitList "," $weights }}
{{- $entry := trim . }}
{{- if $entry }}
{{- $name := regexReplaceAll "\\s*=.*$" $entry "" }}
{{- if not (regexMatch "^[^=]*[^=\\s]\\s*=\\s*0*([0-9]{1,2}|100)$" $entry) }}
- {{ $place }}: {{ $entry | quote }} is not a weight. Write a resource, =, and a whole number from 0 to 100, for example cpu=3.
{{- else if has $name $names }}
- {{ $place }}: {{ $name }} has two weights. Remove one of them.
{{- end }}
{{- $names = append $names $name }}
{{- end }}
{{- end }}
{{- end }}
{{- end -}}

{{- define "numaplace.problems.http" -}}
{{- $address := include "numaplace.get" (list .config "http" "address" ":9477") }}
{{- $port := include "numaplace.port" .config }}
{{- if $port }}
{{- if not (has (regexReplaceAll ":[0-9]+$" $address "") (list "" "0.0.0.0" "[::]")) }}
- {{ .place }}.http.address: is {{ $address }}, where the kubelet's probes do not reach it. Use an address without a host, such as :9477, or off.
{{- end }}
{{- if or (eq (int $port) 0) (gt (int $port) 65535) }}
- {{ .place }}.http.address: the probes need a fixed port from 1 to 65535, such as :9477; it is {{ $port }}.
{{- end }}
{{- else }}
{{- $place := .place }}
{{- $values := .root.Values }}
{{- range list "podMonitor" "serviceMonitor" }}
{{- if (get $values .).enabled }}
- {{ . }}.enabled: there is nothing to scrape, since {{ $place }}.http.address is off. Set it to :9477, or {{ . }}.enabled to false.
{{- end }}
{{- end }}
{{- end }}
{{- end -}}

{{- define "numaplace.problems.nodeConfigs" -}}
{{- $names := list "default" }}
{{- $labels := list }}
{{- range $number, $entry := .Values.nodeConfigs }}
{{- $place := printf "nodeConfigs[%d]" $number }}
{{- if eq .name "default" }}
- {{ $place }}.name: "default" is the name of the configuration for all other nodes, which is in config. Choose another one.
{{- else if has .name $names }}
- {{ $place }}.name: {{ .name }} is given twice. Names have to differ.
{{- end }}
{{- $names = append $names .name }}
{{- $label := .nodeLabel | toJson }}
{{- if has $label $labels }}
- {{ $place }}.nodeLabel: {{ range $key, $value := .nodeLabel }}{{ $key }}={{ $value }}{{ end }} is the label of an earlier entry already, which would get all these nodes. Use another label or value.
{{- end }}
{{- $labels = append $labels $label }}
{{- range $key, $value := .nodeLabel }}
{{- if hasKey $.Values.nodeSelector $key }}
- {{ $place }}.nodeLabel: {{ $key }} is also in nodeSelector, which goes for all nodes. Remove it from nodeSelector.
{{- end }}
{{- end }}
{{- $own := .config | default dict }}
{{- $config := mergeOverwrite (deepCopy $.Values.config) (deepCopy $own) }}
{{- if not $config.resources }}
- {{ $place }}.config.resources: no resource is named, here or in config. Name at least one, or remove the entry and keep its nodes away with nodeSelector or affinity.
{{- end }}
{{- include "numaplace.problems.config" (dict "root" $ "place" (printf "%s.config" $place) "own" $own "config" $config) }}
{{- end }}
{{- end -}}

{{- define "numaplace.problems.workload" -}}
{{- $rolling := .Values.updateStrategy.rollingUpdate | default dict }}
{{- if not (has (toString ($rolling.maxSurge | default 0)) (list "0" "0%")) }}
- updateStrategy.rollingUpdate.maxSurge: has to be 0: two daemons on one node would take the resources from each other. Set maxUnavailable instead.
{{- end }}
{{- if hasKey .Values.declaredFiles "config.yaml" }}
- declaredFiles: config.yaml is the name of the configuration itself. Choose another name.
{{- end }}
{{- range .Values.extraVolumeMounts }}
{{- if hasPrefix "/etc/numaplace/" (printf "%s/" (clean .mountPath)) }}
- extraVolumeMounts: {{ .mountPath }} lies in /etc/numaplace, which is the configuration's folder. Choose another mountPath.
{{- end }}
{{- end }}
{{- end -}}
