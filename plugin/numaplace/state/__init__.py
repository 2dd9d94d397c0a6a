"""Live allocation per NUMA node: PodResources plus our own grants. Time is passed in."""
