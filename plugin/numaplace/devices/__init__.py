"""Device sources: what is on the host. Roots are injected."""
