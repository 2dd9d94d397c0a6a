"""Generated from proto/numaplace/kubelet/api by proto/generate.sh; never edited."""
