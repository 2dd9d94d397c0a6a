#!/bin/sh
# Packs the kubectl plugin for krew (https://krew.sigs.k8s.io), and writes the manifest with its checksum (GNU tar):
#   kubectl-plugin/package.sh FOLDER [URL]
#   kubectl krew install --manifest=FOLDER/numaplace.yaml --archive=FOLDER/kubectl-numaplace.tar.gz
# URL is where the archive will be for others. The same files give the same archive.
set -eu
here=$(cd "$(dirname "$0")" && pwd)
folder=$1
url=${2:-https://example.com/kubectl-numaplace.tar.gz}
version=$(sed -n 's/^version = "\(.*\)"$/\1/p' "$here/../pyproject.toml")
archive=$folder/kubectl-numaplace.tar.gz
mkdir -p "$folder"
tar --create --sort=name --owner=0 --group=0 --numeric-owner --mode=u=rwX,go=rX --mtime=@0 \
    --directory "$here" kubectl-numaplace kubectl_complete-numaplace \
    --directory "$here/.." LICENSE | gzip --no-name >"$archive"
cat >"$folder/numaplace.yaml" <<END
apiVersion: krew.googlecontainertools.github.com/v1alpha2
kind: Plugin
metadata:
  name: numaplace
spec:
  version: v$version
  shortDescription: Shows and checks device placement on NUMA nodes
  description: |
    Runs inspect, doctor and config check of the numaplace device plugin in its
    pod on a node: which pod holds which devices, CPUs and memory on which NUMA
    node, what is wrong with a node, and what its configuration is.
  platforms:
    - selector:
        matchExpressions:
          - {key: os, operator: In, values: [linux, darwin]}
      uri: $url
      sha256: $(sha256sum "$archive" | cut -d' ' -f1)
      bin: kubectl-numaplace
      files:
        - {from: kubectl-numaplace, to: .}
        - {from: kubectl_complete-numaplace, to: .}
        - {from: LICENSE, to: .}
END
echo "$archive"
echo "$folder/numaplace.yaml"
