{{- define "numaplace.name" -}}
{{- default .Chart.Name .Values.nameOverride | trunc 40 | trimSuffix "-" -}}
{{- end -}}

{{/* Short enough for "-<name of a node configuration>" and what Kubernetes adds to names of pods. */}}
{{- define "numaplace.fullname" -}}
{{- $name := default .Chart.Name .Values.nameOverride -}}
{{- $full := ternary .Release.Name (printf "%s-%s" .Release.Name $name) (contains $name .Release.Name) -}}
{{- default $full .Values.fullnameOverride | trunc 40 | trimSuffix "-" -}}
{{- end -}}

{{- define "numaplace.selectorLabels" -}}
app.kubernetes.io/name: {{ include "numaplace.name" . }}
app.kubernetes.io/instance: {{ .Release.Name }}
{{- end -}}

{{- define "numaplace.labels" -}}
{{ include "numaplace.selectorLabels" . }}
app.kubernetes.io/version: {{ .Chart.AppVersion | quote }}
app.kubernetes.io/managed-by: {{ .Release.Service }}
helm.sh/chart: {{ printf "%s-%s" .Chart.Name .Chart.Version | replace "+" "_" }}
{{- end -}}

{{- define "numaplace.serviceAccountName" -}}
{{- default (ternary (include "numaplace.fullname" .) "default" .Values.serviceAccount.create) .Values.serviceAccount.name -}}
{{- end -}}

{{/* Cluster-wide, so the namespace is part of it. */}}
{{- define "numaplace.clusterRoleName" -}}
{{- printf "%s-%s" .Release.Namespace (include "numaplace.fullname" .) -}}
{{- end -}}

{{- define "numaplace.image" -}}
{{- $tagged := printf "%s:%s" .Values.image.repository (default .Chart.AppVersion .Values.image.tag) -}}
{{- empty .Values.image.digest | ternary $tagged (printf "%s@%s" $tagged .Values.image.digest) -}}
{{- end -}}
