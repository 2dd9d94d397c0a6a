"""The memory manager: which NUMA nodes a container's memory and hugepages come from, or why it is refused.

Reimplements kubelet v1.37.2 ``pkg/kubelet/cm/memorymanager``. Start at ``policies``.
"""
