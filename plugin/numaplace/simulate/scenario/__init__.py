"""Scenario files: a machine, a kubelet's configuration, and the pods that come and go. Start at ``load``."""
