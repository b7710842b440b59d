"""With unequal subscriptions the parts play together: the loads, then what is kept."""

from pytest_mock import MockerFixture

from assignors.sticky import general_case
from assignors.sticky.general_case import share_fairly
from assignors.sticky.ownership import find_owners
from assignors.sticky.partition_rows import make_partition_rows
from assignors.sticky.subscription_index import SubscriptionIndex
from groupsdk.assignment import Partitions


def _share(
    topics: list[set[str]], counts: dict[str, int], claims: list[Partitions]
) -> list[dict[str, tuple[int, ...]]]:
    subscribed = [frozenset(each) for each in topics]
    rows = make_partition_rows(
        SubscriptionIndex(subscribed, counts), counts, [None] * len(topics), {}
    )
    ownership = find_owners(
        claims, [1] * len(topics), SubscriptionIndex(subscribed, counts), counts
    )
    return share_fairly(ownership, rows, moves_first=False).holdings


def test_improves_through_a_third_member() -> None:
    # Member 0 cannot give to member 2, but member 1 can pass on.
    counts = {"a": 6, "b": 2}
    claims: list[Partitions] = [{"a": range(4)}, {"a": (4, 5), "b": (0, 1)}, {}]
    holdings = _share([{"a"}, {"a", "b"}, {"b"}], counts, claims)
    assert [sum(map(len, holding.values())) for holding in holdings] == [3, 3, 2]
    assert holdings == [{"a": (0, 1, 2)}, {"a": (3, 4, 5)}, {"b": (0, 1)}]


def test_whole_topics_stay_in_their_block() -> None:
    holdings = _share([{"a"}, {"a", "b"}, {"b"}], {"a": 2, "b": 20}, [{}, {}, {}])
    assert holdings[0] == {"a": (0, 1)}
    assert [len(holdings[1]["b"]), len(holdings[2]["b"])] == [10, 10]


def test_takes_the_detour_that_moves_less() -> None:
    # Both ways balance; one moves partitions of two members, the other of one.
    counts = {"a": 4, "b": 4, "c": 1}
    claims: list[Partitions] = [{"a": (0, 1, 2, 3)}, {"b": (0, 1, 2)}, {"b": (3,)}]
    holdings = _share([{"a", "c"}, {"a", "b"}, {"a", "b"}], counts, claims)
    assert [sum(map(len, holding.values())) for holding in holdings] == [3, 3, 3]
    assert holdings[1] == {"b": (0, 1, 2)}
    assert len(holdings[0]["a"]) == 2
    assert holdings[2]["b"] == (3,)


def _share_in_racks(
    claims: list[Partitions], member_racks: list[str], replica_racks: list[str]
) -> tuple[list[dict[str, tuple[int, ...]]], int]:
    """Share out one topic; returns who has what, and how many of it are off rack."""
    subscribed = [["t"]] * len(claims)
    counts = {"t": len(replica_racks)}
    racks = {"t": [frozenset(each) for each in replica_racks]}
    subscription_index = SubscriptionIndex(subscribed, counts)
    rows = make_partition_rows(subscription_index, counts, member_racks, racks)
    ownership = find_owners(claims, [1] * len(claims), subscription_index, counts)
    holdings = share_fairly(ownership, rows, moves_first=False).holdings
    off_rack = sum(
        rack not in racks["t"][number]
        for rack, holding in zip(member_racks, holdings, strict=True)
        for number in holding.get("t", ())
    )
    return holdings, off_rack


def test_needs_no_flow_where_everybody_finds_enough_on_rack(mocker: MockerFixture) -> None:
    solve = mocker.spy(general_case, "_solve")
    claims: list[Partitions] = [{"t": (0, 1)}, {"t": (2, 3)}]
    holdings, off_rack = _share_in_racks(claims, ["a", "b"], ["a", "b", "b", "a"])
    assert holdings == [{"t": (0, 3)}, {"t": (1, 2)}]
    assert off_rack == 0
    assert not solve.called


def test_partition_off_rack_for_all_members_is_not_moved(mocker: MockerFixture) -> None:
    solve = mocker.spy(general_case, "_solve")
    claims: list[Partitions] = [{"t": (0, 1)}, {"t": (2, 3)}]
    holdings, off_rack = _share_in_racks(claims, ["a", "b"], ["c", "c", "c", "c"])
    assert holdings == claims
    assert off_rack == 4
    assert not solve.called


def test_sticky_balance_comes_before_racks(mocker: MockerFixture) -> None:
    solve = mocker.spy(general_case, "_solve")
    claims: list[Partitions] = [{"t": (0, 1, 2)}, {"t": (3,)}]
    holdings, off_rack = _share_in_racks(claims, ["a", "b"], ["a", "a", "a", "b"])
    assert [len(holding["t"]) for holding in holdings] == [2, 2]
    assert off_rack == 1
    assert solve.called
