"""Topology Manager policy options and their gates. Follows kubelet ``policy_options.go`` and KEP-6007."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from enum import StrEnum

from numaplace.engine.weights import Weights, parse_weights
from numaplace.errors import OptionError
from numaplace.model.names import Strategy

PREFER_CLOSEST = "prefer-closest-numa-nodes"
MAX_ALLOWABLE_NUMA_NODES = "max-allowable-numa-nodes"
NUMA_ALLOCATION_STRATEGY = "numa-allocation-strategy"
NUMA_SCORE_WEIGHTS = "numa-score-weights"

DEFAULT_MAX_ALLOWABLE_NUMA_NODES = 8

# What Go's strconv.ParseBool and strconv.Atoi take.
_BOOLEANS = {
    **dict.fromkeys(("1", "t", "T", "TRUE", "true", "True"), True),
    **dict.fromkeys(("0", "f", "F", "FALSE", "false", "False"), False),
}
_INTEGER = re.compile(r"[+-]?[0-9]{1,18}")


class PolicyName(StrEnum):
    """``topologyManagerPolicy``."""

    NONE = "none"
    BEST_EFFORT = "best-effort"
    RESTRICTED = "restricted"
    SINGLE_NUMA_NODE = "single-numa-node"


class Stability(StrEnum):
    """The stage of an option; alpha and beta ones have a feature gate each."""

    ALPHA = "alpha"
    BETA = "beta"
    STABLE = "stable"


@dataclass(frozen=True, slots=True)
class PolicyOptions:
    """How hints are compared, and on how large a machine."""

    prefer_closest: bool = False
    max_allowable_numa_nodes: int = DEFAULT_MAX_ALLOWABLE_NUMA_NODES
    strategy: Strategy = Strategy.NONE
    weights: Weights = field(default_factory=Weights)


@dataclass(frozen=True, slots=True)
class ParsedOptions:
    """Accepted options, and a sentence for each that is allowed but not advised."""

    options: PolicyOptions
    warnings: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Option:
    """One known option: its stage, and how its text changes the options."""

    stability: Stability
    apply: Callable[[PolicyOptions, str], PolicyOptions]


def parse_strategy(text: str) -> Strategy:
    """Return the strategy of that name; ``OptionError`` with the valid values otherwise."""
    try:
        return Strategy(text)
    except ValueError:
        allowed = ", ".join(Strategy)
        raise _bad_value(NUMA_ALLOCATION_STRATEGY, text, f"one of {allowed}") from None


def _prefer_closest(options: PolicyOptions, text: str) -> PolicyOptions:
    if text not in _BOOLEANS:
        raise _bad_value(PREFER_CLOSEST, text, "true or false")
    return replace(options, prefer_closest=_BOOLEANS[text])


def _max_allowable_numa_nodes(options: PolicyOptions, text: str) -> PolicyOptions:
    allowed = f"an integer of at least {DEFAULT_MAX_ALLOWABLE_NUMA_NODES}"
    if not _INTEGER.fullmatch(text) or int(text) < DEFAULT_MAX_ALLOWABLE_NUMA_NODES:
        raise _bad_value(MAX_ALLOWABLE_NUMA_NODES, text, allowed)
    return replace(options, max_allowable_numa_nodes=int(text))


def _strategy(options: PolicyOptions, text: str) -> PolicyOptions:
    return replace(options, strategy=parse_strategy(text))


def _weights(options: PolicyOptions, text: str) -> PolicyOptions:
    return replace(options, weights=parse_weights(text))


OPTIONS: Mapping[str, Option] = {
    PREFER_CLOSEST: Option(Stability.STABLE, _prefer_closest),
    MAX_ALLOWABLE_NUMA_NODES: Option(Stability.STABLE, _max_allowable_numa_nodes),
    NUMA_ALLOCATION_STRATEGY: Option(Stability.ALPHA, _strategy),
    NUMA_SCORE_WEIGHTS: Option(Stability.ALPHA, _weights),
}


def parse_options(
    options: Mapping[str, str],
    *,
    alpha: bool = False,
    beta: bool = True,
    known: Mapping[str, Option] = OPTIONS,
) -> ParsedOptions:
    """Parse ``topologyManagerPolicyOptions`` (``NewPolicyOptions``).

    ``alpha`` and ``beta`` are the feature gates ``TopologyManagerPolicyAlphaOptions`` and
    ``TopologyManagerPolicyBetaOptions``, with the kubelet's defaults; stable options need none.
    Raises ``OptionError`` for the first refused option in the order of the names: unknown, gate off, or a
    wrong value.
    """
    enabled = {Stability.ALPHA: alpha, Stability.BETA: beta, Stability.STABLE: True}
    parsed = PolicyOptions()
    for name, text in sorted(options.items()):
        option = known.get(name)
        if option is None:
            raise OptionError(
                f"unknown Topology Manager policy option {name!r} (known: {', '.join(sorted(known))})"
            )
        if not enabled[option.stability]:
            gate = f"TopologyManagerPolicy{option.stability.value.capitalize()}Options"
            raise OptionError(
                f"Topology Manager policy option {name!r} is {option.stability.value}: "
                f"it needs the feature gate {gate}"
            )
        parsed = option.apply(parsed, text)
    return ParsedOptions(parsed, size_warnings(parsed.max_allowable_numa_nodes))


def size_warnings(max_allowable_numa_nodes: int) -> tuple[str, ...]:
    if max_allowable_numa_nodes <= DEFAULT_MAX_ALLOWABLE_NUMA_NODES:
        return ()
    return (
        f"{MAX_ALLOWABLE_NUMA_NODES} is {max_allowable_numa_nodes}: above "
        f"{DEFAULT_MAX_ALLOWABLE_NUMA_NODES} NUMA nodes the number of hints, and so the time to admit a pod, "
        "can become impractical",
    )


def _bad_value(name: str, text: str, allowed: str) -> OptionError:
    return OptionError(f"Topology Manager policy option {name!r}: bad value {text!r} (allowed: {allowed})")
