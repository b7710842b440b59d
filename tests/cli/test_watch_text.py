"""Tests the words of `groupsdk watch`."""

from dataclasses import replace

from groupsdk.admin.descriptions import (
    Assignment,
    GroupDescription,
    GroupType,
    Member,
    PartitionLag,
    Subscription,
)
from groupsdk.admin.watching import Cause, Rebalance, WatchedGroup
from groupsdk.assignment import TopicPartition
from groupsdk.cli.watch_text import member_rows, rebalance_line


CAUSE = Cause(kind="joined", member_id="m-1", client_id="c", host="/h")
DONE = Rebalance(group_id="g", began_ms=0, ended_ms=20, causes=(CAUSE,), moved=3, members=2)


def test_a_rebalance_is_told_on_a_line() -> None:
    assert rebalance_line(DONE).endswith("g: c (m-1) at /h joined; took 20 ms, 2 members, 3 moved")
    short = rebalance_line(replace(DONE, ended_ms=0, causes=()))
    assert "the cause is not seen yet; took less than an interval" in short


def test_members_have_the_lag_of_their_partitions() -> None:
    parts = tuple(TopicPartition("t", each) for each in (0, 1))
    member = Member("m-1", "c", "/h", "i", assignment=Assignment(parts))
    idle = Member("m-2", "c", "/h")
    group = GroupDescription(
        "g", GroupType.CLASSIC, "Stable", "consumer", "range", 1, (member, idle)
    )
    lag = tuple(PartitionLag("t", each, 0, 5, "m-1") for each in (0, 1))
    assert member_rows(WatchedGroup(group, 0, lag)) == [
        ("m-1", "i", "c", "/h", 2, 10, "t(0-1)"),
        ("m-2", None, "c", "/h", 0, 0, ""),
    ]


def test_member_with_shards_has_their_weight_and_load_where_known() -> None:
    shards = Assignment(shards={"s-1": 5, "s-2": 5}, standbys=("s-3",))
    plain = Member("m", "c", "/h", assignment=shards)
    weighed = replace(
        plain,
        assignment=replace(shards, weights={"s-2": 1.5}),
        subscription=Subscription(loads={"s-1": 4.0}),
    )
    group = GroupDescription(
        "g", GroupType.CLASSIC, "Stable", "crawl", "shards", 1, (plain, weighed)
    )
    assert [row[-1] for row in member_rows(WatchedGroup(group, 0, ()))] == [
        "s-(1-2) standby: s-3",
        "s-(1-2) standby: s-3; weight 2.5; load 4",
    ]
