"""The kubelet's own configuration: how it is read, and what follows from it."""
