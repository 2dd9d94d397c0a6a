from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st
from numaplace.kubelet.plugin.preference import complaint_about_answer, complaint_about_request, fallback

ids = st.lists(st.sampled_from([f"d{n}" for n in range(12)]), max_size=14)
sizes = st.integers(-3, 16)


@given(ids, ids, sizes)
def test_the_fallback_is_valid_wherever_a_valid_answer_exists(available, must, size):
    answer = fallback(available, must, size)
    if not complaint_about_request(available, must, size):
        assert complaint_about_answer(answer, available=available, must_include=must, size=size) == ""


@given(ids, ids, sizes)
def test_the_fallback_never_gives_more_than_was_asked_nor_strangers_nor_repeats(available, must, size):
    answer = fallback(available, must, size)
    assert len(answer) <= max(size, 0)
    assert len(set(answer)) == len(answer)
    assert set(answer) <= {*available, *must}


@given(st.permutations([f"d{n}" for n in range(12)]), st.integers(1, 12))
def test_the_fallback_does_not_depend_on_the_kubelets_order(available, size):
    assert fallback(available, (), size) == tuple(f"d{n}" for n in range(size))
