"""Everything that speaks gRPC with a kubelet, on either side of the socket."""
