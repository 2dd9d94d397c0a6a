"""Steering at run time: when a set is chosen, how it reaches the kubelet, when it is suspended."""
