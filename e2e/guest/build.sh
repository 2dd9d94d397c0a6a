#!/usr/bin/env bash
# Builds what the guests consist of, and prints one line for each: <name>=<path>. Parts are kept in the end-to-end
# tests' cache, outside the repository, until what they are made from changes.
#
#   packages                  a folder: QEMU and a kernel (packages.sh)
#   kernel, initrd            what a guest boots
#   base, app, payload        its disks: the two layers of the image of the Dockerfile, and kubelet, containerd, runc,
#                             agent and kernel modules
#   image                     the image's archive, to run the daemon as a container
#   agent                     the file, which is also the workload
#   helm                      the file
set -euo pipefail
cd "$(dirname "$0")"
cache=${NUMAPLACE_CACHE:-${XDG_CACHE_HOME:-$HOME/.cache}/numaplace}/e2e

packages=$(./packages.sh)
cluster=$(../cluster/build.sh kubelet containerd helm)
image=$(../cluster/image.sh)
built() { sed -n "s/^$1=//p" <<<"$cluster"; }

key=$({ cat agent/go.mod agent/*.go; cd agent && go env GOVERSION; } | sha256sum | cut -c1-12)
agent=$cache/guest-agent-$key
if [ ! -x "$agent" ]; then
    env -C agent CGO_ENABLED=0 nice go build -trimpath -ldflags "-s -w" -o "$agent.part" .
    mv "$agent.part" "$agent"
fi

printf 'packages=%s\nimage=%s\nagent=%s\nhelm=%s\n' "$packages" "$image" "$agent" "$(built helm)"
containerd=$(built containerd)
../../.venv/bin/python images.py "$packages" "$cache" "$image" init.sh agent="$agent" kubelet="$(built kubelet)" \
    containerd="$containerd/containerd" containerd-shim-runc-v2="$containerd/containerd-shim-runc-v2" ctr="$containerd/ctr"
