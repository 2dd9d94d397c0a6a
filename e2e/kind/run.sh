#!/usr/bin/env bash
# The cluster tests on kind (e2e/kind/README.md): the same tests as e2e/cluster/run.sh, where there is docker.
#
#   e2e/kind/run.sh [pytest arguments]
#
# Needs root, docker, kind, kubectl, helm and a .venv (`make e2e-kind` makes it).
set -euo pipefail
cd "$(dirname "$0")"
python=$(realpath -s ../../.venv/bin/python)
image=localhost/numaplace:e2e

die() { printf 'kind: %s\n' "$*" >&2; exit 2; }

[ "$(id -u)" = 0 ] || die "must run as root: the tests read the kubelets' sockets"
[ -x "$python" ] || die "there is no .venv: run 'make e2e-kind' in the repository root"
for tool in docker kind kubectl helm; do
    command -v "$tool" >/dev/null || die "'$tool' is missing"
done
docker info >/dev/null 2>&1 || die "docker does not answer: is its engine running on this machine?"

scratch=$(mktemp -d /tmp/npk.XXXXXX)
pid=
clean_up() {
    trap '' INT TERM HUP
    # pytest deletes the cluster at its own end; this is for the case that it could not.
    [ -z "$pid" ] || { kill -TERM "$pid" 2>/dev/null || true; wait "$pid" 2>/dev/null || true; }
    kind delete cluster --name numaplace-e2e --kubeconfig "$scratch/kubeconfig" >/dev/null 2>&1 || true
    rm -rf --one-file-system "$scratch"
}
trap clean_up EXIT
trap 'exit 130' INT TERM HUP

docker build --quiet --tag "$image" ../.. >/dev/null
docker save --output "$scratch/image.tar" "$image"

mkdir -p ../logs/kind
NUMAPLACE_CLUSTER_SCRATCH=$scratch NUMAPLACE_CLUSTER_LOGS=$(realpath ../logs/kind) NUMAPLACE_CLUSTER_IMAGE=$scratch/image.tar \
    NUMAPLACE_CLUSTER_KUBECTL=$(command -v kubectl) NUMAPLACE_CLUSTER_HELM=$(command -v helm) \
    "$python" -m pytest -c ../cluster/pytest.ini --rootdir ../cluster --cluster kind --ignore ../cluster/test_offline.py "$@" &
pid=$!
status=0
wait "$pid" || status=$?
pid=
exit "$status"
