"""Reimplements the Topology Manager: hints, merge, policies, options, scores, strategy, weights."""
