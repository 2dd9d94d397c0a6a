#!/usr/bin/env bash
# Builds tools of the chart's tests from their Go modules and prints their paths, one a line:
#
#   tests/chart/tool.sh helm promtool promql
#
# They are kept in a cache outside the repository until the pinned modules, our own source or the Go version change.
set -euo pipefail
cd "$(dirname "$0")"

export GOTOOLCHAIN=${GOTOOLCHAIN:-auto} # Debian's Go would not fetch a newer one by itself
cache=${NUMAPLACE_CACHE:-${XDG_CACHE_HOME:-$HOME/.cache}/numaplace}/tools

command -v go >/dev/null || {
    echo "chart tools: Go 1.26 or newer is missing (Debian package: golang-go, or https://go.dev/dl)" >&2
    exit 2
}

for name; do
    case $name in
        helm) module=helm package=helm.sh/helm/v4/cmd/helm ;;
        promtool | prometheus) module=prometheus package=github.com/prometheus/prometheus/cmd/$name ;;
        promql) module=prometheus package=./promql ;;
        *) echo "chart tools: no tool is named '$name'; known are helm, promtool, promql and prometheus" >&2; exit 2 ;;
    esac
    pushd "$module" >/dev/null
    key=$({ find . -name 'go.*' -o -name '*.go' | sort | xargs cat; go env GOVERSION; } | sha256sum | cut -c1-12)
    tool=$cache/$name-$key
    if [ ! -x "$tool" ]; then
        echo "$name: downloading its modules and building it; this takes 1 to 10 minutes, once" >&2
        mkdir -p "$cache"
        # The tag leaves out Prometheus's ways to find targets in clouds, and what they depend on.
        CGO_ENABLED=0 nice go build -mod=readonly -trimpath -tags remove_all_sd -ldflags "-s -w" \
            -o "$tool.part.$$" "$package" >&2
        mv "$tool.part.$$" "$tool"
    fi
    echo "$tool"
    popd >/dev/null
done
