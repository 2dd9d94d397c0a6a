"""Withheld sets, and the way from one to another over several resources, each with a stream of its own."""

from __future__ import annotations

from collections.abc import Mapping

from numaplace.model.names import ResourceName

WithheldSet = Mapping[ResourceName, frozenset[int]]
"""By resource, the NUMA nodes whose free devices show no topology (``SteeringDecision.withheld``)."""

NOTHING: WithheldSet = {}


def first_step(now: WithheldSet, following: WithheldSet) -> WithheldSet:
    """Return the set in which all that becomes exposed is exposed, and nothing new is withheld.

    Lists of several resources do not arrive at the same moment. When this one has been delivered before the
    following one is sent, no moment shows two resources of a pod on disjoint nodes only.
    """
    common = {
        resource: nodes & following.get(resource, frozenset()) for resource, nodes in sorted(now.items())
    }
    return {resource: nodes for resource, nodes in common.items() if nodes}
