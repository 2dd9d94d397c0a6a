"""Devices that a YAML file declares."""
