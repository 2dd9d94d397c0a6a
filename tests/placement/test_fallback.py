from hypothesis import given
from hypothesis import strategies as st
from numaplace.placement.fallback import fallback

ids = st.lists(st.text("abc", min_size=1, max_size=3), max_size=12)


@given(ids, ids, st.integers(-2, 15))
def test_always_a_valid_answer(available, must_include, size):
    answer = fallback(available, must_include, size=size)
    assert len(answer) == len(set(answer))
    assert len(answer) == min(max(size, 0), len(set(available) | set(must_include)))
    assert set(answer) <= set(available) | set(must_include)
    assert set(must_include) <= set(answer) or len(set(must_include)) > size
    assert answer == fallback(sorted(available), must_include, size=size)
