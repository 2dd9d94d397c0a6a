#!/usr/bin/env bash
# Builds the image of the top-level Dockerfile without a container engine, and prints the path of its archive.
# The base image is a Debian with Python, made by debootstrap. Both are kept in the end-to-end tests' cache until what
# they are made from changes. Needs root, debootstrap and buildah (run.sh installs them).
set -euo pipefail
self=$(realpath "$0")
cd "$(dirname "$self")/../.."

suite=bookworm # its Python is 3.11, as the Dockerfile's own base
packages=python3,python3-venv,ca-certificates
mirror=${NUMAPLACE_DEBIAN_MIRROR:-http://deb.debian.org/debian}
name=localhost/numaplace
tag=e2e
cache=${NUMAPLACE_CACHE:-${XDG_CACHE_HOME:-$HOME/.cache}/numaplace}/e2e
# Where this machine trusts more than Debian does (a proxy's certificate), the build has to as well.
certificates=/etc/ssl/certs/ca-certificates.crt

say() { printf 'cluster: %s\n' "$*" >&2; }

# Everything that mounts runs in a mount namespace of its own: whatever happens, no mount is left when the folders
# are removed. /dev is read-only there: nothing that runs as root can replace a device.
private() {
    nice unshare --mount --propagation private bash -c '
        mount --bind /dev /dev && mount -o remount,bind,ro /dev && exec "$@"' private "$@"
}

make_base() {
    local started=$SECONDS
    say "base image: debootstrap of $suite; this takes a minute or two, once"
    mkdir "$scratch/root"
    private debootstrap --variant=minbase --include="$packages" "$suite" "$scratch/root" "$mirror" >"$scratch/log" 2>&1 ||
        { tail -n 30 "$scratch/log" >&2; return 1; }
    rm -rf "$scratch"/root/var/cache/apt/* "$scratch"/root/var/lib/apt/lists/* "$scratch"/root/usr/share/{doc,man,locale}/*
    cp "$certificates" "$scratch/root/etc/ssl/certs/ca-certificates.crt"
    printf '[global]\ncert = %s\n' "$certificates" >"$scratch/root/etc/pip.conf"
    tar --one-file-system --exclude=./dev/* --exclude=./proc/* --exclude=./sys/* -C "$scratch/root" -cf "$base.part" .
    mv "$base.part" "$base"
    say "base image: made in $((SECONDS - started)) s, $(du -m "$base" | cut -f1) MB"
}

# What runs in the namespace: archive, base, name of the image.
build_image() {
    export BUILDAH_ISOLATION=chroot STORAGE_DRIVER=vfs XDG_RUNTIME_DIR=$scratch/run TMPDIR=$scratch/tmp
    local buildah=(buildah --root "$scratch/storage" --runroot "$scratch/runroot") container
    mkdir -p "$XDG_RUNTIME_DIR" "$TMPDIR"
    container=$("${buildah[@]}" from scratch)
    "${buildah[@]}" add --quiet "$container" "$2" / >/dev/null
    "${buildah[@]}" commit --quiet "$container" localhost/numaplace-base:e2e >/dev/null
    "${buildah[@]}" rm "$container" >/dev/null
    "${buildah[@]}" bud --quiet --pull-never --format oci --build-arg BASE=localhost/numaplace-base:e2e \
        --build-arg REVISION="$(git rev-parse HEAD 2>/dev/null || echo unknown)" \
        --ignorefile .dockerignore --tag "$3" --file Dockerfile .
    container=$("${buildah[@]}" from --pull-never "$3")
    printf 'cluster: image: '
    "${buildah[@]}" run "$container" -- numaplace --version
    "${buildah[@]}" run --user 65532 "$container" -- numaplace --version # what opens no socket needs no root
    "${buildah[@]}" push --quiet "$3" "docker-archive:$1:$3"
}

make_image() {
    local started=$SECONDS
    say "image: building it"
    rm -f "$archive.part"
    export scratch
    export -f build_image
    private bash -euo pipefail -c 'build_image "$@"' build "$archive.part" "$base" "$name:$tag" >"$scratch/log" 2>&1 ||
        { tail -n 40 "$scratch/log" >&2; return 1; }
    grep '^cluster: image:' "$scratch/log" >&2
    python3 image/check.py "$archive.part" >&2
    mv "$archive.part" "$archive"
    say "image: built in $((SECONDS - started)) s"
}

scratch=$(mktemp -d /tmp/np-image.XXXXXX)
trap 'rm -rf --one-file-system "$scratch"' EXIT
mkdir -p "$cache"

base=$cache/base-$suite-$({ echo "$packages"; sed -n '/^make_base/,/^}/p' "$self"; cat "$certificates"; } | sha256sum | cut -c1-12).tar
[ -f "$base" ] || make_base
inputs=$({
    cat Dockerfile .dockerignore
    sed -n '/^build_image/,/^}/p' "$self"
    echo "$base"
    # What .dockerignore lets through, as it lies in the working tree.
    find LICENSE README.md image plugin pyproject.toml requirements -type f ! -path '*/__pycache__/*' ! -path '*.egg-info/*' -print0 |
        sort -z | xargs -0 sha256sum
} | sha256sum | cut -c1-12)
archive=$cache/image-$inputs.tar
if [ -f "$archive" ]; then
    say "image: built already"
else
    make_image
    # One image is 200 MB and every change of the code makes another one.
    find "$cache" -maxdepth 1 -name 'image-*.tar' ! -path "$archive" -delete
fi
own=$(tar -xOf "$archive" manifest.json | python3 -c '
import json, sys
layers = json.load(sys.stdin)[0]["Layers"]
print(layers[-1])')
say "image: $(du -m "$archive" | cut -f1) MB unpacked, of which $(($(tar -tvf "$archive" "$own" | awk '{print $3}') / 1000000)) MB are not the base"
echo "$archive"
