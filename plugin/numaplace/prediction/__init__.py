"""What a kubelet will do with a request: ports of its managers, asked ahead of time."""
