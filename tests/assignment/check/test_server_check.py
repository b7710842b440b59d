"""Test that the check finds what is wrong with assignors that run in the coordinator."""

import time
from collections.abc import Mapping

import pytest
from typing_extensions import override

from assignors.registry import resolve
from groupsdk.assignment.check import AssignorCheckError, check_assignor
from groupsdk.broker.coordinator.consumer.assignor_registry import MemberAssignorOnBroker
from groupsdk.broker.coordinator.consumer.assignors import (
    GroupSpec,
    RangeAssignor,
    ServerAssignor,
    UniformAssignor,
)
from groupsdk.broker.coordinator.consumer.topics import Partitions


class Dealt:
    """Deals each topic out; subclasses break it."""

    name = "dealt"

    def assign(self, group: GroupSpec) -> Mapping[str, Partitions]:
        shares: dict[str, Partitions] = {}
        for topic_id, topic in group.topics.items():
            readers = [m for m, each in group.members.items() if topic_id in each.subscribed]
            for index in range(topic.partitions if readers else 0):
                share = shares.setdefault(readers[index % len(readers)], {})
                share[topic_id] = (*share.get(topic_id, ()), index)
        return shares


class FirstTakesAll(Dealt):
    @override
    def assign(self, group: GroupSpec) -> Mapping[str, Partitions]:
        every = {each: tuple(range(topic.partitions)) for each, topic in group.topics.items()}
        return {min(group.members): every} if group.members else {}


class Forgetful(Dealt):
    @override
    def assign(self, group: GroupSpec) -> Mapping[str, Partitions]:
        return {
            member_id: {each: indexes for each, indexes in share.items() if len(indexes) < 4}
            for member_id, share in super().assign(group).items()
        }


class Greedy(Dealt):
    @override
    def assign(self, group: GroupSpec) -> Mapping[str, Partitions]:
        for member in group.members.values():
            member.target.clear()
        return super().assign(group)


class Endless(Dealt):
    @override
    def assign(self, group: GroupSpec) -> Mapping[str, Partitions]:
        while group.members:
            pass
        return {}


class Turning(Dealt):
    calls = 0

    @override
    def assign(self, group: GroupSpec) -> Mapping[str, Partitions]:
        shares = dict(super().assign(group))
        Turning.calls += 1
        return (
            dict(zip(shares, reversed(shares.values()), strict=True)) if self.calls % 2 else shares
        )


class ByTheSecond(Dealt):
    @override
    def assign(self, group: GroupSpec) -> Mapping[str, Partitions]:
        shares = dict(super().assign(group))
        values = list(shares.values())
        return dict(
            zip(shares, values[::-1] if time.time_ns() // 10**9 % 2 else values, strict=True)
        )


class ComparingMembers(Dealt):
    @override
    def assign(self, group: GroupSpec) -> Mapping[str, Partitions]:
        known = [m for m in group.members if sum(m == each for each in group.members) == 1]
        return super().assign(group) if known else {}


class Nameless(Dealt):
    name = ""


def test_good_ones_pass() -> None:
    for each in (Dealt, Dealt(), UniformAssignor, RangeAssignor(), lambda: Dealt()):
        assert check_assignor(each, cases=60) == 120


@pytest.mark.parametrize("name", ["sticky", "weighted", "range", "roundrobin", "lag"])
def test_assignors_of_members_pass_on_the_broker(name: str) -> None:
    assert check_assignor(lambda: MemberAssignorOnBroker(resolve(name)), cases=40) == 80


@pytest.mark.parametrize(
    ("wrong", "text"),
    [
        (FirstTakesAll, "not valid: .*not subscribed"),
        (Forgetful, "not valid: nobody is given"),
        (Greedy, "not considerate"),
        (Endless, "not bounded"),
        (Turning, "not (deterministic|valid)"),
        (ByTheSecond, "not (timeless|deterministic|valid)"),
        (ComparingMembers, "not linear: .* 4 times the members"),
        (Nameless, "name ''"),
    ],
)
def test_broken_server_assignor_fails_the_check_with_its_fault(
    wrong: type[ServerAssignor], text: str
) -> None:
    with pytest.raises(AssignorCheckError, match=text):
        check_assignor(wrong, max_steps=200_000)


def test_the_smallest_group_is_told() -> None:
    with pytest.raises(AssignorCheckError) as caught:
        check_assignor(Forgetful)
    assert str(caught.value).count("Subscription(") == 1
    assert "previous target" in str(caught.value)
