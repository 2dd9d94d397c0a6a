"""The memory manager: which NUMA nodes a container's memory and hugepages come from, and why not.

Ports of kubelet v1.37.2 ``pkg/kubelet/cm/memorymanager``. Start at ``policies``.
"""
