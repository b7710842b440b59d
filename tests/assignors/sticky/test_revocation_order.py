"""Members give away what they have most of."""

from hypothesis import given, settings, strategies as st

from assignors.sticky.partition_selection import RevocationOrder, without


def test_of_a_topic_the_last_go() -> None:
    assert RevocationOrder().choose({"t": (4, 0, 2)}, 2) == {"t": [2, 4]}


def test_highest_topics_are_cut_first() -> None:
    own = {"a": range(1), "b": range(5), "c": range(4)}
    assert RevocationOrder().choose(own, 4) == {"b": [2, 3, 4], "c": [3]}


def test_equals_take_turns_from_member_to_member() -> None:
    donor = RevocationOrder()
    own = dict.fromkeys("abc", (0,))
    given_away = [list(donor.choose(own, 1)) for _ in range(4)]
    assert given_away == [["a"], ["b"], ["c"], ["a"]]


@settings(deadline=None)
@given(
    st.lists(
        st.dictionaries(
            st.sampled_from("abcd"), st.sets(st.integers(0, 20), min_size=1).map(tuple), min_size=1
        ),
        min_size=1,
        max_size=4,
    ),
    st.data(),
)
def test_just_as_many_as_asked_and_what_is_left_is_level(
    members: list[dict[str, tuple[int, ...]]], data: st.DataObject
) -> None:
    donor = RevocationOrder()
    for own in members:
        total = sum(map(len, own.values()))
        count = data.draw(st.integers(0, total))
        shed = donor.choose(own, count)
        assert sum(map(len, shed.values())) == count
        left = without(own, shed)
        for topic, numbers in own.items():
            assert sorted([*left.get(topic, ()), *shed.get(topic, ())]) == sorted(numbers)
        if shed:
            # Nothing was taken from a topic while another one had two more.
            tallest = max(map(len, left.values()), default=0)
            assert all(len(left.get(topic, ())) >= tallest - 1 for topic in shed)


def test_leaving_out_keeps_the_original() -> None:
    own = {"a": (0, 1), "b": (2,)}
    assert without(own, {"a": [1], "b": [2]}) == {"a": (0,)}
    assert own == {"a": (0, 1), "b": (2,)}
