"""Composition: one event loop, one service per resource, life cycle."""
