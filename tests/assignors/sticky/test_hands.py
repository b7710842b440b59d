"""Hands have one form, whatever they were made of."""

import random
from collections.abc import Sequence

from hypothesis import given, settings, strategies as st

from assignors.sticky.hands import Arranger


_PARTS = st.dictionaries(
    st.sampled_from("abcdef"), st.lists(st.integers(0, 9), unique=True, max_size=4)
)


def _size(partitions: dict[str, list[int]]) -> int:
    return sum(map(len, partitions.values()))


def _sorted(partitions: dict[str, list[int]]) -> list[tuple[str, tuple[int, ...]]]:
    return [(t, tuple(sorted(partitions[t]))) for t in sorted(partitions) if partitions[t]]


@settings(deadline=None)
@given(st.lists(_PARTS, max_size=4), st.randoms(use_true_random=False))
def test_hands_are_in_order(parts: list[dict[str, list[int]]], chance: random.Random) -> None:
    arranger = Arranger()
    for partitions in parts:
        for form in (list, tuple):
            keys = list(partitions)
            chance.shuffle(keys)
            shuffled: dict[str, Sequence[int]] = {key: form(partitions[key]) for key in keys}
            hand = arranger.tidy(shuffled, _size(partitions))
            assert list(hand.items()) == _sorted(partitions)
            assert arranger.tidy(hand, _size(partitions)) is hand


def test_what_is_no_hand_yet_is_copied() -> None:
    arranger = Arranger()
    for partitions in ({"a": [0]}, {"b": (0,), "a": (0,)}, {"a": (1, 0)}, {"a": (0,), "b": ()}):
        before = repr(partitions)
        assert arranger.tidy(partitions, 2) is not partitions
        assert repr(partitions) == before


@settings(deadline=None)
@given(_PARTS, _PARTS)
def test_merged_is_the_union(kept: dict[str, list[int]], more: dict[str, list[int]]) -> None:
    arranger = Arranger()
    new = {topic: [n + 10 for n in numbers] for topic, numbers in more.items()}
    hand = arranger.tidy(new, _size(new))
    before = dict(hand)
    both = {t: [*kept.get(t, []), *new.get(t, [])] for t in {**kept, **new}}
    assert list(arranger.merged(kept, _size(kept), hand).items()) == _sorted(both)
    assert hand == before
