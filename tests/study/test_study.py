"""The command: repeatable, readable, complete."""

from __future__ import annotations

import json
import xml.etree.ElementTree as ET
from dataclasses import replace
from pathlib import Path

import pytest

from study.__main__ import main as study_main
from study.experiment import Effort, run_long
from study.report import as_text
from study.second_look import TIMES, SecondLook, look_again
from study.stats import Estimate, estimate, paired, t_quantile
from study.steering import Compared, compare
from study.worlds import WORLDS

COMMAND = ["--quick", "--seeds", "2", "--processes", "1", "--world", "gpu-2x4-with-8"]
SMALL = Effort(seeds=2, jobs=14, warm_up=4, short_traces=1, processes=1)


def main(argv: list[str]) -> int:
    """Run the command on traces that are shorter yet."""
    return study_main(argv, quick=SMALL)


def test_json_is_complete_and_repeatable(capsys: pytest.CaptureFixture[str]) -> None:
    texts = []
    for processes in ("1", "2"):
        assert main([*COMMAND, "-o", "json", "--processes", processes]) == 0
        texts.append(capsys.readouterr().out)
    assert texts[0] == texts[1]
    document = json.loads(texts[0])
    assert {entry["world"] for entry in document["results"]} == {"gpu-2x4-with-8"}
    assert {entry["topologyManagerPolicy"] for entry in document["results"]} == {
        "none",
        "single-numa-node",
        "best-effort",
    }
    assert all(len(entry["measures"]["split"]["seeds"]) == 2 for entry in document["results"])
    assert document["short"] == []


def test_the_optimum_stands_above_all_arms(capsys: pytest.CaptureFixture[str]) -> None:
    assert main([*COMMAND[:-1], "short-gpu-2x4", "-o", "json"]) == 0
    document = json.loads(capsys.readouterr().out)
    assert document["results"] == []
    assert all(0 < entry["alignedOfOptimum"]["mean"] <= 100 for entry in document["short"])


def test_tables_compare_with_their_first_row(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    assert main([*COMMAND[:-1], "gpu-2x4", "--svg", str(tmp_path / "plot.svg")]) == 0
    printed = capsys.readouterr()
    assert printed.err == ""
    assert "Topology Manager policy single-numa-node" in printed.out
    (packing,) = [line for line in printed.out.splitlines() if line.startswith("numaplace most")][:1]
    assert "↓" in packing
    texts = {one.text for one in ET.parse(tmp_path / "plot.svg").iter() if one.tag.endswith("text")}
    assert "KEP-6007 least-allocated" in texts


def test_steering_has_one_table_with_all_who_place(capsys: pytest.CaptureFixture[str]) -> None:
    worlds = ("--world", "gpu-2x4-one-size", "--world", "short-gpu-2x4")
    assert main([*COMMAND[:-2], *worlds, "-o", "markdown"]) == 0
    table = capsys.readouterr().out.partition("### Steering a stock kubelet\n")[2]
    rows = [[cell.strip() for cell in line.split("|")[1:-1]] for line in table.splitlines() if "|" in line]
    heading, _, *body = rows
    assert heading == [
        *("Node, load", "Policy", "Strategy", "admitted", "aligned", "imbalance", "optimum", "steering")
    ]
    assert len({tuple(row[:3]) for row in body}) == len(body) == 12
    assert all(row[3].count("/") == 3 for row in body)
    by_key = {tuple(row[:3]): row for row in body}
    assert by_key["gpu-2x4-one-size, 120%", "best-effort", "most-allocated"][6:] == ["", "+0.0 ±0.0"]
    short = by_key["short-gpu-2x4, 150%", "single-numa-node", "least-allocated"]
    assert short[7] == "off"
    assert 0 < float(short[6]) <= 100


WORSE, BETTER, SAME = Estimate(-2.0, 1.0), Estimate(2.0, 1.0), Estimate(0.5, 1.0)


@pytest.fixture(scope="module")
def rows() -> list[Compared]:
    (world,) = [one for one in WORLDS if one.name == "gpu-2x4-with-8"]
    return list(compare(run_long([world], SMALL), []))


def _looking(rows: list[Compared], key: str, difference: Estimate) -> list[SecondLook]:
    seen = dict.fromkeys(("admitted", "aligned", "imbalance"), (SAME, SAME))
    doubted = [replace(row, higher={**seen, key: (difference, SAME)}) for row in rows]
    return look_again(doubted, SMALL)


def test_rows_that_look_worse_are_looked_at_again_on_other_traces(rows: list[Compared]) -> None:
    auto = [row.steering for row in rows if not row.steering.always]
    looks = _looking(rows, "aligned", WORSE)
    assert [look.row.steering for look in looks] == auto
    assert all(look.traces == TIMES * SMALL.seeds for look in looks)
    assert all(set(look.differences) == {"aligned"} for look in looks)
    # Where it is off and the kubelet chooses alone, the two are the same.
    alone = [look for look in looks if look.row.steering.policy == "single-numa-node"]
    assert {(one.mean, one.half_width) for look in alone for one in look.differences.values()} == {(0, 0)}
    text = as_text([], [], rows, looks, effort=SMALL, markdown=True)
    assert text.count("-2.0 ±1.0") == len(auto)


def test_only_who_spreads_wants_balance(rows: list[Compared]) -> None:
    spreading = {look.row.steering.strategy for look in _looking(rows, "imbalance", BETTER)}
    assert spreading == {"least-allocated"}
    assert _looking(rows, "imbalance", WORSE) == _looking(rows, "aligned", SAME) == []


def test_bad_numbers_are_refused(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as stopped:
        main(["--seeds", "0"])
    assert stopped.value.code == 2
    assert "at least 1" in capsys.readouterr().err


def test_intervals() -> None:
    assert t_quantile(19) == pytest.approx(2.093, abs=0.002)
    assert t_quantile(4) == pytest.approx(2.776, rel=0.01)
    one = estimate([1.0, 2.0, 3.0, 4.0, 5.0])
    assert one.mean == 3.0
    assert one.half_width == pytest.approx(2.776 * 1.5811 / 5**0.5, rel=0.01)
    assert not paired([1.0, 2.0], [1.0, 2.0]).differs_from_zero
    assert paired([2.0, 3.1, 4.0], [1.0, 2.0, 3.0]).differs_from_zero
