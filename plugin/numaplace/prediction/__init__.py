"""What a kubelet will do with a request, predicted with reimplementations of its managers."""
