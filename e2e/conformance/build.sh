#!/usr/bin/env bash
# Builds the conformance program and prints its path. It is kept in the cache that e2e/run.sh uses,
# until its source, the pinned modules or the Go version change. Needs neither root nor a kubelet.
set -euo pipefail
cd "$(dirname "$0")"

cache=${NUMAPLACE_CACHE:-${XDG_CACHE_HOME:-$HOME/.cache}/numaplace}/e2e
flags="-s -w"

command -v go >/dev/null || { echo "conformance: Go 1.26 or newer is missing" >&2; exit 2; }
key=$({ cat go.mod go.sum ./*.go ./*.s; go env GOVERSION; echo "$flags"; } | sha256sum | cut -c1-12)
program=$cache/conformance-$key
if [ ! -x "$program" ]; then
    echo "conformance: building the kubelet's managers; this takes 1 to 10 minutes, once" >&2
    mkdir -p "$cache"
    CGO_ENABLED=0 go build -mod=readonly -trimpath -ldflags "$flags" -o "$program.part.$$" . >&2
    mv "$program.part.$$" "$program"
fi
echo "$program"
