"""GetPreferredAllocation: live state, then the decision, within a deadline."""
