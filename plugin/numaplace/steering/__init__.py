"""Withholding device topology so that a stock Topology Manager follows the strategy. Start at ``choose``."""
