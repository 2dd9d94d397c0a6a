# shellcheck shell=bash
# Sourced by machine.sh and node.sh: cgroups of both versions, seen from inside a cgroup namespace.

if [ -f /sys/fs/cgroup/cgroup.controllers ]; then cgroup_version=2; else cgroup_version=1; fi

# Mounts each hierarchy (version 1), or the one (version 2), as the namespace sees it, in a folder.
mount_cgroups() {
    local folder=$1 controllers
    mount -t tmpfs -o mode=755 tmpfs "$folder"
    if [ "$cgroup_version" = 2 ]; then
        mount -t cgroup2 cgroup2 "$folder"
        return
    fi
    while IFS=: read -r _ controllers _; do
        [ -n "$controllers" ] || continue
        mkdir "$folder/${controllers#name=}"
        # A hierarchy has controllers, or a name (systemd's).
        case $controllers in name=*) mount -t cgroup -o "none,$controllers" cgroup "$folder/${controllers#name=}" ;;
        *) mount -t cgroup -o "$controllers" cgroup "$folder/$controllers" ;; esac
    done </proc/self/cgroup
}

# Prints the folders of the namespace's own group: one for each hierarchy.
cgroup_roots() {
    if [ "$cgroup_version" = 2 ]; then echo "$1"; else find "$1" -mindepth 1 -maxdepth 1 -type d; fi
}

# Makes a group in each hierarchy, and puts this process into it.
enter_new_group() {
    local folder=$1 name=$2 root file
    cgroup_roots "$folder" | while read -r root; do
        mkdir "$root/$name"
        # Version 1: a new group has no CPUs and no memory nodes, and takes no process until it has.
        for file in cpuset.cpus cpuset.mems; do
            [ "$cgroup_version" = 2 ] || [ ! -f "$root/$file" ] || cat "$root/$file" >"$root/$name/$file"
        done
        echo $$ >"$root/$name/cgroup.procs"
    done
}

# Version 2: a group whose controllers are shared out may hold no process itself. The first process of our PID
# namespace has a parent outside of it, which run.sh moves at the same time.
share_out() {
    local folder=$1 pid deadline=$((SECONDS + 10))
    [ "$cgroup_version" = 2 ] || return 0
    mkdir -p "$folder/own"
    until sed 's/[^ ][^ ]*/+&/g' "$folder/cgroup.controllers" 2>/dev/null >"$folder/cgroup.subtree_control"; do
        [ "$SECONDS" -lt "$deadline" ] || return 1
        while read -r pid; do echo "$pid" >"$folder/own/cgroup.procs" || true; done <"$folder/cgroup.procs"
        sleep 0.1
    done 2>/dev/null
}
