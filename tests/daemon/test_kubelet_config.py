"""What steering knows of the kubelet: where its configuration is found, and what cannot be predicted."""

from __future__ import annotations

import logging
import os
import time
from collections.abc import AsyncIterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from daemon_site import GPU, NODES, Site
from hypothesis import given
from hypothesis import strategies as st
from numaplace.cluster.fake import FakeApiServer
from numaplace.config.schema import Config
from numaplace.daemon.cluster.part import ClusterPart, cluster_part
from numaplace.daemon.runtime.logs import EventLog
from numaplace.daemon.steering.kubelet_probe import KnownKubelet, find_kubelet, steering_node
from numaplace.devices.cpu_topology import read_cpu_topology
from numaplace.devices.host import read_topology
from numaplace.engine.options import PolicyName
from numaplace.kubelet.config.model import NOT_PREDICTED_GATES
from numaplace.kubelet.config.read import KubeletSettings
from numaplace.kubelet.podresources.client import connect
from numaplace.managers.admission import Scope
from numaplace.managers.cpu.policy import NoneCpuPolicy
from numaplace.managers.cpu.static import StaticCpuPolicy
from numaplace.managers.cpu.topology import CpuDetail, CpuTopology
from numaplace.managers.memory.policies import NoneMemoryPolicy
from numaplace.managers.memory.static import StaticMemoryPolicy
from numaplace.metrics.metrics import Metrics
from numaplace.model.names import MEMORY, ResourceName, Strategy
from numaplace.model.podresources import Allocatable, MemoryBlock
from numaplace.model.topology import NumaTopology
from test_daemon_cluster import NODE, env_of

