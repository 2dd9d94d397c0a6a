"""Reimplementations of the kubelet's resource managers: what a kubelet does with a request."""
