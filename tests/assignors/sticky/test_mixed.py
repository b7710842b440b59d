"""With unequal subscriptions the parts play together: the loads, then what is kept."""

from assignors.sticky.claims import settle
from assignors.sticky.mixed import share_fairly
from assignors.sticky.readership import Readership
from assignors.sticky.rows import make_rows
from groupsdk.assignment import Partitions


def _share(
    topics: list[set[str]], counts: dict[str, int], claims: list[Partitions]
) -> list[dict[str, tuple[int, ...]]]:
    subscribed = [frozenset(each) for each in topics]
    rows = make_rows(Readership(subscribed, counts), counts, [None] * len(topics), {})
    ownership = settle(claims, [1] * len(topics), Readership(subscribed, counts), counts)
    return share_fairly(ownership, rows, moves_first=False).hands


def test_improves_through_a_third_member() -> None:
    # Member 0 cannot give to member 2, but member 1 can pass on.
    counts = {"a": 6, "b": 2}
    claims: list[Partitions] = [{"a": range(4)}, {"a": (4, 5), "b": (0, 1)}, {}]
    hands = _share([{"a"}, {"a", "b"}, {"b"}], counts, claims)
    assert [sum(map(len, hand.values())) for hand in hands] == [3, 3, 2]
    assert hands == [{"a": (0, 1, 2)}, {"a": (3, 4, 5)}, {"b": (0, 1)}]


def test_whole_topics_stay_in_their_block() -> None:
    hands = _share([{"a"}, {"a", "b"}, {"b"}], {"a": 2, "b": 20}, [{}, {}, {}])
    assert hands[0] == {"a": (0, 1)}
    assert [len(hands[1]["b"]), len(hands[2]["b"])] == [10, 10]


def test_takes_the_detour_that_moves_less() -> None:
    # Both ways balance; one moves partitions of two members, the other of one.
    counts = {"a": 4, "b": 4, "c": 1}
    claims: list[Partitions] = [{"a": (0, 1, 2, 3)}, {"b": (0, 1, 2)}, {"b": (3,)}]
    hands = _share([{"a", "c"}, {"a", "b"}, {"a", "b"}], counts, claims)
    assert [sum(map(len, hand.values())) for hand in hands] == [3, 3, 3]
    assert hands[1] == {"b": (0, 1, 2)}
    assert len(hands[0]["a"]) == 2
    assert hands[2]["b"] == (3,)
