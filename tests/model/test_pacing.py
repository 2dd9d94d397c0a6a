from __future__ import annotations

import pytest
from numaplace.model.pacing import Backoff, TokenBucket


def test_the_bucket_allows_a_burst_and_then_the_rate() -> None:
    bucket = TokenBucket(rate_per_second=10, burst=3, now_seconds=100.0)
    assert [bucket.take(100.0) for _ in range(3)] == [0, 0, 0]
    assert bucket.take(100.0) == pytest.approx(0.1)
    assert bucket.take(100.05) == pytest.approx(0.05)
    assert bucket.take(100.101) == 0
    assert [bucket.take(1100.0) > 0 for _ in range(4)] == [False, False, False, True]


def test_pauses_double_up_to_the_longest_and_begin_anew() -> None:
    backoff = Backoff(first_seconds=0.5, longest_seconds=3.0)
    assert [backoff.pause() for _ in range(5)] == [0.5, 1.0, 2.0, 3.0, 3.0]
    backoff.reset()
    assert backoff.pause() == 0.5


def test_another_longest_pause_holds_for_one_pause_only() -> None:
    backoff = Backoff(first_seconds=4.0, longest_seconds=8.0)
    assert [backoff.pause(longest_seconds=20.0) for _ in range(4)] == [4.0, 8.0, 16.0, 20.0]
    assert backoff.pause() == 8.0


def test_chance_spreads_pauses_around_their_length() -> None:
    numbers = iter((0.0, 0.5, 1.0))
    backoff = Backoff(first_seconds=2.0, longest_seconds=2.0, chance=lambda: next(numbers))
    assert [backoff.pause() for _ in range(3)] == [1.0, 2.0, 3.0]
