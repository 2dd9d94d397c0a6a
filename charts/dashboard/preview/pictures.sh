#!/usr/bin/env bash
# Makes the pictures of docs/dashboard.md: a small fleet of real daemons on simulated nodes, scraped by a real
# Prometheus for some minutes (11 if not given), and the dashboard's panels drawn from it. Needs Go and Chromium.
set -euo pipefail
cd "$(dirname "$0")/../../.."
minutes=${1:-11}
python=.venv/bin/python
browser=$(command -v chromium || command -v google-chrome) || {
    echo "pictures: Chromium is missing (Debian package: chromium)" >&2
    exit 2
}
prometheus=$(tests/chart/tool.sh prometheus)
port=19090
scratch=$(mktemp -d /tmp/np-pictures.XXXXXX) # short: it holds sockets
running=()
cleanup() {
    for one in "${running[@]}"; do kill "$one" 2>/dev/null || true; done
    wait
    rm -rf --one-file-system "$scratch"
}
trap cleanup EXIT

mkdir "$scratch/fleet" "$scratch/browser"
"$python" -m charts.dashboard.preview.fleet "$scratch/fleet" "$minutes" &
fleet=$!
running+=("$fleet")
for _ in {1..120}; do
    [ -s "$scratch/fleet/prometheus.yaml" ] && break
    sleep 0.5
done
"$prometheus" --config.file="$scratch/fleet/prometheus.yaml" --storage.tsdb.path="$scratch/data" \
    --web.listen-address="127.0.0.1:$port" --log.level=error &
running+=("$!")

# Name, then what the page shows (charts/dashboard/preview/__main__.py).
picture() {
    local name=$1 height page=$scratch/$1.html
    shift
    "$python" -m charts.dashboard.preview "http://127.0.0.1:$port" "$page" "$minutes" "$@"
    height=$(grep -o 'height:[0-9]*px;width' "$page" | head -n 1 | tr -dc 0-9)
    "$browser" --headless --no-sandbox --disable-gpu --hide-scrollbars --user-data-dir="$scratch/browser" \
        --window-size="1608,$((height + 24))" --screenshot="docs/images/dashboard-$name.png" "file://$page" 2>"$scratch/log"
}

# Some seconds before the end, while all daemons still answer.
sleep "$((minutes * 60 - 15))"
picture fleet rows=Fleet,Capacity,Fragmentation
picture decisions rows=Decisions,Steering
picture daemons "rows=Devices,Kubelet,API server"
picture node "rows=Single nodes" node=tm-01
wait "$fleet"
