"""How strategies fragment a node, or do not: generated traces on the simulator (docs/fragmentation.md)."""
