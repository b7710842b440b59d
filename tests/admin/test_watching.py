"""Tests what is told of rebalances from one look to the next, and the polling of a cluster."""

import asyncio

from groupsdk.admin.cluster import ClusterClient
from groupsdk.admin.descriptions import (
    Assignment,
    GroupDescription,
    GroupType,
    Member,
    Subscription,
)
from groupsdk.admin.watching import ClusterView, GroupTracker, watch_cluster
from groupsdk.assignment import TopicPartition
from groupsdk.broker.embedded import EmbeddedBroker
from tests.cli.peers import own_protocol
from tests.support.proxy import FaultProxy


def member(
    name: str, *partitions: int, instance: str | None = None, topics: tuple[str, ...] = ("t",)
) -> Member:
    """A consumer with some partitions of t."""
    parts = tuple(TopicPartition("t", each) for each in partitions)
    return Member(
        member_id=name,
        client_id=f"client-{name}",
        host="/h",
        instance_id=instance,
        subscription=Subscription(topics if parts else ()),
        assignment=Assignment(parts),
    )


def group(state: str, *members: Member, epoch: int | None = None) -> GroupDescription:
    return GroupDescription(
        "g", GroupType.CLASSIC, state, "consumer", "range", 1, members, epoch=epoch
    )


def test_a_member_that_joins_is_the_cause() -> None:
    tracker = GroupTracker()
    assert tracker.observe(1_000, [group("Stable", member("a", 0, 1))]) == []
    assert list(tracker.rebalances) == []
    joining = group("PreparingRebalance", member("a"), member("b"))
    assert tracker.observe(2_000, [joining]) == []
    (open_one,) = tracker.rebalances
    assert (open_one.began_ms, open_one.ended_ms, open_one.length_ms) == (2_000, None, None)
    tracker.observe(3_000, [group("CompletingRebalance", member("a"), member("b"))])
    (done,) = tracker.observe(4_000, [group("Stable", member("a", 0), member("b", 1))])
    assert [(each.kind, each.member_id) for each in done.causes] == [("joined", "b")]
    assert done.causes[0].text == "client-b (b) at /h joined"
    assert (done.length_ms, done.moved, done.members) == (2_000, 1, 2)
    assert done.phases == (
        ("PreparingRebalance", 2_000),
        ("CompletingRebalance", 3_000),
        ("Stable", 4_000),
    )
    assert list(tracker.rebalances) == [done]
    assert tracker.since_ms("g") == 4_000


def test_a_rebalance_between_two_looks_is_told_by_what_it_changed() -> None:
    tracker = GroupTracker()
    tracker.observe(0, [group("Stable", member("a", 0), member("b", 1))])
    (left,) = tracker.observe(10, [group("Stable", member("a", 0, 1))])
    assert [(each.kind, each.member_id) for each in left.causes] == [("left", "b")]
    assert (left.length_ms, left.moved) == (0, 1)
    static = [group("Stable", member("x", 0, instance="i"))]
    other = [group("Stable", member("y", 0, instance="i"))]
    tracker.observe(20, static)
    (again,) = tracker.observe(30, other)
    assert [(each.kind, each.member_id) for each in again.causes] == [("restarted", "y")]
    assert tracker.observe(40, other) == []


def test_subscriptions_epochs_and_what_nobody_sees() -> None:
    tracker = GroupTracker()
    tracker.observe(0, [group("Stable", member("a", 0), epoch=3)])
    wants = group("Stable", member("a", 0, topics=("t", "u")), epoch=4)
    (done,) = tracker.observe(1, [wants])
    assert (done.causes[0].kind, done.causes[0].detail, done.epoch) == ("subscribed", "t, u", 4)
    (done,) = tracker.observe(2, [group("Stable", member("a", 0, topics=("t", "u")), epoch=5)])
    assert done.causes[0].text == "the group went from epoch 4 to 5"
    tracker.observe(3, [group("PreparingRebalance", member("a"), epoch=5)])
    (done,) = tracker.observe(4, [group("Stable", member("a", 0, topics=("t", "u")), epoch=5)])
    assert done.causes[0].kind == "unknown"


def test_groups_come_and_go() -> None:
    tracker = GroupTracker()
    tracker.observe(0, [])
    (done,) = tracker.observe(1, [group("Stable", member("a", 0))])
    assert [each.kind for each in done.causes] == ["joined"]
    tracker.observe(2, [])
    assert list(tracker.rebalances) == [done]
    # at the first look nobody knows who came when
    first = GroupTracker()
    first.observe(0, [group("PreparingRebalance", member("a"))])
    (done,) = first.observe(1, [group("Stable", member("a", 0))])
    assert done.causes[0].kind == "unknown"


def test_a_look_without_an_answer_is_told_before_it_fails() -> None:
    async def followed(proxy: FaultProxy) -> list[ClusterView]:
        settings = {"bootstrap.servers": proxy.bootstrap_servers}
        found = []
        async with ClusterClient(settings) as client:
            views = watch_cluster(client, interval_s=0.01, with_waits=True)
            found.append(await anext(views))
            proxy.black_hole()
            while (view := await anext(views)).asking_since_ms is None:
                pass
            found.append(view)
            proxy.black_hole(silent=False)
            proxy.disconnect()
            while (view := await anext(views)).asking_since_ms is not None:
                pass
            found.append(view)
            await views.aclose()
        return found

    with (
        EmbeddedBroker() as broker,
        FaultProxy() as proxy,
        own_protocol(broker.bootstrap_servers, "g"),
    ):
        proxy.connect_to(broker.bootstrap_servers)
        before, silent, after = asyncio.run(followed(proxy))
    assert silent.groups == before.groups
    assert silent.seen_ms is not None
    assert silent.seen_ms <= silent.at_ms
    assert after.seen_ms is not None
    assert after.seen_ms > silent.seen_ms


def test_silence_is_told_long_before_the_next_look_is_due() -> None:
    async def followed(proxy: FaultProxy) -> tuple[ClusterView, ClusterView]:
        async with ClusterClient({"bootstrap.servers": proxy.bootstrap_servers}) as client:
            views = watch_cluster(client, interval_s=3_600, with_waits=True)
            seen = await anext(views)
            proxy.black_hole()
            silent = await anext(views)
            await views.aclose()
        return seen, silent

    with EmbeddedBroker() as broker, FaultProxy() as proxy:
        proxy.connect_to(broker.bootstrap_servers)
        seen, silent = asyncio.run(followed(proxy))
    assert seen.asking_since_ms is None
    assert silent.asking_since_ms is not None
    assert silent.seen_ms == seen.seen_ms
