"""Runs scenarios on reimplementations of the kubelet's managers, without a kubelet. Start at ``run``."""
