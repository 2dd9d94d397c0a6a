from __future__ import annotations

from collections.abc import Callable

import pytest
from enginecases import Case, section
from numaplace.engine.hint import Hint
from numaplace.engine.options import (
    OPTIONS,
    Option,
    Stability,
    parse_options,
)
from numaplace.engine.score import aggregate, utilization_score
from numaplace.engine.weights import parse_weights, weights_from_mapping
from numaplace.errors import OptionError
from numaplace.model.names import ResourceName

KNOWN = {
    **OPTIONS,
    "fancy-alpha-option": Option(Stability.ALPHA, lambda options, _text: options),
    "fancy-new-option": Option(Stability.BETA, lambda options, _text: options),
}
FILES = ("kep6007_unit_tests.yaml", "merge_article.yaml", "public_issues.yaml")


@pytest.mark.parametrize(
    "case",
    section("parse", "kubelet_options.yaml", "merge_article.yaml")
    + section("options", "kep6007_unit_tests.yaml"),
)
def test_options(case: Case) -> None:
    gates = {gate: case[gate] for gate in ("alpha", "beta") if gate in case}
    if "refused" in case:
        with pytest.raises(OptionError) as caught:
            parse_options(case["options"], known=KNOWN, **gates)
        assert [word for word in case["refused"] if word not in str(caught.value)] == []
        return
    parsed = parse_options(case["options"], known=KNOWN, **gates)
    shown = {
        "prefer_closest": parsed.options.prefer_closest,
        "max_allowable_numa_nodes": parsed.options.max_allowable_numa_nodes,
        "strategy": parsed.options.strategy,
        "weights": parsed.options.weights.text,
    }
    assert {key: shown[key] for key in case["expect"]} == case["expect"]
    assert [case["warns"] in warning for warning in parsed.warnings] == ([True] if "warns" in case else [])


def test_the_first_bad_option_by_name_is_reported() -> None:
    bad = {"zzz": "1", "max-allowable-numa-nodes": "1", "prefer-closest-numa-nodes": "maybe"}
    for options in (bad, dict(reversed(bad.items()))):
        with pytest.raises(OptionError, match="max-allowable-numa-nodes"):
            parse_options(options)


@pytest.mark.parametrize("case", section("weights", "kep6007_unit_tests.yaml"))
def test_weights_text(case: Case) -> None:
    if "refused" in case:
        with pytest.raises(OptionError) as caught:
            parse_weights(case["text"])
        assert [word for word in [*case["refused"], "0 to 100"] if word not in str(caught.value)] == []
        return
    weights = parse_weights(case["text"])
    assert weights.text == case["canonical"]
    assert parse_weights(weights.text) == weights


@pytest.mark.parametrize("case", section("weights_mapping", "kep6007_unit_tests.yaml"))
def test_weights_mapping(case: Case) -> None:
    if "refused" in case:
        with pytest.raises(OptionError) as caught:
            weights_from_mapping(case["mapping"])
        assert [word for word in [*case["refused"], "0 to 100"] if word not in str(caught.value)] == []
        return
    assert weights_from_mapping(case["mapping"]).text == case["canonical"]


@pytest.mark.parametrize(
    "refused",
    [
        lambda: parse_weights("cpu=many,memory,gpu=3,gpu=4,vf=-1"),
        lambda: weights_from_mapping({"cpu": "many", "memory": None, "gpu": 3, " gpu": 4, "vf": -1}),
    ],
    ids=["text", "mapping"],
)
def test_every_bad_weight_is_named_in_one_message(refused: Callable[[], object]) -> None:
    with pytest.raises(OptionError) as caught:
        refused()
    words = ("'many' is not", "entry 'memory", "'gpu' is named twice", "-1 is negative", "'-1' is negative")
    message = str(caught.value)
    assert [word for word in words if word not in message] in (["-1 is negative"], ["'-1' is negative"])
    assert message.count("0 to 100") == 1, "what is allowed is said once"


@pytest.mark.parametrize("digits", ["9" * 5000, "0" * 5000 + "7"])
def test_weights_of_thousands_of_digits_are_read_or_refused(digits: str) -> None:
    if digits.startswith("0"):
        assert parse_weights(f"cpu={digits}").text == "cpu=7"
    else:
        with pytest.raises(OptionError, match="above 100"):
            parse_weights(f"cpu={digits}")


@pytest.mark.parametrize("case", section("score", *FILES))
def test_score(case: Case) -> None:
    assert utilization_score(case["allocatable"], case["assigned"]) == case["expect"]


@pytest.mark.parametrize("case", section("aggregate", *FILES))
def test_aggregate(case: Case) -> None:
    scored = [
        (ResourceName(resource), Hint(1, preferred=True, score=score))
        for resource, score in case["scores"].items()
    ]
    assert aggregate(scored, parse_weights(case["weights"])) == case["expect"]


def test_a_hint_for_any_node_has_no_say_in_the_score() -> None:
    scored = [
        (ResourceName("cpu"), Hint(1, preferred=True, score=20)),
        (ResourceName("memory"), Hint(None, preferred=True, score=100)),
    ]
    assert aggregate(scored, parse_weights("")) == 20
