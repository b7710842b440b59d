"""Hands have one form, whatever they were made of."""

from hypothesis import given, settings, strategies as st

from assignors.sticky.ownership import OrderedPartitions, are_ordered, by_topic, merged, ordered


_PARTS = st.dictionaries(
    st.sampled_from("abcdefgh"), st.lists(st.integers(0, 9), unique=True, max_size=4)
)


def _size(partitions: dict[str, list[int]]) -> int:
    return sum(map(len, partitions.values()))


def _sorted(partitions: dict[str, list[int]]) -> list[tuple[str, tuple[int, ...]]]:
    return [(t, tuple(sorted(partitions[t]))) for t in sorted(partitions) if partitions[t]]


@settings(deadline=None)
@given(_PARTS)
def test_hands_are_in_order(partitions: dict[str, list[int]]) -> None:
    before = repr(partitions)
    holding = ordered(partitions)
    assert list(holding.items()) == _sorted(partitions)
    assert are_ordered(holding.values(), _size(partitions))
    assert repr(partitions) == before


@settings(deadline=None)
@given(_PARTS)
def test_groups_are_tidy_as_they_stand_in_a_hand(partitions: dict[str, list[int]]) -> None:
    groups = list(map(tuple, partitions.values()))
    expected = all(groups) and all(list(each) == sorted(each) for each in groups)
    assert are_ordered(groups, _size(partitions)) == expected
    assert not partitions or not are_ordered(list(partitions.values()), _size(partitions))


def test_topics_are_put_in_order() -> None:
    assert list(by_topic({"b": (0,), "a": (1,)}).items()) == [("a", (1,)), ("b", (0,))]
    holding: OrderedPartitions = {"a": (1,), "b": (0,)}
    assert by_topic(holding) is holding


@settings(deadline=None)
@given(_PARTS, _PARTS)
def test_merged_is_the_union(kept: dict[str, list[int]], more: dict[str, list[int]]) -> None:
    new = {topic: [n + 10 for n in numbers] for topic, numbers in more.items()}
    own, holding = ordered(kept), ordered(new)
    before = dict(own), dict(holding)
    both = {t: [*kept.get(t, []), *new.get(t, [])] for t in {**kept, **new}}
    assert list(merged(own, holding).items()) == _sorted(both)
    assert (own, holding) == before
