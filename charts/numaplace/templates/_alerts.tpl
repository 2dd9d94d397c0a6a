{{/*
The alerts, as a list. Gauges are taken as `by (node, …)` first: while a daemon is replaced two pods of its node are
scraped, and an alert should not end and begin anew because a pod has another name.
*/}}
{{- define "numaplace.alerts" -}}
{{- with include "numaplace.job" . }}
- alert: NumaplaceDown
  expr: max by (node) (up{job={{ . | quote }}}) == 0
  for: 5m
  labels: {severity: critical}
  annotations:
    summary: numaplace on {{ "{{ $labels.node }}" }} does not answer
    description: While no daemon runs there, pods that ask for its resources are refused by the kubelet or stay pending.
- alert: NumaplaceAbsent
  expr: absent(up{job={{ . | quote }}})
  for: 15m
  labels: {severity: warning}
  annotations:
    summary: Prometheus finds no numaplace daemon on any node
    description: No pod of the DaemonSet runs, or the monitor's labels are not those that Prometheus selects.
{{- end }}
- alert: NumaplaceNotRegistered
  expr: max by (node, resource) (numaplace_registered) == 0
  for: 2m
  labels: {severity: critical}
  annotations:
    summary: The kubelet of {{ "{{ $labels.node }}" }} does not know {{ "{{ $labels.resource }}" }}
    description: Pods that ask for it stay pending. /readyz and the log of the numaplace pod say what is missing.
- alert: NumaplaceFallingBack
  expr: sum by (node, resource, reason) (increase(numaplace_fallbacks_total{reason!~"error|invalid-answer"}[10m])) > 0
  for: 10m
  labels: {severity: warning}
  annotations:
    summary: numaplace on {{ "{{ $labels.node }}" }} decides about {{ "{{ $labels.resource }}" }} without full knowledge ({{ "{{ $labels.reason }}" }})
    description: Pods run, but their devices may not be where the strategy wants them. The log has an entry for each.
- alert: NumaplaceBug
  # A counter that begins with 1 has not increased in Prometheus's eyes.
  expr: |-
    sum by (node, resource, reason) (increase(numaplace_fallbacks_total{reason=~"error|invalid-answer"}[15m])) > 0
    or
    sum by (node, resource, reason) (
      numaplace_fallbacks_total{reason=~"error|invalid-answer"}
      unless numaplace_fallbacks_total{reason=~"error|invalid-answer"} offset 15m
    ) > 0
  labels: {severity: warning}
  annotations:
    summary: A decision about {{ "{{ $labels.resource }}" }} on {{ "{{ $labels.node }}" }} failed because of a bug in numaplace ({{ "{{ $labels.reason }}" }})
    description: The pod got valid devices without a strategy. Please report it with the entry in the log of the numaplace pod.
- alert: NumaplaceSlowDecisions
  expr: histogram_quantile(0.99, sum by (node, le) (rate(numaplace_decision_duration_seconds_bucket[10m]))) > {{ .Values.prometheusRule.decisionSeconds }}
  for: 15m
  labels: {severity: warning}
  annotations:
    summary: Decisions on {{ "{{ $labels.node }}" }} take up to {{ "{{ $value | humanizeDuration }}" }}
    description: The kubelet admits no other pod meanwhile. Most often the kubelet or the node is overloaded.
- alert: NumaplaceSnapshotStale
  expr: min by (node) (numaplace_snapshot_age_seconds) > {{ .Values.prometheusRule.snapshotAgeSeconds }}
  for: 5m
  labels: {severity: warning}
  annotations:
    summary: The allocation state on {{ "{{ $labels.node }}" }} is {{ "{{ $value | humanizeDuration }}" }} old
    description: The kubelet's PodResources API does not answer. Decisions use what was known before.
- alert: NumaplaceNoSnapshot
  expr: group by (node) (numaplace_build_info) unless on (node) group by (node) (numaplace_snapshot_age_seconds)
  for: 5m
  labels: {severity: warning}
  annotations:
    summary: The allocation state on {{ "{{ $labels.node }}" }} has never been read
    description: The kubelet's PodResources API has not answered since the daemon started. Decisions use structure alone.
