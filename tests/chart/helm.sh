#!/usr/bin/env bash
# Builds helm from its Go module and prints its path. It is kept in a cache outside the repository until the
# pinned modules or the Go version change.
set -euo pipefail
cd "$(dirname "$0")/helm"

export GOTOOLCHAIN=${GOTOOLCHAIN:-auto} # Debian's Go would not fetch a newer one by itself
cache=${NUMAPLACE_CACHE:-${XDG_CACHE_HOME:-$HOME/.cache}/numaplace}/tools

command -v go >/dev/null || {
    echo "helm: Go 1.26 or newer is missing (Debian package: golang-go, or https://go.dev/dl)" >&2
    exit 2
}
key=$({ cat go.mod go.sum tools.go; go env GOVERSION; } | sha256sum | cut -c1-12)
helm=$cache/helm-$key
if [ ! -x "$helm" ]; then
    echo "helm: downloading its modules and building it; this takes 2 to 10 minutes, once" >&2
    mkdir -p "$cache"
    CGO_ENABLED=0 nice go build -mod=readonly -trimpath -ldflags "-s -w" \
        -o "$helm.part.$$" helm.sh/helm/v4/cmd/helm >&2
    mv "$helm.part.$$" "$helm"
fi
echo "$helm"
