"""Reimplements the kubelet's CPU manager (v1.37.2 ``cm/cpumanager``): hints and exclusive CPUs."""
