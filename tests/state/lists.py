"""Lists one after the other, as the state takes them in."""

from __future__ import annotations

from numaplace.model.observation import Observation
from numaplace.model.podresources import Allocatable
from numaplace.state.list_change import ListChange


def then(before, pods, *, at=0.0, cache=None):
    """Return the change of the next List."""
    return before.then(Observation(tuple(pods), Allocatable(), at), cache=cache)


def first(pods, *, at=0.0):
    """Return the change of a first List."""
    return then(ListChange(), pods, at=at)
