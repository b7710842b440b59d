"""Holds the overview's rows to the groups that they are made of."""

from groupsdk.admin.descriptions import (
    Assignment,
    GroupDescription,
    GroupType,
    Member,
    PartitionLag,
    Subscription,
)
from groupsdk.admin.watching import WatchedGroup
from groupsdk.assignment import TopicPartition
from groupsdk.verdict import Finding, GroupVerdict, Severity
from groupsdk.web.connect_tasks import ShownTask
from groupsdk.web.overview import Said, group_row, kind_of, lag_of, matching, said_of
from tests.support.cases import each_case
from tests.support.observed_groups import group


FINDING = Finding("lag", Severity.WARNING, "g", "12 records behind", "late", "read", 0.9)


@each_case(
    "described",
    [
        (group(), "consumer"),
        (group(protocol_type=""), "consumer"),
        (group(type=GroupType.CONSUMER), "consumer"),
        (group(assignor="shards"), "consumer"),
        (group(protocol_type="connect", assignor="sessioned"), "connect"),
        (group(protocol_type="work", assignor="shards"), "shards"),
        (group(protocol_type="sr", assignor="v0"), "sr"),
        (group(type=GroupType.SHARE, protocol_type="share"), "share"),
        (group(type=GroupType.STREAMS, protocol_type="streams"), "streams"),
    ],
)
def test_kind_of_a_group(described: tuple[GroupDescription, str]) -> None:
    assert kind_of(described[0]) == described[1]


def test_row_says_what_is_worth_looking_at() -> None:
    member = Member("m", "c", "/h", assignment=Assignment((TopicPartition("t", 0),)))
    verdict = GroupVerdict("g", 5, (FINDING,))
    watched = WatchedGroup(group(member, state="PreparingRebalance"), 3)
    row = group_row(watched, 12, verdict, said_of(verdict, None), 7)
    assert row["severity"] == "warning"
    assert row["finding"] == "12 records behind"
    assert (row["findings"], row["rebalances"], row["members"]) == (1, 7, 1)
    assert (row["rebalancing"], row["abandoned"], row["has"]) == (True, False, "1 partition")


def test_empty_group_with_lag_is_abandoned() -> None:
    lag = (PartitionLag("t", 0, 3, 10), PartitionLag("t", 1, None, 10))
    watched = WatchedGroup(group(state="Empty"), 3, lag)
    verdict = GroupVerdict("g", 5)
    assert lag_of(watched) == 7
    row = group_row(watched, lag_of(watched), verdict, said_of(verdict, None), 0)
    assert (row["abandoned"], row["severity"], row["finding"]) == (True, "ok", "")
    assert not group_row(watched, 0, verdict, Said(), 0)["abandoned"]
    joining = WatchedGroup(group(state="PreparingRebalance"), 3, lag)
    assert not group_row(joining, 7, verdict, Said(), 0)["abandoned"]
    assert lag_of(WatchedGroup(group(), 0)) is None


def test_failed_tasks_and_what_workers_share_are_counted() -> None:
    worker = Member("w", "c", "/h", assignment=Assignment(connectors=("a",), tasks=("a-0", "a-1")))
    tasks = [
        ShownTask(group_id="g", connector="a", task=number, state=state, worker="w")
        for number, state in enumerate(("FAILED", "RUNNING"))
    ]
    watched = WatchedGroup(group(worker, protocol_type="connect"), 0)
    row = group_row(watched, None, GroupVerdict("g", 5), Said(), 0, tasks)
    assert (row["failed"], row["has"]) == (1, "1 connector, 2 tasks")


def test_sentence_stands_for_ten_seconds_unless_another_rule_applies() -> None:
    said = said_of(GroupVerdict("g", 1_000, (FINDING,)), None)
    other = Finding("lag", Severity.WARNING, "g", "13 records behind", "late", "read", 0.9)
    assert said_of(GroupVerdict("g", 10_999, (other,)), said) is said
    assert said_of(GroupVerdict("g", 11_000, (other,)), said).text == "13 records behind"
    worse = Finding("empty", Severity.CRITICAL, "g", "nobody reads", "lost", "start", 1.0)
    assert said_of(GroupVerdict("g", 1_001, (worse, other)), said).text == "nobody reads"
    assert said_of(GroupVerdict("g", 1_002), said) == Said()


def test_groups_are_found_by_members_topics_and_hosts() -> None:
    a = Member(
        "m-a",
        "Client-A",
        "/10.0.0.1",
        subscription=Subscription(("orders",)),
        assignment=Assignment((TopicPartition("orders", 0),)),
    )
    groups = {
        "first": WatchedGroup(group(a, group_id="first"), 0),
        "second": WatchedGroup(group(group_id="second"), 0, (PartitionLag("mail", 0, 1, 2),)),
    }
    assert matching(groups, ["client-a"]) == ["first"]
    assert matching(groups, ["orders", "10.0.0.1"]) == ["first"]
    assert matching(groups, ["mail"]) == ["second"]
    assert matching(groups, ["orders", "mail"]) == []
    assert matching(groups, ["s"]) == ["first", "second"]
