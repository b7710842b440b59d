"""Hold a mapping that is laid over another one against a plain copy of it."""

import pytest
from hypothesis import given, strategies as st

from groupsdk.broker.coordinator.consumer.group import Overlay, draft_of


_KEYS = st.integers(0, 9)
_CHANGES = st.lists(st.tuples(st.booleans(), _KEYS), max_size=30)


@given(st.lists(_KEYS, unique=True), _CHANGES)
def test_overlay_equals_a_copy_with_the_same_changes(
    keys: list[int], changes: list[tuple[bool, int]]
) -> None:
    base = {key: f"old {key}" for key in keys}
    before = dict(base)
    copied, laid = dict(base), Overlay(base)
    for number, (is_set, key) in enumerate(changes):
        if is_set:
            copied[key] = laid[key] = f"new {number}"
        else:
            assert laid.pop(key, None) == copied.pop(key, None)
        assert list(laid.items()) == list(copied.items())
        assert len(laid) == len(copied)
        for each in range(10):
            assert (each in laid) == (each in copied)
            assert laid.get(each) == copied.get(each)
    assert base == before


def test_missing_key_of_an_overlay_raises_key_error() -> None:
    laid = Overlay({1: "a"})
    del laid[1]
    for key in (1, 2):
        with pytest.raises(KeyError):
            laid[key]
        with pytest.raises(KeyError):
            del laid[key]
        assert laid.get(key, "none") == "none"


def test_a_small_table_is_copied_and_a_large_one_laid_over() -> None:
    for size, kind in ((3, dict), (100, Overlay)):
        table = dict.fromkeys(range(size), "v")
        made = draft_of(table)
        assert isinstance(made, kind)
        made[0] = "other"
        assert table[0] == "v"
