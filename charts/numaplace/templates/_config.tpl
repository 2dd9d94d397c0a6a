{{/*
The daemon's configuration, and what follows from it. A key without a value counts as not given, as it does for
the daemon. The defaults here are the daemon's own; a test compares them.
*/}}

{{/* (list CONFIG SECTION KEY DEFAULT) -> the value as text. */}}
{{- define "numaplace.get" -}}
{{- $section := get (index . 0) (index . 1) | default dict -}}
{{- $value := index . 3 -}}
{{- if hasKey $section (index . 2) -}}
{{- if not (kindIs "invalid" (get $section (index . 2))) -}}
{{- $value = get $section (index . 2) -}}
{{- end -}}
{{- end -}}
{{- $value -}}
{{- end -}}

{{/*
The DaemonSets to make, as JSON: [{name, component, config, nodeLabel, others}]. `others` are the labels of the
entries that come before, which keep a node to one DaemonSet. Without resources of its own `config` is only what
the entries go over.
*/}}
{{- define "numaplace.daemonSets" -}}
{{- $full := include "numaplace.fullname" . -}}
{{- $found := list -}}
{{- $others := list -}}
{{- range .Values.nodeConfigs -}}
{{- $config := mergeOverwrite (deepCopy $.Values.config) (deepCopy (.config | default dict)) -}}
{{- $found = append $found (dict "name" (printf "%s-%s" $full .name) "component" .name "config" $config "nodeLabel" .nodeLabel "others" $others) -}}
{{- $others = append $others .nodeLabel -}}
{{- end -}}
{{- if .Values.config.resources -}}
{{- $found = append $found (dict "name" $full "component" "default" "config" .Values.config "nodeLabel" dict "others" $others) -}}
{{- end -}}
{{- $found | toJson -}}
{{- end -}}

{{/* CONFIG -> the port of the HTTP endpoint; nothing when it is off. */}}
{{- define "numaplace.port" -}}
{{- $address := include "numaplace.get" (list . "http" "address" ":9477") -}}
{{- if not (has $address (list "" "off" "false")) -}}
{{- regexFind "[0-9]+$" $address -}}
{{- end -}}
{{- end -}}

{{/* CONFIG -> "true" if the daemon uses the API server, else nothing. */}}
{{- define "numaplace.cluster" -}}
{{- if not (has (include "numaplace.get" (list . "cluster" "enabled" "auto")) (list "false" "off")) -}}true{{- end -}}
{{- end -}}

{{/* CONFIG -> "true" if the daemon sends Events, else nothing. */}}
{{- define "numaplace.events" -}}
{{- if and (include "numaplace.cluster" .) (eq (include "numaplace.get" (list . "cluster" "events" true)) "true") -}}true{{- end -}}
{{- end -}}

{{/* "true" if one of the DaemonSets needs it: they share one account. */}}
{{- define "numaplace.anyCluster" -}}
{{- range include "numaplace.daemonSets" . | fromJsonArray -}}{{- include "numaplace.cluster" .config -}}{{- end -}}
{{- end -}}

{{- define "numaplace.anyEvents" -}}
{{- range include "numaplace.daemonSets" . | fromJsonArray -}}{{- include "numaplace.events" .config -}}{{- end -}}
{{- end -}}

{{- define "numaplace.sysfs" -}}
{{- include "numaplace.get" (list . "host" "sysfs" "/sys") | clean -}}
{{- end -}}

{{- define "numaplace.podResourcesSocket" -}}
{{- include "numaplace.get" (list . "kubelet" "podResourcesSocket" "/var/lib/kubelet/pod-resources/kubelet.sock") | clean -}}
{{- end -}}

{{/*
CONFIG -> what is mounted from the node, as JSON: [{name, hostPath, mountPath, readOnly, create, file}]. Folders for
sockets: a restarted kubelet makes new ones, and a mounted socket file would stay the old one. The kubelet's own
configuration alone is mounted as a file: its folder is most often /var/lib/kubelet, with the secrets of all pods.
*/}}
{{- define "numaplace.mounts" -}}
{{- $plugins := include "numaplace.get" (list . "kubelet" "devicePluginDirectory" "/var/lib/kubelet/device-plugins") | clean -}}
{{- $pods := include "numaplace.podResourcesSocket" . | dir -}}
{{- $mounts := list (dict "name" "device-plugins" "hostPath" $plugins "mountPath" $plugins "readOnly" false "create" false) -}}
{{- if ne $plugins $pods -}}
{{- $mounts = append $mounts (dict "name" "pod-resources" "hostPath" $pods "mountPath" $pods "readOnly" true "create" false) -}}
{{- end -}}
{{- $settings := include "numaplace.get" (list . "kubelet" "configFile" "") -}}
{{- if $settings -}}
{{- $mounts = append $mounts (dict "name" "kubelet-config" "hostPath" (clean $settings) "mountPath" (clean $settings) "readOnly" true "create" false "file" true) -}}
{{- end -}}
{{- $mounts = append $mounts (dict "name" "sys" "hostPath" "/sys" "mountPath" (include "numaplace.sysfs" .) "readOnly" true "create" false) -}}
{{- $devices := false -}}
{{- $nvidia := false -}}
{{- range .resources -}}
{{- if .gpu -}}
{{- $devices = true -}}
{{- if eq .gpu.vendor "nvidia" -}}{{- $nvidia = true -}}{{- end -}}
{{- else if hasKey . "sriov" -}}
{{- $sriov := .sriov | default dict -}}
{{/* Other drivers than vfio-pci give network devices, which have no device node. */}}
{{- if or $sriov.rdma $sriov.vhostNet (not $sriov.drivers) (has "vfio-pci" ($sriov.drivers | default list)) -}}
{{- $devices = true -}}
{{- end -}}
{{- end -}}
{{- end -}}
{{- if $devices -}}
{{- $path := include "numaplace.get" (list . "host" "devfs" "/dev") | clean -}}
{{- $mounts = append $mounts (dict "name" "dev" "hostPath" "/dev" "mountPath" $path "readOnly" true "create" false) -}}
{{- end -}}
{{- if $nvidia -}}
{{- $path := printf "%s/driver" (include "numaplace.get" (list . "host" "procfs" "/proc") | clean) -}}
{{/* Its folder nvidia comes only when the driver is loaded, which may be later. */}}
{{- $mounts = append $mounts (dict "name" "proc-driver" "hostPath" "/proc/driver" "mountPath" $path "readOnly" true "create" false) -}}
{{- $mounts = append $mounts (dict "name" "cdi-etc" "hostPath" "/etc/cdi" "mountPath" "/etc/cdi" "readOnly" true "create" true) -}}
{{- $mounts = append $mounts (dict "name" "cdi-run" "hostPath" "/var/run/cdi" "mountPath" "/var/run/cdi" "readOnly" true "create" true) -}}
{{- end -}}
{{- $mounts | toJson -}}
{{- end -}}

{{/* (dict "root" $ "config" CONFIG) -> the files of the ConfigMap. */}}
{{- define "numaplace.files" -}}
config.yaml: |
{{ toYaml .config | indent 2 }}
{{- range $name, $content := .root.Values.declaredFiles }}
{{ $name }}: |
{{ toYaml $content | indent 2 }}
{{- end }}
{{- end -}}
