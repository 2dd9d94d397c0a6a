"""Snapshot + request -> device ids + reasons (the answer to GetPreferredAllocation)."""
