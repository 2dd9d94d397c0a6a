"""numaplace: puts SR-IOV VFs and GPUs on the right NUMA node of a Kubernetes worker."""

__version__ = "0.1.0"
