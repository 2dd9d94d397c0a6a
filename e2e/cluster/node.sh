#!/usr/bin/env bash
# The inside of the simulated node: run.sh starts it as the first process of new mount, PID, network, IPC, UTS and
# cgroup namespaces. It lays made-up trees over /sys, /proc and /dev, and scratch folders over what a kubelet and a
# container runtime write to, makes the rest of the machine read-only, and runs a command. When it ends, the kernel
# ends every process, mount and network device of the node.
#
#   node.sh <scratch folder> <folder for logs> <command> ...
set -euo pipefail

scratch=$1
logs=$2
shift 2
host=$scratch/host

mount --make-rprivate /
mount --bind "$scratch" "$scratch"
mount --bind "$logs" "$logs"
mkdir -p "$scratch"/{host/dev,lib,log,tmp,etc,volatile}

mount -t tmpfs -o mode=755 tmpfs "$host/dev"
python3=$(dirname "$0")/../../.venv/bin/python
"$python3" "$(dirname "$0")/lay_out.py" "$host"
mount -t devpts -o newinstance,ptmxmode=0666,mode=620 devpts "$host/dev/pts"
ln -s pts/ptmx "$host/dev/ptmx"
ln -s /proc/self/fd "$host/dev/fd"
mount -t tmpfs -o mode=1777 tmpfs "$host/dev/shm"

# The namespace's own view of each cgroup hierarchy: what is made in it lies under run.sh's group.
mount -t tmpfs -o mode=755 tmpfs "$host/sys/fs/cgroup"
if [ -f /sys/fs/cgroup/cgroup.controllers ]; then
    mount -t cgroup2 cgroup2 "$host/sys/fs/cgroup"
    # A group whose controllers are shared out may hold no process itself.
    mkdir "$host/sys/fs/cgroup/tests"
    for pid in $(cat "$host/sys/fs/cgroup/cgroup.procs"); do
        echo "$pid" >"$host/sys/fs/cgroup/tests/cgroup.procs" || true
    done
else
    while IFS=: read -r _ controllers _; do
        [ -n "$controllers" ] || continue
        folder=$host/sys/fs/cgroup/${controllers#name=}
        mkdir "$folder"
        # A hierarchy has controllers, or a name (systemd's).
        case $controllers in name=*) controllers=none,$controllers ;; esac
        mount -t cgroup -o "$controllers" cgroup "$folder"
    done </proc/self/cgroup
fi

# Kernel tunables of the machine stay; those of the network are the namespace's own.
mount --bind /proc/sys /proc/sys
mount --bind /proc/sys/net /proc/sys/net
mount -o remount,bind,ro /proc/sys
(cd "$host/proc" && find sys meminfo -type f) | while read -r file; do mount --bind "$host/proc/$file" "/proc/$file"; done
mount --bind "$host/proc/driver" /proc/driver

mount -t tmpfs tmpfs "$scratch/volatile"
mkdir "$scratch"/volatile/{etc,work}
mount -t overlay overlay -o "lowerdir=/etc,upperdir=$scratch/volatile/etc,workdir=$scratch/volatile/work" /etc
mount -t tmpfs -o mode=755 tmpfs /run
mount --bind "$scratch/lib" /var/lib
# As on a host, where systemd shares all mounts: otherwise the kubelet bind-mounts its folder over itself at its start,
# in a race with its own PodResources socket ("invalid cross-device link").
mkdir -p /var/lib/kubelet
mount --bind /var/lib/kubelet /var/lib/kubelet
mount --make-rshared /var/lib/kubelet
mount --bind "$scratch/log" /var/log
mount --bind "$scratch/tmp" /var/tmp
mount --rbind "$host/sys" /sys
mount --rbind "$host/dev" /dev
for point in / /home /root /tmp /usr /var /opt; do
    if mountpoint --quiet "$point"; then mount -o remount,bind,ro "$point"; fi
done

# One bridge is the node's address and the pods' gateway. Nothing leads out.
ip link set lo up
ip link add cni0 type bridge
ip address add 10.88.0.1/24 dev cni0
# The service "kubernetes": the API server listens on every address of the node.
ip address add 10.96.0.1/32 dev cni0
ip link set cni0 up
hostname n1

export TMPDIR=$scratch/tmp
"$@" &
command=$!
status=0
wait "$command" || status=$?
exit "$status"
