"""Port of the kubelet's CPU manager (v1.37.2 ``pkg/kubelet/cm/cpumanager``): hints and exclusive CPUs."""
