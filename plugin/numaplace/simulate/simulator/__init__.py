"""Runs scenarios on ports of the kubelet's managers, without a kubelet. Start at ``run``."""
