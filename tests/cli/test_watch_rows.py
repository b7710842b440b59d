"""Tests which groups are shown, in which order, and what a narrow terminal keeps of them."""

from dataclasses import replace

from groupsdk.admin.descriptions import (
    Assignment,
    GroupDescription,
    GroupType,
    Member,
    PartitionLag,
    Subscription,
)
from groupsdk.admin.watching import Cause, ClusterView, Rebalance, WatchedGroup
from groupsdk.assignment import TopicPartition
from groupsdk.cli.watch_rows import COLUMNS, Order, fitting, group_rows, member_rows, rebalance_line
from groupsdk.verdict import Finding, GroupVerdict, Severity
from tests.support.cases import each_case


def group(
    name: str, *, lag: int, members: int, state: str = "Stable", since: int = 0
) -> WatchedGroup:
    """A group that is so far behind."""
    there = tuple(Member(f"m-{each}", "c", "/h") for each in range(members))
    description = GroupDescription(name, GroupType.CLASSIC, state, "consumer", "range", 1, there)
    return WatchedGroup(description, since, (PartitionLag("t", 0, 0, lag),))


VIEW = ClusterView(
    9_000,
    (
        group("billing", lag=5, members=3),
        group("orders-a", lag=70, members=1, state="Empty", since=8_000),
        group("orders-b", lag=7, members=2),
    ),
)


@each_case(
    ("order", "expected"),
    [
        (Order.GROUP, ["billing", "orders-a", "orders-b"]),
        (Order.LAG, ["orders-a", "orders-b", "billing"]),
        (Order.STATE, ["orders-a", "billing", "orders-b"]),
        (Order.MEMBERS, ["billing", "orders-b", "orders-a"]),
        (Order.SINCE, ["orders-a", "billing", "orders-b"]),
    ],
)
def test_groups_are_in_the_order_that_is_asked_for(order: Order, expected: list[str]) -> None:
    assert [each.group_id for each in group_rows(VIEW, order=order)] == expected


def verdict(name: str, severity: Severity) -> GroupVerdict:
    finding = Finding("growing_lag", severity, name, "saw", "cost", "change", 0.8)
    return GroupVerdict(name, 0, () if severity is Severity.OK else (finding,))


VERDICTS = {
    "billing": verdict("billing", Severity.OK),
    "orders-a": verdict("orders-a", Severity.NOTICE),
    "orders-b": verdict("orders-b", Severity.CRITICAL),
}


def test_worst_groups_come_first_where_that_is_asked_for() -> None:
    rows = group_rows(VIEW, order=Order.FINDING, verdicts=VERDICTS)
    assert [(each.group_id, each.cells[-1]) for each in rows] == [
        ("orders-b", "growing_lag"),
        ("orders-a", "growing_lag"),
        ("billing", "-"),
    ]


def test_column_of_findings_is_there_where_something_was_found() -> None:
    found = group_rows(VIEW, verdicts=VERDICTS)
    assert COLUMNS[fitting(found, 200, gap=2).columns[-1]] == "FINDING"
    assert COLUMNS[fitting(group_rows(VIEW), 200, gap=2).columns[-1]] == "LAG"


def test_orders_follow_one_another_in_a_circle() -> None:
    seen = [Order.GROUP]
    while (after := seen[-1].following) is not Order.GROUP:
        seen.append(after)
    assert seen == [*Order]


def test_groups_are_found_by_a_part_of_their_id_or_by_a_pattern() -> None:
    for wanted, expected in (
        ("ORD", ["orders-a", "orders-b"]),
        ("*-b", ["orders-b"]),
        ("x", []),
    ):
        assert [each.group_id for each in group_rows(VIEW, wanted)] == expected


NAME = "payments-reconciliation-of-europe"


@each_case(
    ("width", "columns"),
    [
        (200, [*COLUMNS[:-1]]),
        (90, ["GROUP", "STATE", "SINCE", "ASSIGNOR", "MEMBERS", "ASSIGNED", "LAG"]),
        (75, ["GROUP", "STATE", "ASSIGNOR", "MEMBERS", "LAG"]),
        (60, ["GROUP", "STATE", "MEMBERS", "LAG"]),
        (45, ["GROUP", "LAG"]),
        (10, ["GROUP"]),
    ],
)
def test_name_of_a_group_is_the_last_that_a_narrow_terminal_cuts(
    width: int, columns: list[str]
) -> None:
    rows = group_rows(ClusterView(0, (group(NAME, lag=10, members=4),)))
    fit = fitting(rows, width, gap=2)
    assert [COLUMNS[at] for at in fit.columns] == columns
    assert fit.name_width == (len(NAME) if width > len(NAME) + 2 else width - 2)


def test_name_that_is_longer_than_the_terminal_leaves_room_for_the_lag() -> None:
    rows = group_rows(ClusterView(0, (group("g" * 249, lag=10, members=4),)))
    fit = fitting(rows, 80, gap=2)
    assert "LAG" in [COLUMNS[at] for at in fit.columns]
    assert 80 * 2 // 3 <= fit.name_width < 80


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
