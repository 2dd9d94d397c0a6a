"""What is left after `helm uninstall`: nothing, and running pods keep what they have."""

from __future__ import annotations

from cluster.testsite import DAEMON_PODS, NAMESPACE, Site
from harness.hardware import VF
from harness.waiters import until

_OURS = "labelSelector=app.kubernetes.io/name%3Dnumaplace"


def test_uninstall_leaves_nothing(site: Site) -> None:
    for node in site.nodes:
        node.deploy(f"survivor-{node.name}", {VF: 1}, replicas=1)
    held = site.both.held_by("survivor")
    assert len(held) == 2
    site.uninstall()
    until(lambda: not site.api.items(DAEMON_PODS), "the daemon pods to go", limit_seconds=60)
    for node in site.nodes:
        assert node.sockets() == ["kubelet.sock"]
        until(
            lambda node=node: not node.allocatable().keys() & node.hardware.devices.keys(),
            f"the kubelet of {node.name} to have none of the devices",
            detail=node.allocatable,
        )
        until(
            lambda node=node: set(node.capacity().values()) == {"0"},
            f"the status of {node.name} to say 0",
            detail=node.capacity,
        )
    assert site.both.held_by("survivor") == held
    leftovers = {
        kind: [one["metadata"]["name"] for one in site.api.items(path)]
        for kind, path in {
            "daemonsets": f"/apis/apps/v1/namespaces/{NAMESPACE}/daemonsets",
            "configmaps": f"/api/v1/namespaces/{NAMESPACE}/configmaps",
            "serviceaccounts": f"/api/v1/namespaces/{NAMESPACE}/serviceaccounts",
            "secrets": f"/api/v1/namespaces/{NAMESPACE}/secrets",
            "cluster roles": f"/apis/rbac.authorization.k8s.io/v1/clusterroles?{_OURS}",
            "cluster role bindings": f"/apis/rbac.authorization.k8s.io/v1/clusterrolebindings?{_OURS}",
        }.items()
    }
    assert leftovers == {
        "daemonsets": [],
        "configmaps": ["kube-root-ca.crt"],
        "serviceaccounts": ["default"],
        "secrets": [],
        "cluster roles": [],
        "cluster role bindings": [],
    }
