"""The resources in service: devices, their published topology, and the calls of the kubelet."""
