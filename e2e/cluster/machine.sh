#!/usr/bin/env bash
# Where the cluster runs: run.sh starts this as the first process of new mount, PID, network, IPC, UTS and cgroup
# namespaces. It makes the machine read-only except for the scratch folder, makes the network that joins the nodes,
# and runs a command, which has the control plane and starts the nodes (node.sh) in namespaces of their own. When it
# ends, the kernel ends every process, mount and network device of the cluster.
#
#   machine.sh <scratch folder> <folder for logs> <command> ...
set -euo pipefail
here=$(dirname "$0")
# shellcheck source=cgroups.sh
. "$here/cgroups.sh"

scratch=$1
logs=$2
shift 2

mount --make-rprivate /
mount --bind "$scratch" "$scratch"
mount --bind "$logs" "$logs"
mkdir -p "$scratch"/{tmp,cgroup}
# How node.sh enters the groups of a node from here.
mount_cgroups "$scratch/cgroup"
share_out "$scratch/cgroup"
mount -t tmpfs -o mode=755 tmpfs /run
mount --bind /dev /dev
for point in / /dev /home /root /tmp /usr /var /opt; do
    if mountpoint --quiet "$point"; then mount -o remount,bind,ro "$point"; fi
done

# One bridge joins the nodes. Nothing leads out.
ip link set lo up
ip link add nodes type bridge
ip address add 10.88.0.1/24 dev nodes
# The service "kubernetes": the API server listens on every address here.
ip address add 10.96.0.1/32 dev nodes
ip link set nodes up
echo 1 >/proc/sys/net/ipv4/ip_forward

export TMPDIR=$scratch/tmp
"$@" &
command=$!
status=0
wait "$command" || status=$?
exit "$status"
