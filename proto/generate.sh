#!/usr/bin/env bash
# Generates plugin/numaplace/kubelet/api from the upstream .proto files (proto/README.md).
# With --check it changes nothing and fails if the committed code is not what would be generated.
set -euo pipefail
cd "$(dirname "$0")/.."
target=plugin
python=.venv/bin/python
if [ "${1:-}" = --check ]; then
    target=$(mktemp -d)
    trap 'rm -rf "$target"' EXIT
fi
PATH="$PWD/.venv/bin:$PATH" "$python" -m grpc_tools.protoc --proto_path=proto \
    --python_out="$target" --grpc_python_out="$target" --mypy_out=quiet:"$target" --mypy_grpc_out=quiet:"$target" \
    proto/numaplace/kubelet/api/*.proto
printf '"""Generated from proto/numaplace/kubelet/api by proto/generate.sh; never edited."""\n' \
    > "$target/numaplace/kubelet/api/__init__.py"
if [ "${1:-}" = --check ]; then
    if ! diff -r --exclude=__pycache__ "$target/numaplace/kubelet/api" plugin/numaplace/kubelet/api; then
        echo "generated code is not current: run 'make proto'" >&2
        exit 1
    fi
    echo "generated code is current"
fi
