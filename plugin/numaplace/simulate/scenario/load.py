"""Loads a scenario file, or reports all its problems: file, line, key, what is allowed."""

from __future__ import annotations

from pathlib import Path

from numaplace.errors import ConfigError, ScenarioError
from numaplace.reading.document import parse_document, read_text
from numaplace.reading.keys import Keys
from numaplace.simulate.scenario.kubelet import read_kubelet
from numaplace.simulate.scenario.node import read_machine
from numaplace.simulate.scenario.placement import read_placement, read_shares
from numaplace.simulate.scenario.records import KubeletSettings, Machine, PlacementSettings, Scenario
from numaplace.simulate.scenario.steps import read_steps

MAX_FILE_BYTES = 64 * 1024 * 1024


def load_scenario(file: Path) -> Scenario:
    """Read a scenario file, YAML or JSON. Raises ``ScenarioError`` with every problem found."""
    try:
        text = read_text(file, max_bytes=MAX_FILE_BYTES)
    except ConfigError as error:
        raise ScenarioError(error.problems) from error
    return parse_scenario(text, source=str(file))


def parse_scenario(text: str, *, source: str) -> Scenario:
    """Return the scenario of a text; ``source`` is its name in messages. Raises ``ScenarioError``."""
    try:
        top, problems = parse_document(text, source=source, large=True)
    except ConfigError as error:
        raise ScenarioError(error.problems) from error
    scenario = _read(Keys(top, "", problems))
    if problems:
        raise ScenarioError(tuple(problems))
    return scenario


def _read(keys: Keys) -> Scenario:
    machine, settings, placement = Machine(()), KubeletSettings(), PlacementSettings()
    node = keys.mapping("node", required="a mapping that describes the hardware")
    if node is not None:
        machine = read_machine(node)
    kubelet = keys.mapping("kubelet")
    if kubelet is not None:
        settings = read_kubelet(kubelet)
    section = keys.mapping("placement")
    if section is not None:
        placement = read_placement(section)
    shares = tuple(read_shares(keys, machine.ids))
    steps = read_steps(keys, machine.devices)
    keys.refuse_rest()
    return Scenario(machine, settings, placement, shares, steps)
