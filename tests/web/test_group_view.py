"""Holds a group's page to the group, its members and its rebalances."""

import json

from groupsdk.admin.descriptions import (
    Assignment,
    GroupType,
    Member,
    PartitionLag,
    Subscription,
)
from groupsdk.admin.watching import Cause, Rebalance, WatchedGroup
from groupsdk.assignment import TopicPartition
from groupsdk.verdict import Finding, GroupVerdict, Severity
from groupsdk.web.group_view import (
    MAX_MEMBERS,
    MAX_RANGES,
    group_view,
    member_row,
    shown_parts,
    topic_ranges,
    topic_rows,
)
from tests.support.observed_groups import group


def partitions(topic: str, *numbers: int) -> tuple[TopicPartition, ...]:
    return tuple(TopicPartition(topic, each) for each in numbers)


def test_members_with_what_they_have_and_their_lag() -> None:
    a = Member(
        "m-a",
        "a",
        "/h",
        assignment=Assignment(partitions("t", 0, 1)),
        target=Assignment(partitions("t", 1, 2)),
    )
    b = Member("m-b", "b", "/h")
    lag = (
        PartitionLag("t", 0, 5, 7, member_id="m-a"),
        PartitionLag("t", 1, 5, 9, member_id="m-a"),
        PartitionLag("t", 2, None, 4, member_id=None),
    )
    view = group_view(WatchedGroup(group(a, b), 10, lag), None, [(10, "Stable")], [])
    assert view.lags == {"m-a": 6}
    first, second = view.members["m-a"], view.members["m-b"]
    assert (first["parts"], first["coming"], first["going"]) == (["t(0-1)"], ["t(2)"], ["t(0)"])
    assert (second["parts"], second["coming"], second["size"]) == ([], [], 0)
    assert (view.facts["lag"], view.facts["states"]) == (6, [[10, "Stable"]])
    assert view.facts["findings"] is None
    assert json.loads(json.dumps(view.topics)) == {
        "t": {
            "partitions": "0-2",
            "count": 3,
            "unowned": "2",
            "uncommitted": 1,
            "lag": 6,
            "worst": [1, 4],
        }
    }


def test_shard_worker_has_standbys_and_says_that_it_drains() -> None:
    worker = Member(
        "w",
        "c",
        "/h",
        rack="eu",
        subscription=Subscription(url="http://w:1/", zone="eu", draining=True),
        assignment=Assignment(shards={"s-1": 4, "s-2": 4}, standbys=("s-7",)),
    )
    row = member_row(worker)
    assert (row["parts"], row["standbys"]) == (["s-(1-2)"], ["s-7"])
    assert (row["draining"], row["url"], row["rack"]) == (True, "http://w:1/", "eu")


def test_load_and_weight_of_a_member_are_those_of_its_shards() -> None:
    loaded = Member(
        "m",
        "a",
        "/h",
        subscription=Subscription(loads={"s-1": 2.5, "s-2": 4}),
        assignment=Assignment(shards={"s-1": 7, "s-3": 7}, weights={"s-3": 0.25}),
    )
    row, plain = member_row(loaded), member_row(Member("n", "b", "/h"))
    assert (row["load"], row["weight"]) == ("2.5", "1.25")
    assert (plain["load"], plain["weight"]) == (None, None)


def test_tasks_of_a_streams_member_that_move() -> None:
    member = Member(
        "m",
        "c",
        "/h",
        protocol=GroupType.STREAMS,
        assignment=Assignment(tasks=("0_0", "0_1"), standbys=("1_0",)),
        target=Assignment(tasks=("0_1", "0_2")),
    )
    row = member_row(member)
    assert (row["parts"], row["coming"], row["going"]) == (["0_(0-1)"], ["0_2"], ["0_0"])
    assert row["standbys"] == ["1_0"]


def test_group_without_members_has_no_partition_without_a_member() -> None:
    rows = topic_rows(group(), [PartitionLag("t", 0, 5, 7)])
    assert rows["t"]["unowned"] == ""


def test_findings_come_whole() -> None:
    finding = Finding("lag", Severity.WARNING, "g", "saw", "cost", "change", 0.75)
    view = group_view(WatchedGroup(group(), 0), GroupVerdict("g", 1, (finding,)), [], [])
    assert view.facts["findings"] == [
        {
            "rule": "lag",
            "severity": "warning",
            "saw": "saw",
            "cost": "cost",
            "change": "change",
            "confidence": 0.75,
        }
    ]


def test_rebalance_tells_its_causes_and_how_long_each_state_was_seen() -> None:
    cause = Cause(kind="left", member_id="m-b", client_id="b", host="/h")
    done = Rebalance(
        group_id="g",
        began_ms=1_000,
        ended_ms=1_900,
        causes=(cause,) * 30,
        moved=2,
        members=1,
        phases=(("PreparingRebalance", 1_000), ("CompletingRebalance", 1_700), ("Stable", 1_900)),
    )
    running = Rebalance(group_id="g", began_ms=2_000)
    view = group_view(WatchedGroup(group(), 0), None, [], [done, running])
    first, second = view.rebalances["1000"], view.rebalances["2000"]
    assert first["causes"][0] == {
        "kind": "left",
        "client_id": "b",
        "member_id": "m-b",
        "host": "/h",
        "detail": "",
    }
    assert (len(first["causes"]), first["more_causes"]) == (20, 10)
    assert first["phases"] == [("PreparingRebalance", 700), ("CompletingRebalance", 200)]
    assert (first["length_ms"], first["moved"], first["members"]) == (900, 2, 1)
    assert (second["length_ms"], second["phases"]) == (None, [])


def test_very_many_members_are_not_all_sent() -> None:
    members = tuple(Member(f"m-{number}", "c", "/h") for number in range(MAX_MEMBERS + 5))
    view = group_view(WatchedGroup(group(*members), 0), None, [], [])
    assert len(view.members) == MAX_MEMBERS
    assert view.facts["member_count"] == MAX_MEMBERS + 5


def test_partitions_are_ranges_of_their_topic() -> None:
    assert shown_parts(Assignment(partitions("big", *range(667)))) == ["big(0-666)"]
    both = (*partitions("orders", 3, 1, 2, 7), *partitions("mail", 0))
    assert topic_ranges(both) == ["mail(0)", "orders(1-3,7)"]


def test_tasks_shards_and_lists_of_other_protocols_have_their_names() -> None:
    connect = Assignment(connectors=("logs, of all",), tasks=("logs-0", "logs-1", "logs-2"))
    assert shown_parts(connect) == ["logs, of all", "logs-(0-2)"]
    assert shown_parts(Assignment(shards={"shard-3": 1, "shard-4": 9, "eu": 2})) == [
        "eu",
        "shard-(3-4)",
    ]
    assert shown_parts(Assignment(other=["a", 2])) == ["a", "2"]
    assert shown_parts(Assignment(other={"base64": "AAA="})) == ['{"base64": "AAA="}']
    assert shown_parts(Assignment()) == []


def test_very_many_topics_and_numbers_are_cut() -> None:
    topics = [each for number in range(150) for each in partitions(f"t{number:03d}-x", 0)]
    shown = shown_parts(Assignment(tuple(topics)))
    assert len(shown) == MAX_RANGES + 1
    assert shown[-1] == "and 50 more"
    (odd,) = shown_parts(Assignment(partitions("t", *range(1, 9_999, 2))))
    assert len(odd) < 1_000
    assert odd.endswith("…")
