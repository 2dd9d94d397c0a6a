"""The demo: the real daemon against an emulated kubelet."""
