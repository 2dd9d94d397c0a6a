#!/usr/bin/env bash
# One simulated node: a process with a mount, network, IPC, UTS and cgroup namespace of its own, into which nodes.py
# puts the node's container runtime and kubelet. Made-up trees lie over /sys, /proc and /dev there, and scratch folders
# over what these write to; the rest of the machine is read-only already (machine.sh).
#
#   node.sh <scratch folder of the cluster> <name> <number> <NUMA nodes>
#
# The file <scratch>/<name>/ready appears when processes may enter.
set -euo pipefail
self=$(realpath "$0")
here=$(dirname "$self")
# shellcheck source=cgroups.sh
. "$here/cgroups.sh"

scratch=$1
name=$2
number=$3
numa_nodes=$4
folder=$scratch/$name
host=$folder/host

# Outside: a group, a network namespace and a wire to the bridge; the node's address, and the way to its pods.
make_outside() {
    local address=10.88.0.1$number
    enter_new_group "$scratch/cgroup" "$name"
    ip netns add "$name"
    ip link add "$name" master nodes up type veth peer name eth0 netns "$name"
    ip -n "$name" link set lo up
    ip -n "$name" address add "$address/24" dev eth0
    ip -n "$name" link set eth0 up
    ip -n "$name" route add default via 10.88.0.1
    ip route add "10.88.$number.0/24" via "$address"
}

make_trees() {
    mkdir -p "$host/dev"
    mount -t tmpfs -o mode=755 tmpfs "$host/dev"
    "$here/../../.venv/bin/python" "$here/lay_out.py" "$host" "$numa_nodes"
    mount -t devpts -o newinstance,ptmxmode=0666,mode=620 devpts "$host/dev/pts"
    ln -s pts/ptmx "$host/dev/ptmx"
    ln -s /proc/self/fd "$host/dev/fd"
    mount -t tmpfs -o mode=1777 tmpfs "$host/dev/shm"
    mount_cgroups "$host/sys/fs/cgroup"
    share_out "$host/sys/fs/cgroup"
}

mount_trees() {
    # Kernel tunables of the machine stay; those of the network are the namespace's own.
    mount --bind /proc/sys /proc/sys
    mount --bind /proc/sys/net /proc/sys/net
    mount -o remount,bind,ro /proc/sys
    (cd "$host/proc" && find sys meminfo -type f) | while read -r file; do mount --bind "$host/proc/$file" "/proc/$file"; done
    mount --bind "$host/proc/driver" /proc/driver

    mount -t tmpfs tmpfs "$folder/volatile"
    mkdir "$folder"/volatile/{etc,work}
    mount -t overlay overlay -o "lowerdir=/etc,upperdir=$folder/volatile/etc,workdir=$folder/volatile/work" /etc
    mount -t tmpfs -o mode=755 tmpfs /run
    mount --bind "$folder/lib" /var/lib
    # As on a host, where systemd shares all mounts: otherwise the kubelet bind-mounts its folder over itself at its
    # start, in a race with its own PodResources socket ("invalid cross-device link").
    mkdir -p /var/lib/kubelet
    mount --bind /var/lib/kubelet /var/lib/kubelet
    mount --make-rshared /var/lib/kubelet
    mount --bind "$folder/log" /var/log
    mount --bind "$folder/tmp" /var/tmp
    mount --rbind "$host/sys" /sys
    mount --rbind "$host/dev" /dev
}

# Where a process that enters the namespaces has to put itself: they do not bring it into the node's group.
tell_groups() {
    if [ "$cgroup_version" = 2 ]; then echo /sys/fs/cgroup/own/cgroup.procs; else ls /sys/fs/cgroup/*/cgroup.procs; fi
}

if [ "${5:-}" != inside ]; then
    mkdir -p "$folder"/{lib,log,tmp,volatile,manifests}
    make_outside
    exec nsenter --net="/run/netns/$name" unshare --mount --ipc --uts --cgroup \
        "$self" "$scratch" "$name" "$number" "$numa_nodes" inside
fi
make_trees
mount_trees
hostname "$name"
tell_groups >/run/groups
touch "$folder/ready"
exec sleep infinity
