#!/usr/bin/env bash
# Builds the kubelet's merge and prints the program's path. It is kept in the cache that the end-to-end
# tests use, until its source, the pinned modules or the Go version change.
set -euo pipefail
cd "$(dirname "$0")"

cache=${NUMAPLACE_CACHE:-${XDG_CACHE_HOME:-$HOME/.cache}/numaplace}/bench
flags="-s -w"

command -v go >/dev/null || { echo "gomerge: Go 1.26 or newer is missing" >&2; exit 2; }
key=$({ cat go.mod go.sum ./*.go; go env GOVERSION; echo "$flags"; } | sha256sum | cut -c1-12)
program=$cache/gomerge-$key
if [ ! -x "$program" ]; then
    echo "gomerge: building the kubelet's Topology Manager; this takes 1 to 10 minutes, once" >&2
    mkdir -p "$cache"
    CGO_ENABLED=0 go build -mod=readonly -trimpath -ldflags "$flags" -o "$program.part.$$" . >&2
    mv "$program.part.$$" "$program"
fi
echo "$program"
