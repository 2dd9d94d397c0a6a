"""Frozen values that every layer shares. No behaviour beyond reading themselves."""
