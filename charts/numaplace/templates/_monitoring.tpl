{{/* The headless Service that a ServiceMonitor finds the daemons by. */}}
{{- define "numaplace.metricsName" -}}
{{- printf "%s-metrics" (include "numaplace.fullname" .) -}}
{{- end -}}

{{/* The label `job` that the chart's own monitor gives; empty without one. */}}
{{- define "numaplace.job" -}}
{{- if .Values.podMonitor.enabled -}}
{{- printf "%s/%s" .Release.Namespace (include "numaplace.fullname" .) -}}
{{- else if .Values.serviceMonitor.enabled -}}
{{- include "numaplace.metricsName" . -}}
{{- end -}}
{{- end -}}

{{/* Where both kinds of monitors scrape, and the label that names the node. */}}
{{- define "numaplace.endpoint" -}}
port: http
path: /metrics
interval: {{ .interval }}
relabelings:
  - sourceLabels: [__meta_kubernetes_pod_node_name]
    targetLabel: node
{{- end -}}
