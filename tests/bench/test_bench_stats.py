import json

import pytest

from bench.report import as_json, as_table
from bench.stats import Row, middle_round, percentile


@pytest.mark.parametrize(
    ("percent", "expected"), [(50, 50), (99, 99), (100, 100), (99.5, 100), (1, 1), (0.1, 1)]
)
def test_percentile_is_the_nearest_rank(percent, expected):
    assert percentile(list(range(100, 0, -1)), percent) == expected


def test_percentile_of_one_sample_is_that_sample():
    assert percentile([7.5], 99) == 7.5


@pytest.mark.parametrize(("samples", "percent"), [([], 50), ([1.0], 0), ([1.0], 101)])
def test_what_has_no_percentile_is_refused(samples, percent):
    with pytest.raises(ValueError, match="percentile"):
        percentile(samples, percent)


def test_a_disturbed_round_does_not_decide():
    ours, reference = [2.0] * 30, [1.0] * 30
    ours[3:6] = [50.0] * 3
    reference[22:25] = [40.0] * 3
    assert middle_round(ours, reference, 99, rounds=3) == (2.0, 1.0)


def test_too_few_samples_for_the_rounds_are_refused():
    with pytest.raises(ValueError, match="2 samples are not 3 rounds"):
        middle_round([1.0, 2.0], [1.0, 1.0], 50, rounds=3)


@pytest.mark.parametrize(
    ("row", "passed"),
    [
        (Row("a", "ms", 5.0, 2.0, max_ratio=2.5), True),
        (Row("a", "ms", 5.1, 2.0, max_ratio=2.5), False),
        (Row("a", "ms", 1.0, 0.0, max_ratio=2.5), False),
        (Row("a", "MiB", 60.0, 40.0, max_value=60.0), True),
        (Row("a", "MiB", 60.1, 0.0, max_value=60.0), False),
        (Row("a", "ms", 5.0, 2.0), None),
    ],
)
def test_a_limit_is_kept_or_missed(row, passed):
    assert row.passed is passed


def test_the_table_names_what_missed_its_limit():
    kept, missed = Row("kept", "ms", 1.0, 1.0, max_ratio=2.0), Row("slow", "ms", 3.0, 1.0, max_ratio=2.0)
    lines = as_table([kept, missed]).splitlines()
    assert [line.split()[0] for line in lines if "MISSED" in line] == ["slow"]
    assert [line.split()[0] for line in lines if line.endswith("pass")] == ["kept"]


def test_json_carries_figures_and_verdicts():
    (row,) = json.loads(as_json([Row("a", "ms", 3.0, 1.5, max_ratio=2.5)]))
    assert (row["value"], row["reference"], row["ratio"], row["maxRatio"], row["passed"]) == (
        3,
        1.5,
        2,
        2.5,
        True,
    )
