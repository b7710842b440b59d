"""Holds roundrobin to the tables of Kafka's rules."""

from assignors.roundrobin import RoundRobinAssignor
from groupsdk.assignment import Cluster, Subscription


def test_topics_are_sorted_by_utf16_code_units() -> None:
    group = Cluster({"\ufffd": 1, "\U0001f600": 1, "t": 1})

    plan = RoundRobinAssignor().assign(group, {"C0": Subscription(tuple(group.partition_counts))})

    assert list(plan["C0"].partitions) == ["t", "\U0001f600", "\ufffd"]