TOPOLOGY = NumaTopology(NODES, {node: frozenset(range(8 * node, 8 * node + 8)) for node in NODES})
CPUS = CpuTopology.of({cpu: CpuDetail(cpu // 8, cpu // 8, cpu, cpu // 8) for cpu in range(16)})
STATIC = Allocatable(
    cpus=frozenset(range(1, 16)),
    memory=tuple(MemoryBlock(MEMORY, 8 << 30, (node,)) for node in NODES),
)
ALIGNED = KubeletSettings("restricted", cpu_policy="static", memory_policy="Static")


def cluster_of(site: Site, api: FakeApiServer, log: EventLog) -> ClusterPart:
    metrics = Metrics(version="test", clock=time.monotonic)
    made = cluster_part(
        site.config().cluster, env=env_of(site, api), metrics=metrics, log=log, clock=time.monotonic
    )
    assert made is not None
    return made


@pytest.fixture
async def cluster(site: Site, api: FakeApiServer) -> AsyncIterator[ClusterPart]:
    made = cluster_of(site, api, EventLog(logging.getLogger("numaplace.quiet")))
    yield made
    made.close()


def config_of(site: Site, file: Path | None) -> Config:
    kubelet = {**site.document()["kubelet"], **({"configFile": str(file)} if file else {})}
    return site.config(kubelet=kubelet)


async def test_the_named_file_counts(site: Site, cluster: ClusterPart, api: FakeApiServer) -> None:
    api.kubelets[NODE] = {"topologyManagerPolicy": "best-effort"}
    file = site.kubelet_file(topologyManagerPolicy="restricted", topologyManagerScope="pod")
    known = await find_kubelet(config_of(site, file), cluster)
    assert known == KnownKubelet(KubeletSettings("restricted", "pod"), f"file {file}")


async def test_without_a_file_the_nodes_configz_counts(
    site: Site, cluster: ClusterPart, api: FakeApiServer
) -> None:
    api.kubelets[NODE] = {
        "topologyManagerPolicy": "single-numa-node",
        "cpuManagerPolicy": "static",
        "cpuManagerPolicyOptions": {"full-pcpus-only": "true"},
        "reservedSystemCPUs": "0",
    }
    known = await find_kubelet(config_of(site, None), cluster)
    assert known.source == f"configz of node {NODE}"
    assert known.settings is not None
    assert (known.settings.policy, known.settings.cpu_options) == (
        "single-numa-node",
        {"full-pcpus-only": "true"},
    )
    assert api.requests[-1][:2] == ("GET", f"/api/v1/nodes/{NODE}/proxy/configz")


async def test_a_file_that_is_not_there_leaves_configz(
    site: Site, cluster: ClusterPart, api: FakeApiServer
) -> None:
    api.kubelets[NODE] = {"topologyManagerPolicy": "restricted"}
    known = await find_kubelet(config_of(site, site.root / "gone.yaml"), cluster)
    assert known.source == f"configz of node {NODE}"


async def test_a_file_changed_after_the_kubelets_start_says_nothing_of_it(site: Site) -> None:
    file = site.kubelet_file(topologyManagerPolicy="restricted")
    os.utime(file, None)
    os.utime(site.kubelet.device_plugins_dir / "kubelet.sock", (1, 1))
    known = await find_kubelet(config_of(site, file), None)
    assert known.settings is None
    assert f"{file} was changed after the kubelet's start" in known.problem


async def test_a_mounted_file_that_was_replaced_on_the_node_says_nothing_of_it(site: Site) -> None:
    """A container keeps the old file, which has no name any more; here an open one stands for it."""
    file = site.kubelet_file(topologyManagerPolicy="restricted")
    with file.open() as mounted:
        file.unlink()
        held = Path(f"/proc/self/fd/{mounted.fileno()}")
        known = await find_kubelet(config_of(site, held), None)
    assert known.settings is None
    assert f"{held} was changed after the kubelet's start" in known.problem


@pytest.mark.parametrize("status", [401, 403])
async def test_without_the_right_both_ways_out_are_named(
    site: Site, cluster: ClusterPart, api: FakeApiServer, status: int
) -> None:
    api.kubelets[NODE] = {}
    api.refuse["configz"] = status
    known = await find_kubelet(config_of(site, None), cluster)
    assert (known.settings, known.passing) == (None, False)
    assert "set kubelet.configFile, or allow get of nodes/proxy" in known.problem
    assert str(status) in known.problem


@pytest.mark.parametrize("status", [404, 500, 503])
async def test_a_server_that_does_not_answer_may_answer_later(
    site: Site, cluster: ClusterPart, api: FakeApiServer, status: int
) -> None:
    api.kubelets[NODE] = {}
    api.refuse["configz"] = status
    known = await find_kubelet(config_of(site, None), cluster)
    assert (known.settings, known.passing) == (None, True)
    assert str(status) in known.problem


async def test_with_neither_it_is_not_known(site: Site) -> None:
    known = await find_kubelet(config_of(site, None), None)
    assert known == KnownKubelet(problem="kubelet.configFile is not set, and the API server is not used")
    node = node_of(known)
    assert (node.policy, node.cpu, node.memory) == (None, None, None)
    assert node.problem.startswith("the kubelet's configuration is not known: kubelet.configFile")


@pytest.mark.parametrize("text", ["kind: Pod", "a: [", ""])
async def test_a_file_of_another_kind_is_refused(site: Site, text: str) -> None:
    file = site.root / "kubelet.yaml"
    file.write_text(text)
    os.utime(file, (0, 0))
    known = await find_kubelet(config_of(site, file), None)
    assert known.settings is None
    assert str(file) in known.problem


def node_of(known: KnownKubelet | KubeletSettings, **changes: Any) -> Any:
    given = {"allocatable": STATIC, "topology": TOPOLOGY, "cpu_topology": CPUS, **changes}
    known = KnownKubelet(known, "test") if isinstance(known, KubeletSettings) else known
    return steering_node(known, steerable=frozenset({GPU}), **given)


def test_all_that_is_known() -> None:
    settings = replace(ALIGNED, scope="pod", options={"prefer-closest-numa-nodes": "true"})
    node = node_of(settings)
    assert (node.policy, node.scope, node.problem) == (PolicyName.RESTRICTED, Scope.POD, "")
    assert node.options.prefer_closest
    assert isinstance(node.cpu, StaticCpuPolicy)
    assert node.cpu.reserved == frozenset({0})
    assert isinstance(node.memory, StaticMemoryPolicy)
    assert node.steerable == {GPU}


def test_managers_that_are_off() -> None:
    node = node_of(KubeletSettings("best-effort"), allocatable=Allocatable(), cpu_topology=None)
    assert node.problem == ""
    assert isinstance(node.cpu, NoneCpuPolicy)
    assert isinstance(node.memory, NoneMemoryPolicy)


def test_the_strategy_of_the_kep_is_seen() -> None:
    options = {"numa-allocation-strategy": "most-allocated"}
    gates = {"TopologyManagerPolicyAlphaOptions": True}
    assert node_of(replace(ALIGNED, options=options, gates=gates)).options.strategy is Strategy.MOST_ALLOCATED


@pytest.mark.parametrize(
    ("settings", "word"),
    [
        ({"policy": "strict"}, "topologyManagerPolicy 'strict'"),
        ({"scope": "node"}, "topologyManagerScope 'node'"),
        ({"options": {"prefer-far": "true"}}, "prefer-far"),
        ({"options": {"numa-allocation-strategy": "most-allocated"}}, "TopologyManagerPolicyAlphaOptions"),
        ({"gates": {"PodLevelResourceManagers": True}}, "PodLevelResourceManagers"),
        ({"gates": {"AllAlpha": True}}, "PodLevelResourceManagers"),
        ({"gates": {"AllBeta": True}}, "PodLevelResourceManagers"),
        ({"gates": {"InPlacePodVerticalScalingExclusiveCPUs": True}}, "ExclusiveCPUs"),
        ({"cpu_policy": "new"}, "cpuManagerPolicy 'new'"),
        ({"cpu_policy": "none"}, "another cpuManagerPolicy than none: it reports some"),
        ({"cpu_options": {"new-option": "true"}}, "new-option"),
        ({"cpu_options": {"distribute-cpus-across-cores": "true"}}, "CPUManagerPolicyAlphaOptions"),
        ({"reserved_cpus": "0-1"}, "reservedSystemCPUs names 0-1, but the running kubelet reserves 0"),
        ({"memory_policy": "BestEffort"}, "memoryManagerPolicy 'BestEffort'"),
        ({"memory_policy": "None"}, "another memoryManagerPolicy than None"),
    ],
)
def test_what_cannot_be_predicted(settings: dict[str, Any], word: str) -> None:
    node = node_of(replace(ALIGNED, **settings))
    assert None in (node.policy, node.cpu, node.memory)
    assert word in node.problem


@pytest.mark.parametrize(
    ("changes", "word"),
    [
        ({"cpu_topology": None}, "cannot be read in sysfs"),
        ({"allocatable": replace(STATIC, cpus=frozenset({1, 99}))}, "not online: 99"),
        ({"allocatable": replace(STATIC, cpus=frozenset())}, "another cpuManagerPolicy than static"),
        ({"allocatable": replace(STATIC, memory=())}, "another memoryManagerPolicy than Static"),
        ({"topology": NumaTopology((0,))}, "NUMA nodes"),
    ],
)
def test_a_host_that_is_not_the_kubelets(changes: dict[str, Any], word: str) -> None:
    node = node_of(ALIGNED, **changes)
    assert None in (node.cpu, node.memory)
    assert word in node.problem


def test_more_numa_nodes_than_the_kubelet_takes() -> None:
    many = NumaTopology(tuple(range(9)))
    node = node_of(KubeletSettings("restricted"), topology=many, allocatable=Allocatable())
    assert node.policy is None
    assert "at most 8" in node.problem


async def test_a_running_kubelet_and_its_host(site: Site) -> None:
    """What the host shows and what GetAllocatableResources says go together."""
    client = connect(f"unix:{site.kubelet.pod_resources_socket}", observe=lambda _method, _code: None)
    try:
        allocatable = await client.allocatable(timeout_seconds=5.0)
    finally:
        await client.close()
    sysfs = site.host.roots.sysfs
    node = node_of(
        ALIGNED,
        allocatable=allocatable,
        topology=read_topology(sysfs),
        cpu_topology=read_cpu_topology(sysfs),
    )
    assert node.problem == ""
    assert node.cpu is not None
    assert node.cpu.allocatable == allocatable.cpus


WORDS = st.sampled_from(
    ["", "none", "None", "static", "Static", "restricted", "single-numa-node", "pod", "container", "x", "0-1"]
)
OPTIONS = st.dictionaries(
    st.sampled_from(["prefer-closest-numa-nodes", "align-by-socket", "full-pcpus-only", "x"]),
    st.sampled_from(["true", "false", "", "9"]),
)
GATES = st.dictionaries(st.sampled_from(["AllAlpha", "AllBeta", *NOT_PREDICTED_GATES]), st.booleans())
SETTINGS = st.builds(
    KubeletSettings,
    policy=WORDS,
    scope=WORDS,
    options=OPTIONS,
    cpu_policy=WORDS,
    cpu_options=OPTIONS,
    memory_policy=WORDS,
    reserved_cpus=WORDS,
    gates=GATES,
)
SEEN = st.builds(
    Allocatable,
    cpus=st.frozensets(st.integers(0, 20)),
    memory=st.lists(
        st.builds(
            MemoryBlock,
            st.sampled_from([MEMORY, ResourceName("hugepages-2Mi")]),
            st.integers(0, 1 << 40),
            st.lists(st.integers(0, 3), max_size=2).map(tuple),
        ),
        max_size=3,
    ).map(tuple),
)


@given(SETTINGS, SEEN, st.sampled_from([None, CPUS]))
def test_nothing_makes_it_fail_and_what_is_unknown_has_a_reason(
    settings: KubeletSettings, seen: Allocatable, cpus: CpuTopology | None
) -> None:
    node = node_of(settings, allocatable=seen, cpu_topology=cpus)
    assert bool(node.problem) is (None in (node.policy, node.cpu, node.memory))


@pytest.mark.parametrize("policy", ["none", "restricted"])
def test_many_numa_nodes_are_not_predicted(policy: str) -> None:
    """The kubelet's own work doubles with each of them, too; here it would stop the daemon for minutes."""
    nodes = range(36)
    topology = NumaTopology(tuple(nodes), {node: frozenset({node}) for node in nodes})
    cpus = CpuTopology.of({node: CpuDetail(node, node, node, node) for node in nodes})
    allocatable = Allocatable(
        cpus=frozenset(nodes) - {0}, memory=tuple(MemoryBlock(MEMORY, 1 << 30, (node,)) for node in nodes)
    )
    options = {} if policy == "none" else {"max-allowable-numa-nodes": "64"}
    node = steering_node(
        KnownKubelet(replace(ALIGNED, policy=policy, options=options)),
        allocatable=allocatable,
        topology=topology,
        cpu_topology=cpus,
        steerable=frozenset({GPU}),
    )
    assert (node.policy, node.memory) == (PolicyName.NONE if policy == "none" else None, None)
    assert isinstance(node.cpu, StaticCpuPolicy), "where the CPUs are is told all the same"
    assert "36 NUMA nodes are too many" in node.problem
