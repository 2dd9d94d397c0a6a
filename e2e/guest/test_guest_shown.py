"""docs/guest.md shows what this guest shows.

``NUMAPLACE_GUEST_REFRESH=1`` writes what is seen into the page, in place of what it has.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterator
from pathlib import Path

import pytest
from guest.daemon import CONFIGURATION
from guest.node import CONFIGURATION as KUBELET_CONFIGURATION
from guest.placing import aligned, wait_withheld
from guest.site import NET, POD_SECONDS, VFIO, Site
from harness.flows import run_one_by_one
from harness.pods import Pod

PAGE = Path(__file__).resolve().parents[2] / "docs/guest.md"
REQUEST = {NET: 1, VFIO: 1, "cpu": 1, "memory": "64Mi"}
FIREWALL, ROUTER = Pod.of("firewall", REQUEST), Pod.of("router", REQUEST)
# What is worth a look; the page of all metrics is docs/metrics.md.
METRICS = re.compile(r"numaplace_(allocat|score|largest|numa_|devices|steering_(with|breaker_open))")


@pytest.fixture(scope="module")
def shown(site: Site) -> Iterator[Site]:
    """Two pods, of which the second has been steered to the NUMA node that the first one is not on."""
    site.under(aligned("single-numa-node"))
    # Its counters begin anew.
    site.daemon.kill()
    steering = {"requests": [REQUEST]}
    kubelet = {"configFile": KUBELET_CONFIGURATION}
    site.serve("least-allocated", more={"steering": steering, "kubelet": kubelet})
    run_one_by_one(site.node, [FIREWALL], limit_seconds=POD_SECONDS)
    wait_withheld(site, 0)
    run_one_by_one(site.node, [ROUTER], limit_seconds=POD_SECONDS)
    yield site
    site.node.clear()


@pytest.mark.parametrize("command", ["inspect", "doctor"])
def test_command(shown: Site, command: str) -> None:
    arguments = ("numaplace", command, "--config", CONFIGURATION)
    compare(command, shown.guest.agent.run(*arguments, seconds=120))


def test_metrics(shown: Site) -> None:
    lines = [line for line in shown.daemon.metrics().splitlines() if METRICS.match(line)]
    compare("metrics", "\n".join(lines))


def compare(name: str, seen: str) -> None:
    """Check that the page's block of this name has what was seen, but for numbers and line ends."""
    page = PAGE.read_text()
    block = re.compile(rf"(?<=<!-- guest: {name} -->\n```text\n).*?(?=\n```)", re.DOTALL)
    found = block.search(page)
    assert found, f"{PAGE} has no block for {name}"
    if os.environ.get("NUMAPLACE_GUEST_REFRESH"):
        PAGE.write_text(page[: found.start()] + seen.strip() + page[found.end() :])
        return
    assert request(seen) == request(found[0])


def request(text: str) -> str:
    """Return the text without what differs from run to run: numbers, socket names, where lines end."""
    text = re.sub(r"numaplace-[0-9a-f-]+\.sock", "numaplace-#.sock", text)
    return " ".join(re.sub(r"\d+(\.\d+)?", "#", text).split())
