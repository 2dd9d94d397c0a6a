#!/usr/bin/env bash
# Unpacks Debian packages into a folder of the end-to-end tests' cache and prints its path. Nothing is installed on this
# machine: a package list, a cache and a dpkg state of our own, thrown away at the end. What is unpacked comes with all
# its libraries and its own loader, so that it runs on any machine with this processor.
#
#   root/      QEMU with igb NICs that have VFs (bookworm's own is too old: backports), squashfs tools, busybox, runc
#   kernel/    a kernel with its modules; the -cloud kernel lacks igb, igbvf and vfio-pci
#   versions   what was unpacked
set -euo pipefail
self=$(realpath "$0")

suite=bookworm
mirror=${NUMAPLACE_DEBIAN_MIRROR:-http://deb.debian.org/debian}
security=${NUMAPLACE_DEBIAN_SECURITY_MIRROR:-http://deb.debian.org/debian-security}
keyring=/usr/share/keyrings/debian-archive-keyring.gpg
cache=${NUMAPLACE_CACHE:-${XDG_CACHE_HOME:-$HOME/.cache}/numaplace}/e2e

say() { printf 'guest: %s\n' "$*" >&2; }

target=$cache/guest-packages-$(sha256sum "$self" | cut -c1-12)
if [ -d "$target" ]; then
    echo "$target"
    exit
fi

for tool in apt-get dpkg; do
    command -v "$tool" >/dev/null || { say "'$tool' is missing: this needs Debian or a relative of it"; exit 2; }
done
[ -e "$keyring" ] || { say "$keyring is missing (package debian-archive-keyring)"; exit 2; }
started=$SECONDS
say "downloading QEMU, a kernel and tools from Debian $suite; this takes a minute or two, once"
scratch=$(mktemp -d /tmp/np-packages.XXXXXX)
trap 'rm -rf "$scratch"' EXIT
mkdir -p "$cache" "$scratch"/{lists/partial,apt/archives/partial,new/root,new/kernel,kernel}
cat >"$scratch/sources.list" <<END
deb [signed-by=$keyring] $mirror $suite main
deb [signed-by=$keyring] $mirror $suite-backports main
deb [signed-by=$keyring] $security $suite-security main
END
: >"$scratch/status"
options=(-q -o "Dir::Etc::SourceList=$scratch/sources.list" -o "Dir::Etc::SourceParts=$scratch/none"
    -o "Dir::State::Lists=$scratch/lists" -o "Dir::State::status=$scratch/status" -o "Dir::Cache=$scratch/apt"
    -o APT::Architecture=amd64 -o APT::Sandbox::User=root -o APT::Install-Recommends=false)
run() { "$@" >>"$scratch/log" 2>&1 || { tail -n 20 "$scratch/log" >&2; return 1; }; }

run apt-get "${options[@]}" update
# A name without a number stands for the newest kernel.
kernel=$(apt-cache "${options[@]}" depends linux-image-amd64 | awk '/Depends:/ {print $2; exit}')
run apt-get "${options[@]}" install --yes --download-only --target-release $suite-backports qemu-system-x86
run apt-get "${options[@]}" install --yes --download-only squashfs-tools busybox-static runc
(cd "$scratch/kernel" && run apt-get "${options[@]}" download "$kernel")
for package in "$scratch"/apt/archives/*.deb; do dpkg -x "$package" "$scratch/new/root"; done
dpkg -x "$scratch"/kernel/*.deb "$scratch/new/kernel"
for package in "$scratch"/apt/archives/*.deb "$scratch"/kernel/*.deb; do
    dpkg-deb --show --showformat='${Package} ${Version}\n' "$package"
done >"$scratch/new/versions"
rm -rf "$scratch"/new/root/usr/share/{doc,man,locale,icons}
mv "$scratch/new" "$target.part"
mv "$target.part" "$target"
say "packages: done in $((SECONDS - started)) s, $(du -sm "$target" | cut -f1) MB: $(grep -E '^(qemu-system-x86|linux-image[^ ]*|runc) ' "$target/versions" | tr '\n' ',')"
echo "$target"
