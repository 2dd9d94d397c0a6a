#!/usr/bin/env bash
# Builds what the cluster consists of from its Go modules, and prints one line for each: <name>=<path>. Builds are
# kept in the end-to-end tests' cache, outside the repository, until the pinned modules or the Go version change.
#
#   build.sh [name ...]     all of these without names:
#
#   kubelet       the file (the one that e2e/run.sh builds)
#   older_kubelet the file, two minor versions older
#   pause         the file, the process of a pod's sandbox
#   controlplane  a folder: kube-apiserver, kube-controller-manager, kube-scheduler, kubectl
#   etcd          the file
#   containerd    a folder: containerd, containerd-shim-runc-v2, ctr
#   kind          the file
#   helm          the file (the one that `make chart` builds)
set -euo pipefail
cd "$(dirname "$0")"
wanted=" ${*:-kubelet older_kubelet pause controlplane etcd containerd kind helm} "

kubernetes_version=v1.37.2
older_version=v1.35.4
export GOTOOLCHAIN=${GOTOOLCHAIN:-auto} # Debian's Go would not fetch a newer one by itself
cache=${NUMAPLACE_CACHE:-${XDG_CACHE_HOME:-$HOME/.cache}/numaplace}/e2e

command -v go >/dev/null || {
    echo "cluster: Go 1.26 or newer is missing (Debian package: golang-go, or https://go.dev/dl)" >&2
    exit 2
}

# Name, version, folder of the module, linker flags, packages. Some make a file, others a folder.
build() {
    local name=$1 version=$2 folder=$3 flags=$4 key target started=$SECONDS
    shift 4
    [[ $wanted == *" $name "* ]] || return 0
    go_version=$(cd "$folder" && go env GOVERSION)
    key=$({ cat "$folder"/go.mod "$folder"/go.sum "$folder"/*.go; echo "$go_version $flags"; } | sha256sum | cut -c1-12)
    target=$cache/${name#older_}-$version-$key
    if [ ! -e "$target" ]; then
        echo "cluster: building $name $version; this takes minutes, once" >&2
        mkdir -p "$cache"
        rm -rf "$target.part"
        case $name in kubelet | older_kubelet | pause | etcd | kind) ;; *) mkdir "$target.part" ;; esac
        env -C "$folder" CGO_ENABLED=0 GOFLAGS=-mod=readonly \
            nice go build -trimpath -ldflags "$flags" -o "$target.part" "$@" >&2
        mv "$target.part" "$target"
        echo "cluster: $name: built in $((SECONDS - started)) s" >&2
    fi
    echo "$name=$target"
}

# Without a version, clients cannot tell what the API server serves. The same flags as for the kubelet of e2e/run.sh.
version_flags() {
    local version=$1 stamp="-X k8s.io/component-base/version" minor
    minor=${version#v1.}
    echo "-s -w $stamp.gitVersion=$version $stamp.gitMajor=1 $stamp.gitMinor=${minor%.*}"
}
kubernetes_flags=$(version_flags "$kubernetes_version")

build kubelet "$kubernetes_version" ../kubelet "$kubernetes_flags" k8s.io/kubernetes/cmd/kubelet
build older_kubelet "$older_version" kubelet-1.35 "$(version_flags "$older_version")" k8s.io/kubernetes/cmd/kubelet
build pause v1 pause "-s -w" .
build etcd v3.7.3 etcd "-s -w" go.etcd.io/etcd/server/v3
containerd_module=github.com/containerd/containerd/v2
build containerd v2.4.2 containerd "-s -w -X $containerd_module/version.Version=v2.4.2" \
    $containerd_module/cmd/containerd $containerd_module/cmd/containerd-shim-runc-v2 $containerd_module/cmd/ctr
build controlplane "$kubernetes_version" controlplane "$kubernetes_flags" \
    k8s.io/kubernetes/cmd/kube-apiserver k8s.io/kubernetes/cmd/kube-controller-manager k8s.io/kubernetes/cmd/kube-scheduler \
    k8s.io/kubernetes/cmd/kubectl
build kind v0.33.0 ../kind/module "-s -w" sigs.k8s.io/kind
if [[ $wanted == *" helm "* ]]; then echo "helm=$(../../tests/chart/helm.sh)"; fi
