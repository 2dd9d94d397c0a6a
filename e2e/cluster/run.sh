#!/usr/bin/env bash
# The cluster tests: a real control plane, kubelet and containerd, the chart and the image (e2e/cluster/README.md).
#
#   e2e/cluster/run.sh [pytest arguments]     builds what is missing, then runs the tests
#   e2e/cluster/run.sh --prepare              only builds what is missing
#   e2e/cluster/run.sh --cluster kind ...     the same tests on kind, where there is docker (e2e/kind/README.md)
#
# Needs root and a .venv (`make e2e-cluster` makes it).
set -euo pipefail
cd "$(dirname "$0")"
here=$PWD
python=$(realpath -s ../../.venv/bin/python)

say() { printf 'cluster: %s\n' "$*"; }
die() { printf 'cluster: %s\n' "$*" >&2; exit 2; }

. ../debian.sh
# Command and Debian package.
needed="debootstrap debootstrap
buildah buildah
runc runc
ip iproute2
unshare util-linux
openssl openssl
jq jq
shellcheck shellcheck
/usr/lib/cni/bridge containernetworking-plugins"

# A cgroup of our own in each hierarchy (v1), or in the one (v2), that everything of the cluster is under.
cgroup_folders() {
    if [ -f /sys/fs/cgroup/cgroup.controllers ]; then
        echo "/sys/fs/cgroup/$group"
        return
    fi
    local controllers path
    while IFS=: read -r _ controllers path; do
        [ -n "$controllers" ] || continue
        controllers=${controllers#name=} # systemd's hierarchy has a name instead of controllers
        echo "/sys/fs/cgroup/$controllers${path%/}/$group"
    done </proc/self/cgroup
}

make_cgroups() {
    local folder file
    for folder in "${cgroups[@]}"; do
        mkdir "$folder"
        # Version 1: a new group has no CPUs and no memory nodes, and takes no process until it has.
        for file in cpuset.cpus cpuset.mems; do
            [ -f /sys/fs/cgroup/cgroup.controllers ] || [ ! -f "$folder/$file" ] ||
                cat "$(dirname "$folder")/$file" >"$folder/$file"
        done
    done
}

# The kernel ends the processes of the cluster after the first one, and a group goes when it is empty.
remove_cgroups() {
    local folder deadline=$((SECONDS + 20))
    for folder in "${cgroups[@]}"; do
        until [ ! -d "$folder" ] || find "$folder" -depth -type d -exec rmdir {} + 2>/dev/null; do
            [ "$SECONDS" -lt "$deadline" ] || { say "not removed: $folder"; break; }
            sleep 0.1
        done
    done
}

clean_up() {
    trap '' INT TERM HUP
    # The first process of the PID namespace takes all the others with it.
    [ -z "$pid" ] || { kill -KILL "$pid" 2>/dev/null || true; wait "$pid" 2>/dev/null || true; }
    remove_cgroups
    rm -rf --one-file-system "$scratch"
    [ -n "$(ls -A "$logs" 2>/dev/null)" ] || rmdir "$logs" 2>/dev/null || true
}

case "${1:-} ${2:-}" in
--cluster=kind\ *) exec ../kind/run.sh "${@:2}" ;;
"--cluster kind") exec ../kind/run.sh "${@:3}" ;;
esac
[ "$(id -u)" = 0 ] || die "must run as root"
[ -x "$python" ] || die "there is no .venv: run 'make e2e-cluster' in the repository root"
install_missing "$needed"
declare -A built
while IFS='=' read -r name path; do built[$name]=$path; done < <(./build.sh)
[ -n "${built[helm]:-}" ] || die "the build failed"
image=${NUMAPLACE_IMAGE:-$(./image.sh)}
[ "${1:-}" != --prepare ] || exit 0

scratch=$(mktemp -d /tmp/npc.XXXXXX)
group=$(basename "$scratch")
logs=$here/../logs/cluster
pid=
mapfile -t cgroups < <(cgroup_folders)
trap clean_up EXIT
trap 'exit 130' INT TERM HUP
mkdir -p "$logs"
rm -rf "${logs:?}"/*
logs=$(realpath "$logs")
make_cgroups

env NUMAPLACE_CLUSTER_KUBELET="${built[kubelet]}" NUMAPLACE_CLUSTER_OLDER_KUBELET="${built[older_kubelet]}" \
    NUMAPLACE_CLUSTER_CONTROLPLANE="${built[controlplane]}" \
    NUMAPLACE_CLUSTER_ETCD="${built[etcd]}" NUMAPLACE_CLUSTER_CONTAINERD="${built[containerd]}" \
    NUMAPLACE_CLUSTER_PAUSE="${built[pause]}" NUMAPLACE_CLUSTER_HELM="${built[helm]}" \
    NUMAPLACE_CLUSTER_KUBECTL="${built[controlplane]}/kubectl" NUMAPLACE_CLUSTER_KIND="${built[kind]}" NUMAPLACE_CLUSTER_IMAGE="$image" \
    NUMAPLACE_CLUSTER_SCRATCH="$scratch" NUMAPLACE_CLUSTER_LOGS="$logs" PYTHONDONTWRITEBYTECODE=1 \
    bash -c '
        for folder in "${@:4}"; do
            [ "$folder" != -- ] || break
            echo $$ >"$folder/cgroup.procs"
        done
        while [ "$4" != -- ]; do set -- "$1" "$2" "$3" "${@:5}"; done
        exec unshare --mount --net --pid --ipc --uts --cgroup --fork --kill-child --mount-proc \
            "$1/machine.sh" "$2" "$3" "${@:5}"' \
    join "$here" "$scratch" "$logs" "${cgroups[@]}" -- \
    nice "$python" -m pytest -c "$here/pytest.ini" "$@" &
pid=$!
if [ -f /sys/fs/cgroup/cgroup.controllers ]; then
    # Version 2: this process would keep the group from sharing out its controllers. It has its namespaces by now.
    until [ -d "$scratch/cgroup" ] || ! kill -0 "$pid" 2>/dev/null; do sleep 0.05; done
    mkdir -p "${cgroups[0]}/own"
    echo "$pid" >"${cgroups[0]}/own/cgroup.procs" || true
fi
status=0
wait "$pid" || status=$?
pid=
exit "$status"
