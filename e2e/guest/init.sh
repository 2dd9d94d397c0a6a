#!/bin/busybox sh
# shellcheck shell=dash
# The guest's first process, twice. In the initial RAM file system it mounts the file systems of the disks over each
# other and goes on in them; there, it starts the agent and ends what has no parent. Each step is told on the console.
up() { read -r now _ </proc/uptime; echo "$now"; }
say() { echo "@@ $* (up $(up))"; }

if [ -d /payload ]; then
    /payload/bin/agent serve &
    say "agent started"
    while :; do wait; done
fi

export PATH=/bin
busybox mkdir -p /proc /sys /dev /run
busybox mount -t proc proc /proc
busybox mount -t sysfs sys /sys
busybox mount -t devtmpfs dev /dev
say "kernel $(busybox uname -r)"
while read -r module; do busybox insmod "/modules/$module" || say "not loaded: $module"; done </modules/order
# The management network: what the agent is reached by.
busybox ip link set lo up
busybox ip link set eth0 name mgmt
busybox ip link set mgmt up
busybox ip address add 10.0.2.15/24 dev mgmt
busybox ip route add default via 10.0.2.2 dev mgmt
busybox mkdir -p /base /app /payload /volatile /root
busybox mount -t squashfs -o ro /dev/vda /base
busybox mount -t squashfs -o ro /dev/vdb /app
busybox mount -t squashfs -o ro /dev/vdc /payload
busybox mount -t tmpfs tmpfs /volatile
busybox mkdir /volatile/upper /volatile/work
busybox mount -t overlay -o lowerdir=/app:/base,upperdir=/volatile/upper,workdir=/volatile/work overlay /root
say "file systems mounted"
cd /root || exit 1
busybox mkdir -p payload var/lib/containerd var/lib/kubelet var/log run tmp sys/fs/cgroup
busybox mount --move /payload payload
# Containers' file systems are overlayfs, too, and may not lie over another one.
busybox mount -t ext4 /dev/vdd var/lib/containerd
for place in proc sys dev; do busybox mount --move /$place $place; done
busybox mkdir -p dev/pts dev/shm
busybox mount -t devpts devpts dev/pts
busybox mount -t tmpfs tmpfs dev/shm
busybox mount -t tmpfs tmpfs run
busybox mount -t tmpfs tmpfs tmp
busybox mount -t cgroup2 cgroup2 sys/fs/cgroup
busybox mkdir var/lib/containerd/kubelet var/lib/containerd/log
busybox mount --bind var/lib/containerd/kubelet var/lib/kubelet
busybox mount --bind var/lib/containerd/log var/log
busybox hostname n1
# All CPUs are emulated in one thread: Go programs that look for work on several of them keep others from theirs.
export GOMAXPROCS=1
echo "127.0.0.1 localhost n1" >etc/hosts
export PATH=/opt/numaplace/bin:/payload/bin:/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin HOME=/root
exec busybox switch_root /root /payload/bin/busybox sh /payload/init.sh
