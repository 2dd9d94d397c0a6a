"""How strategies fragment a node: generated traces on the simulator (docs/fragmentation.md)."""