- alert: NumaplaceDevicesUnhealthy
  expr: max by (node, resource) (numaplace_devices{health="unhealthy"}) > 0
  for: 5m
  labels: {severity: warning}
  annotations:
    summary: '{{ "{{ $value }}" }} devices of {{ "{{ $labels.resource }}" }} on {{ "{{ $labels.node }}" }} are unhealthy'
    description: The log of the numaplace pod says which ones, and why.
- alert: NumaplaceNoDevices
  expr: max by (node, resource) (numaplace_selectors_unmatched) == 1
  for: 10m
  labels: {severity: warning}
  annotations:
    summary: '{{ "{{ $labels.resource }}" }} has no devices on {{ "{{ $labels.node }}" }}'
    description: No device matches its selectors. The devices are missing, or a selector is wrong.
- alert: NumaplaceDeviceScanFailed
  expr: max by (node, resource) (numaplace_device_scan_failed) == 1
  for: 10m
  labels: {severity: warning}
  annotations:
    summary: numaplace cannot scan for devices of {{ "{{ $labels.resource }}" }} on {{ "{{ $labels.node }}" }}
    description: What was found before is still offered. The log of the numaplace pod says why.
- alert: NumaplaceClusterWatchDown
  expr: max by (node) (numaplace_cluster_watch_connected) == 0
  for: 15m
  labels: {severity: warning}
  annotations:
    summary: numaplace on {{ "{{ $labels.node }}" }} cannot watch its pods at the API server
    description: Placement goes on with less knowledge, and pods get no Events. numaplace_cluster_watch_calls_total has the reason as its code.
- alert: NumaplaceEventsLost
  expr: sum by (node, result) (increase(numaplace_events_total{result=~"failed|dropped"}[10m])) > 0
  for: 15m
  labels: {severity: info}
  annotations:
    summary: Events of numaplace on {{ "{{ $labels.node }}" }} do not arrive ({{ "{{ $labels.result }}" }})
    description: Placement is not affected. The log of the numaplace pod says what the API server answered.
- alert: NumaplaceRestarting
  expr: sum by (node, task) (increase(numaplace_task_restarts_total[30m])) >= 3
  labels: {severity: warning}
  annotations:
    summary: A part of numaplace on {{ "{{ $labels.node }}" }} keeps ending ({{ "{{ $labels.task }}" }})
    description: It is started again each time. The log of the numaplace pod says why it ends.
- alert: NumaplaceReloadRefused
  expr: sum by (node) (increase(numaplace_reloads_total{result="refused"}[15m])) > 0
  labels: {severity: warning}
  annotations:
    summary: numaplace on {{ "{{ $labels.node }}" }} refused its new configuration
    description: It keeps the old one. The log has every problem with its file and line.
- alert: NumaplaceSteeringRefused
  expr: sum by (node) (increase(numaplace_steering_breaker_trips_total[1h])) >= 3
  labels: {severity: warning}
  annotations:
    summary: Pods are refused repeatedly on {{ "{{ $labels.node }}" }} while steering withholds topology
    description: Each time all topology was published for config.steering.backoff. The log of the numaplace pod says which pod was refused and what was withheld.
- alert: NumaplaceSteeringFailing
  expr: sum by (node, reason) (increase(numaplace_steering_failures_total[10m])) > 0
  for: 15m
  labels: {severity: warning}
  annotations:
    summary: Steering on {{ "{{ $labels.node }}" }} fails repeatedly ({{ "{{ $labels.reason }}" }})
    description: All topology is published meanwhile, and the Topology Manager decides as it would without numaplace. The log of the numaplace pod says why.
{{- range .Values.prometheusRule.fragmentation }}
- alert: NumaplaceFragmented
  expr: |-
    sum by (node, resource) (
      max by (node, resource, numa_node) (numaplace_allocatable{resource={{ .resource | quote }}})
      - max by (node, resource, numa_node) (numaplace_allocated)
    ) >= {{ .size }}
    and on (node, resource)
    max by (node, resource) (numaplace_largest_single_node_fit{resource={{ .resource | quote }}}) < {{ .size }}
    and on (node, resource)
    max by (node, resource) (numaplace_allocatable) >= {{ .size }}
  for: 15m
  labels: {severity: info, size: {{ .size | quote }}}
  annotations:
    summary: {{ .size }} devices of {{ .resource }} are free on {{ "{{ $labels.node }}" }}, but on no single NUMA node
    description: Pods that ask for {{ .size }} are split there, or refused by the Topology Manager.
{{- end }}
{{- end -}}
