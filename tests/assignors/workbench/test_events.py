"""Test what events do to a group."""

import pytest

from assignors.workbench.events import (
    Event,
    Group,
    Join,
    Leave,
    RemoveTopic,
    SetPartitions,
    Subscribe,
    Together,
)
from groupsdk.assignment import Cluster, Subscription


def group() -> Group:
    return Group(
        Cluster({"t": 2, "u": 1}, {"t": [("a",), ("b",)]}), {"m": Subscription(("t",), rack_id="a")}
    )


def after(event: Event) -> Group:
    changed = group()
    event.apply(changed)
    return changed


def test_join_event_adds_a_member() -> None:
    assert after(Join("n")).members["n"] == Subscription(("t", "u"))
    assert after(Join("n", ["u"], "b", "i")).members["n"] == Subscription(
        ("u",), rack_id="b", group_instance_id="i"
    )


def test_leave_event_removes_a_member() -> None:
    assert after(Leave("m")).members == {}


def test_wanting_other_topics() -> None:
    assert after(Subscribe("m", ["u"])).members["m"] == Subscription(("u",), rack_id="a")


def test_partitions_event_sets_the_count_of_a_topic() -> None:
    assert after(SetPartitions("v", 3)).cluster.partition_counts == {"t": 2, "u": 1, "v": 3}
    assert after(SetPartitions("t", 1)).cluster == Cluster({"t": 1, "u": 1}, {"t": [("a",)]})
    assert after(RemoveTopic("t")).cluster == Cluster({"u": 1})


def test_the_topics_of_others_are_left_alone() -> None:
    first = group()
    cluster = first.cluster

    SetPartitions("t", 9).apply(first)

    assert cluster.partition_counts == {"t": 2, "u": 1}


def test_several_things_together() -> None:
    both = after(Together("a restart", [Leave("m"), Join("m", ["u"])]))

    assert both.members == {"m": Subscription(("u",))}


@pytest.mark.parametrize(
    ("event", "text"),
    [
        (Join("n"), "n joins"),
        (Leave("n"), "n leaves"),
        (Subscribe("n", ["t", "u"]), "n wants t, u"),
        (Subscribe("n", []), "n wants nothing"),
        (SetPartitions("t", 3), "t has 3 partitions"),
        (RemoveTopic("t"), "t is deleted"),
        (Together("a restart", []), "a restart"),
    ],
)
def test_workbench_event_is_written_as_its_members_and_kind(event: Event, text: str) -> None:
    assert str(event) == text


@pytest.mark.parametrize(
    ("event", "problem"),
    [
        (Join("m"), "member 'm' cannot join: it is in the group"),
        (Leave("n"), "member 'n' cannot leave: it is not in the group"),
        (Subscribe("n", []), "member 'n' cannot subscribe: it is not in the group"),
        (RemoveTopic("v"), "topic 'v' cannot be deleted: no topic has this name"),
    ],
)
def test_impossible_workbench_event_is_refused(event: Event, problem: str) -> None:
    with pytest.raises(ValueError, match=problem):
        after(event)
