#!/usr/bin/env bash
# The end-to-end tests: a real kubelet on a simulated NUMA node (e2e/README.md).
#
#   e2e/run.sh [pytest arguments]     builds what is missing, then runs the tests
#   e2e/run.sh --prepare              only builds what is missing
#
# NUMAPLACE_KUBELET is another kubelet to run, for example an older one (e2e/cluster/build.sh older_kubelet).
#
# Needs root and a .venv (`make e2e` makes it). Builds go to a cache outside the repository and are
# reused until the pinned modules or the Go version change.
set -euo pipefail
cd "$(dirname "$0")"

kubelet_version=v1.37.2
cri_version=v0.37.2
python=$(dirname "$PWD")/.venv/bin/python
export GOTOOLCHAIN=${GOTOOLCHAIN:-auto} # Debian's Go would not fetch a newer one by itself
cache=${NUMAPLACE_CACHE:-${XDG_CACHE_HOME:-$HOME/.cache}/numaplace}/e2e

say() { printf 'e2e: %s\n' "$*"; }
die() { printf 'e2e: %s\n' "$*" >&2; exit 2; }

check_prerequisites() {
    [ "$(id -u)" = 0 ] || die "must run as root: the kubelet needs it, and so does a private mount namespace"
    local tool
    for tool in unshare mount setpriv; do
        command -v "$tool" >/dev/null || die "'$tool' is missing (Debian packages: util-linux, mount)"
    done
    command -v go >/dev/null || die "Go 1.26 or newer is missing (Debian package: golang-go, or https://go.dev/dl)"
    # Asked inside the module, so that a Go that may fetch its own newer toolchain has done so.
    go_version=$(cd kubelet && go env GOVERSION) ||
        die "$(cd / && go version) cannot build kubelet $kubelet_version: install Go 1.26 or newer"
    [ -x "$python" ] || die "there is no .venv: run 'make e2e' in the repository root"
    unshare -m true 2>/dev/null ||
        die "no private mount namespace can be made here (needs CAP_SYS_ADMIN: in a container, run it privileged)"
}

# Runs a long command with a sign of life every half minute; its output is shown only if it fails.
long() {
    local what=$1 log started=$SECONDS pid ticks=0
    shift
    log=$(mktemp)
    "$@" >"$log" 2>&1 &
    pid=$!
    trap 'kill "$pid" 2>/dev/null || true; rm -f "$log"' EXIT
    trap 'exit 130' INT TERM HUP
    while kill -0 "$pid" 2>/dev/null; do
        sleep 1
        ticks=$((ticks + 1))
        [ $((ticks % 30)) != 0 ] || say "$what: $((SECONDS - started)) s ..."
    done
    if ! wait "$pid"; then
        cat "$log" >&2
        die "$what: failed"
    fi
    say "$what: done in $((SECONDS - started)) s"
    rm -f "$log"
    trap - EXIT INT TERM HUP
}

build_kubelet() {
    if [ -n "${NUMAPLACE_KUBELET:-}" ]; then
        kubelet=$NUMAPLACE_KUBELET
        say "kubelet: $("$kubelet" --version) ($kubelet)"
        return
    fi
    local stamp="-X k8s.io/component-base/version"
    local flags="-s -w $stamp.gitVersion=$kubelet_version $stamp.gitMajor=1 $stamp.gitMinor=37"
    local key
    key=$({ cat kubelet/go.mod kubelet/go.sum kubelet/tools.go; echo "$go_version $flags"; } | sha256sum | cut -c1-12)
    kubelet=$cache/kubelet-$kubelet_version-$key
    if [ -x "$kubelet" ]; then
        say "kubelet $kubelet_version: built already ($kubelet)"
        return
    fi
    say "kubelet $kubelet_version: downloading its modules and building it; this takes 5 to 20 minutes, once"
    mkdir -p "$cache"
    long "building kubelet $kubelet_version" env -C kubelet CGO_ENABLED=0 GOFLAGS=-mod=readonly \
        go build -trimpath -ldflags "$flags" -o "$kubelet.part" k8s.io/kubernetes/cmd/kubelet
    mv "$kubelet.part" "$kubelet"
}

# The container runtime interface in Python, from the proto file inside the Go module.
generate_cri() {
    local versions key module part
    versions=$("$python" -c 'import grpc_tools, importlib.metadata as m; print(m.version("grpcio-tools"), m.version("protobuf"))')
    key=$(echo "$cri_version $versions" | sha256sum | cut -c1-12)
    cri=$cache/cri-$cri_version-$key
    [ ! -d "$cri" ] || return 0
    module=$(cd kubelet && go mod download -json "k8s.io/cri-api@$cri_version" |
        "$python" -c 'import json, sys; print(json.load(sys.stdin)["Dir"])')
    part=$cri.part.$$
    mkdir -p "$part"
    cp "$module/pkg/apis/runtime/v1/api.proto" "$part/cri.proto"
    chmod u+w "$part/cri.proto"
    "$python" -m grpc_tools.protoc --proto_path="$part" --python_out="$part" --grpc_python_out="$part" cri.proto
    rm -rf "$cri"
    mv "$part" "$cri"
}

# Whatever ends the run, its processes are ended and its folder goes. Mounts live in the kubelet's
# own namespace and go with it.
run_tests() {
    local scratch pid status=0
    scratch=$(mktemp -d /tmp/np.XXXXXX) # short: a unix socket path has 107 bytes
    pid=
    trap 'rm -rf "$scratch"' EXIT
    trap '[ -z "$pid" ] || kill -TERM "$pid" 2>/dev/null || true' INT TERM HUP
    NUMAPLACE_E2E_KUBELET=$kubelet NUMAPLACE_E2E_CRI=$cri NUMAPLACE_E2E_SCRATCH=$scratch \
        "$python" -m pytest -c pytest.ini "$@" &
    pid=$!
    # A trapped signal ends `wait` early; pytest is then still tidying up.
    wait "$pid" || status=$?
    while kill -0 "$pid" 2>/dev/null; do
        wait "$pid" || status=$?
    done
    exit "$status"
}

check_prerequisites
build_kubelet
generate_cri
export NUMAPLACE_E2E_CONFORMANCE; NUMAPLACE_E2E_CONFORMANCE=$(conformance/build.sh)
[ "${1:-}" != --prepare ] || exit 0
run_tests "$@"
