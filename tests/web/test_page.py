"""Holds the state that the page shows to the views that it is made of."""

import json

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
from groupsdk.web.connect_tasks import FollowedGroup, TaskHistory
from groupsdk.web.page import page_state


ABOUT = {"cluster_id": "c", "brokers": 3, "assignors": ["range"]}


def group(*members: Member, state: str = "Stable") -> GroupDescription:
    return GroupDescription("g", GroupType.CLASSIC, state, "consumer", "range", 1, members)


def partitions(*numbers: int) -> Assignment:
    return Assignment(partitions=tuple(TopicPartition("t", number) for number in numbers))


def test_members_with_what_they_have_and_their_lag() -> None:
    a = Member("m-a", "a", "/127.0.0.1", assignment=partitions(0, 1), target=partitions(1, 2))
    b = Member("m-b", "b", "/127.0.0.1")
    lag = (
        PartitionLag("t", 0, 5, 7, member_id="m-a"),
        PartitionLag("t", 1, 5, 9, member_id="m-a"),
        PartitionLag("t", 2, None, 4, member_id=None),
    )
    watched = WatchedGroup(group(a, b), 10, lag)
    state = page_state(ClusterView(100, (watched,)), {"g": [(10, "Stable")]}, ABOUT)
    (shown,) = state["groups"]
    assert shown["lag"] == watched.total_lag
    assert shown["states"] == [[10, "Stable"]]
    first, second = shown["members"]
    assert (first["parts"], first["target"], first["lag"]) == (["t-0", "t-1"], ["t-1", "t-2"], 6)
    assert (second["parts"], second["target"], second["lag"]) == ([], None, None)
    assert json.loads(json.dumps(state)) == json.loads(json.dumps(state | {"brokers": 3}))


def test_the_load_of_a_member_is_that_of_its_shards() -> None:
    loaded = Member(
        "m",
        "a",
        "/h",
        subscription=Subscription(loads={"s-1": 2.5, "s-2": 4}),
        assignment=Assignment(shards={"s-1": 7}),
    )
    watched = WatchedGroup(group(loaded, Member("n", "b", "/h")), 10, ())
    state = page_state(ClusterView(100, (watched,)), {"g": [(10, "Stable")]}, ABOUT)
    assert [each["load"] for each in state["groups"][0]["members"]] == ["2.5", None]


def test_a_rebalance_tells_its_cause_and_how_long_each_state_was_seen() -> None:
    done = Rebalance(
        group_id="g",
        began_ms=1_000,
        ended_ms=1_900,
        causes=(Cause(kind="left", member_id="m-b", client_id="b", host="/h"),),
        moved=2,
        members=1,
        phases=(("PreparingRebalance", 1_000), ("CompletingRebalance", 1_700), ("Stable", 1_900)),
    )
    running = Rebalance(group_id="g", began_ms=2_000)
    state = page_state(ClusterView(2_500, (), (running, done)), {}, ABOUT)
    first, second = state["events"]
    assert first["text"] == "rebalanced, 2 moved, 1 members: b (m-b) at /h left"
    assert first["phases"] == [("PreparingRebalance", 700), ("CompletingRebalance", 200)]
    assert (second["text"], second["phases"]) == ("rebalancing", [])


def test_tasks_of_connects_workers_with_the_changes_among_them() -> None:
    worker = Member(
        "w",
        "worker-1",
        "/127.0.0.1",
        subscription=Subscription(url="http://w:8083/"),
        assignment=Assignment(connectors=("logs",), tasks=("logs-0", "logs-1")),
    )
    described = group(worker)
    tasks, history = FollowedGroup("g").tasks(described), TaskHistory()
    history.observe(1_500, "g", tasks)
    history.observe(2_500, "g", tasks[:2])
    rebalances = (Rebalance(group_id="g", began_ms=3_000), Rebalance(group_id="g", began_ms=2_000))
    view = ClusterView(1, (WatchedGroup(described, 1),), rebalances)
    state = page_state(view, {}, ABOUT, tasks, history)
    assert [each["name"] for each in state["tasks"]] == ["logs", "logs-0", "logs-1"]
    assert {(each["worker"], each["state"]) for each in state["tasks"]} == {("w:8083", "ASSIGNED")}
    assert [each["text"] for each in state["events"]] == [
        "rebalancing",
        "logs-1 is gone",
        "rebalancing",
    ]


def test_very_many_partitions_are_not_all_sent() -> None:
    member = Member("m", "c", "/h", assignment=partitions(*range(1_500)))
    state = page_state(ClusterView(1, (WatchedGroup(group(member), 1),)), {}, ABOUT)
    parts = state["groups"][0]["members"][0]["parts"]
    assert len(parts) == 1_001
    assert parts[-1] == "and 500 more"
