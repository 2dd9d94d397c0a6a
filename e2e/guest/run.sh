#!/usr/bin/env bash
# The guest tests: real NUMA nodes and real VFs in an emulated machine (e2e/guest/README.md).
#
#   e2e/guest/run.sh [pytest arguments]     builds what is missing, then runs the tests
#   e2e/guest/run.sh --prepare              only builds what is missing
#
# Needs root and a .venv (`make e2e-guest` makes it).
set -euo pipefail
cd "$(dirname "$0")"
python=$(realpath -s ../../.venv/bin/python)

say() { printf 'guest: %s\n' "$*"; }
die() { printf 'guest: %s\n' "$*" >&2; exit 2; }

. ../debian.sh
# Command and Debian package.
needed="debootstrap debootstrap
buildah buildah
mkfs.ext4 e2fsprogs
setpriv util-linux"

clean_up() {
    trap '' INT TERM HUP
    [ -z "$pid" ] || { kill -TERM "$pid" 2>/dev/null || true; wait "$pid" 2>/dev/null || true; }
    rm -rf "$scratch"
    rmdir "$logs" 2>/dev/null || true
}

[ "$(id -u)" = 0 ] || die "must run as root: it unpacks file systems that belong to root"
[ "$(uname -m)" = x86_64 ] || die "the guests are made for x86_64"
[ -x "$python" ] || die "there is no .venv: run 'make e2e-guest' in the repository root"
install_missing "$needed"
parts=$(./build.sh)
[ "${1:-}" != --prepare ] || exit 0

scratch=$(mktemp -d /tmp/npg.XXXXXX)
logs=$PWD/logs
pid=
trap clean_up EXIT
trap 'exit 130' INT TERM HUP
mkdir -p "$logs"
rm -rf "${logs:?}"/*
# The parts stay as they are, whoever else cleans the cache.
mkdir "$scratch/parts"
while IFS='=' read -r name path; do
    if [ -f "$path" ] && ln "$path" "$scratch/parts/$name" 2>/dev/null; then path=$scratch/parts/$name; fi
    echo "$name=$path"
done <<<"$parts" >"$scratch/built"

env NUMAPLACE_GUEST_BUILT="$scratch/built" NUMAPLACE_GUEST_SCRATCH="$scratch" PYTHONDONTWRITEBYTECODE=1 \
    "$python" -m pytest -c "$PWD/pytest.ini" "$@" &
pid=$!
status=0
wait "$pid" || status=$?
pid=
exit "$status"
