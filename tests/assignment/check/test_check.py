"""Test that the check finds what is wrong with assignors, and says it."""

import random
import threading
import time
from collections.abc import Callable, Collection, Mapping
from contextlib import suppress
from dataclasses import replace
from datetime import UTC, datetime
from time import monotonic_ns
from typing import cast

import numpy
import pytest
from typing_extensions import override

from assignors.registry import known_assignors, resolve
from groupsdk.assignment import (
    Assignment,
    Cluster,
    GroupAssignment,
    GroupSubscription,
    PartitionAssignor,
    RebalanceProtocol,
    Subscription,
)
from groupsdk.assignment.check import AssignorCheckError, check_assignor
from groupsdk.assignment.plan import Plan, find_problems
from groupsdk.testing import check_assignor as check_for_tests
from tests.support.cases import with_long


class Good:
    """Deals all partitions of each topic out; subclasses break it."""

    name = "good"
    version = 0
    supported_protocols = frozenset({RebalanceProtocol.EAGER})

    def subscription_user_data(self, topics: Collection[str]) -> bytes | None:
        return None

    def on_assignment(self, assignment: Assignment, generation_id: int) -> None:
        pass

    def assign(self, cluster: Cluster, subscriptions: GroupSubscription) -> GroupAssignment:
        shares: dict[str, dict[str, list[int]]] = {m: {} for m in self.members(subscriptions)}
        for topic, count in cluster.partition_counts.items():
            members = [m for m in shares if topic in subscriptions[m].topics]
            for number in range(count if members else 0):
                member_id = members[number % len(members)]
                shares[member_id].setdefault(topic, []).append(number)
        return {member_id: Assignment(share) for member_id, share in shares.items()}

    def members(self, subscriptions: GroupSubscription) -> list[str]:
        return sorted(subscriptions)


class Forgetful(Good):
    @override
    def assign(self, cluster: Cluster, subscriptions: GroupSubscription) -> GroupAssignment:
        fewer = {t: n - (n > 3) for t, n in cluster.partition_counts.items()}
        return super().assign(Cluster(fewer), subscriptions)


class Unstable(Good):
    @override
    def members(self, subscriptions: GroupSubscription) -> list[str]:
        return list(subscriptions)


class InOrderOfTopics(Good):
    """Whoever names a topic first begins, which changes with the order of a list."""

    @override
    def members(self, subscriptions: GroupSubscription) -> list[str]:
        return sorted(subscriptions, key=lambda each: (list(subscriptions[each].topics), each))


class ByTheSecond(Good):
    @override
    def members(self, subscriptions: GroupSubscription) -> list[str]:
        return sorted(subscriptions, reverse=int(self.now()) % 2 == 0)

    def now(self) -> float:
        return time.time_ns() // 10**9


class ByTheDay(ByTheSecond):
    @override
    def now(self) -> float:
        return datetime.now(UTC).toordinal()


class ByHash(Good):
    """Strings have other hashes in every process."""

    @override
    def members(self, subscriptions: GroupSubscription) -> list[str]:
        return sorted(subscriptions, key=hash)


class BySet(Good):
    @override
    def members(self, subscriptions: GroupSubscription) -> list[str]:
        return list(set(subscriptions))


class BySomeClock(ByTheSecond):
    @override
    def now(self) -> float:
        return monotonic_ns() // 10**9


class ComparingMembers(Good):
    @override
    def members(self, subscriptions: GroupSubscription) -> list[str]:
        return [m for m in sorted(subscriptions) if sum(m == each for each in subscriptions) == 1]


class SearchingMembers(Good):
    """Compares all members with each other, in C."""

    @override
    def members(self, subscriptions: GroupSubscription) -> list[str]:
        known = list(subscriptions)
        return [member_id for member_id in sorted(subscriptions) if member_id in known]


class ComparingClaims(Good):
    """Needs long only where members own something."""

    @override
    def members(self, subscriptions: GroupSubscription) -> list[str]:
        claims = [
            (topic, number)
            for each in subscriptions.values()
            for topic, numbers in each.owned_partitions.items()
            for number in numbers
        ]
        assert all(sum(one == other for other in claims) for one in claims)
        return sorted(subscriptions)


class Remembering(Good):
    def __init__(self) -> None:
        self.calls = 0

    @override
    def members(self, subscriptions: GroupSubscription) -> list[str]:
        self.calls += 1
        return sorted(subscriptions, reverse=self.calls % 2 == 0)


class Shared(Good):
    calls = 0

    @override
    def members(self, subscriptions: GroupSubscription) -> list[str]:
        Shared.calls += 1
        return sorted(subscriptions, reverse=Shared.calls % 3 == 0)


class Inconsiderate(Good):
    @override
    def assign(self, cluster: Cluster, subscriptions: GroupSubscription) -> GroupAssignment:
        plan = super().assign(cluster, subscriptions)
        cast("dict[str, int]", cluster.partition_counts).pop("t", None)
        return plan


class Sorting(Good):
    """Puts what it was given in order, where it may."""

    @override
    def assign(self, cluster: Cluster, subscriptions: GroupSubscription) -> GroupAssignment:
        for topic, racks in cluster.replica_racks.items():
            cast("list[object]", racks).sort(key=repr)
            cast("dict[str, int]", cluster.partition_counts).setdefault(topic, 0)
        return super().assign(cluster, subscriptions)


class Fragile(Good):
    @override
    def members(self, subscriptions: GroupSubscription) -> list[str]:
        for subscription in subscriptions.values():
            for topic, numbers in subscription.owned_partitions.items():
                if topic == "not known" and -1 in numbers:
                    raise KeyError(topic)
        return sorted(subscriptions)


class Endless(Good):
    @override
    def members(self, subscriptions: GroupSubscription) -> list[str]:
        while len(subscriptions) == 2:
            pass
        return sorted(subscriptions)


class Swallowing(Endless):
    """Goes on whatever it is that stops it, as far as code should."""

    @override
    def assign(self, cluster: Cluster, subscriptions: GroupSubscription) -> GroupAssignment:
        while True:
            with suppress(Exception):
                return super().assign(cluster, subscriptions)


class Hasty(Good):
    """Gives away at once what members own."""

    supported_protocols = frozenset({RebalanceProtocol.COOPERATIVE})


class Restless(Good):
    """Never has what a member claims stay where it is."""

    supported_protocols = frozenset({RebalanceProtocol.COOPERATIVE})

    @override
    def assign(self, cluster: Cluster, subscriptions: GroupSubscription) -> GroupAssignment:
        plan = super().assign(cluster, subscriptions)
        claimed = {
            (topic, number)
            for subscription in subscriptions.values()
            for topic, numbers in subscription.owned_partitions.items()
            for number in numbers
        }
        return {
            member_id: replace(
                share,
                partitions={
                    topic: [n for n in numbers if (topic, n) not in claimed]
                    for topic, numbers in share.partitions.items()
                },
            )
            for member_id, share in plan.items()
        }


class Chatty(Good):
    @override
    def assign(self, cluster: Cluster, subscriptions: GroupSubscription) -> GroupAssignment:
        plan = super().assign(cluster, subscriptions)
        return {m: replace(share, user_data=cast("bytes", "text")) for m, share in plan.items()}


class Listing(Good):
    @override
    def assign(self, cluster: Cluster, subscriptions: GroupSubscription) -> GroupAssignment:
        return cast("GroupAssignment", list(super().assign(cluster, subscriptions).items()))


def giving(numbers: Callable[[list[int]], object]) -> type[Good]:
    """Return an assignor whose partition numbers are what is made of a list of them."""

    class Giving(Good):
        @override
        def assign(self, cluster: Cluster, subscriptions: GroupSubscription) -> GroupAssignment:
            return {
                member_id: Assignment(
                    {t: cast("list[int]", numbers(list(n))) for t, n in each.partitions.items()}
                )
                for member_id, each in super().assign(cluster, subscriptions).items()
            }

    return Giving


class Unprepared(Good):
    def __init__(self) -> None:
        self.lock = threading.Lock()


class LosesSeven(Good):
    """Small topics do not show it."""

    @override
    def assign(self, cluster: Cluster, subscriptions: GroupSubscription) -> GroupAssignment:
        return {
            member_id: Assignment(
                {t: [n for n in ns if n != 7] for t, ns in each.partitions.items()}
            )
            for member_id, each in super().assign(cluster, subscriptions).items()
        }


class WrongFrom(Good):
    """Is right up to some number of members, topics or partitions."""

    members_allowed = topics_allowed = partitions_allowed = 10**6

    @override
    def assign(self, cluster: Cluster, subscriptions: GroupSubscription) -> GroupAssignment:
        plan = dict(super().assign(cluster, subscriptions))
        if (
            len(subscriptions) > self.members_allowed
            or len(cluster.partition_counts) > self.topics_allowed
            or any(n > self.partitions_allowed for n in cluster.partition_counts.values())
        ):
            plan.pop(min(plan, default=""), None)
        return plan


def failure(make: object, max_steps: int = 1_000_000) -> str:
    with pytest.raises(AssignorCheckError) as caught:
        check_assignor(cast("type[PartitionAssignor]", make), max_steps=max_steps)
    return str(caught.value)


@pytest.mark.parametrize("name", known_assignors())
@pytest.mark.parametrize("cases", with_long([40, 150], 150))
def test_the_shipped_assignors_pass(name: str, cases: int) -> None:
    assert check_assignor(resolve(name), cases=cases, seed=3) == 2 * cases


def test_a_good_one_passes() -> None:
    assert check_assignor(Good) == 400
    for made in (Good(), lambda: Good()):
        assert check_assignor(made, cases=2) == 4
    assert check_for_tests is check_assignor


@pytest.mark.parametrize(
    ("broken", "what"),
    [
        (Forgetful, "assignor 'good' is not valid: "),
        (Unstable, "assignor 'good' is not order-free: it gives "),
        (InOrderOfTopics, "assignor 'good' is not order-free: it gives "),
        (BySet, "assignor 'good' is not order-free: it gives "),
        (ByHash, "assignor 'good' is not hash-free: it gives "),
        (ByTheSecond, "assignor 'good' is not "),
        (ByTheDay, "assignor 'good' is not timeless: it gives "),
        (BySomeClock, "assignor 'good' is not "),
        (Remembering, "assignor 'good' is not deterministic: first "),
        (Shared, "assignor 'good' is not deterministic: "),
        (Inconsiderate, "assignor 'good' is not considerate: it changed its arguments"),
        (Sorting, "assignor 'good' is not considerate: it changed its arguments"),
        (Fragile, "assignor 'good' is not robust: it raises KeyError: 'not known'"),
        (Hasty, "still owns it: it must be revoked first"),
        (Restless, "assignor 'good' does not settle: still moving after 10 cooperative rounds"),
        (Chatty, "is given the user data 'text'"),
        (Listing, "is not valid: the plan must be a mapping of member ids, not []"),
    ],
)
def test_broken_assignor_fails_the_check_with_its_fault(broken: type[Good], what: str) -> None:
    assert what in failure(broken)


@pytest.mark.parametrize("broken", [Endless, Swallowing])
def test_endless_assignor_is_stopped_by_the_step_limit(broken: type[Good]) -> None:
    text = failure(broken, max_steps=20_000)

    assert "assignor 'good' is not bounded: over 20000 lines of Python" in text


@pytest.mark.parametrize(
    ("broken", "growth"),
    [
        (ComparingMembers, "for a group, and "),
        (SearchingMembers, "for a group, and "),
        (ComparingClaims, "for a group that owns its partitions, and "),
    ],
)
def test_a_quadratic_assignor_is_not_linear(broken: type[Good], growth: str) -> None:
    text = failure(broken)

    assert "assignor 'good' is not linear: " in text
    assert growth in text


@pytest.mark.parametrize(
    ("numbers", "problem"),
    [
        (lambda numbers: (number for number in numbers), "is given a generator of "),
        (iter, "is given a list_iterator of "),
        (set, "is given a set of "),
        (lambda _: "01", "is given a str of "),
        (lambda _: None, "is given a NoneType of "),
        (lambda numbers: list(map(float, numbers)), "must be an int, not a float"),
        (lambda numbers: [n if n > 1 else bool(n) for n in numbers], "must be an int, not a bool"),
        (lambda numbers: list(map(numpy.int64, numbers)), "must be an int, not a int64"),
        (numpy.array, "is given a ndarray of "),
    ],
)
def test_partitions_that_are_not_a_sequence_of_ints_are_not_valid(
    numbers: Callable[[list[int]], object], problem: str
) -> None:
    text = failure(giving(numbers))

    assert "assignor 'good' is not valid: " in text
    assert problem in text


def test_all_kinds_of_sequences_are_valid() -> None:
    for numbers in (tuple, lambda numbers: range(min(numbers), min(numbers) + len(numbers))):
        plan = giving(numbers)().assign(Cluster({"t": 2}), {"a": Subscription(["t"])})
        assert not list(find_problems(Plan(Cluster({"t": 2}), {"a": Subscription(["t"])}, plan)))
    assert check_assignor(giving(tuple), cases=2) == 4


LIMITS: list[tuple[dict[str, object], int]] = [
    ({"members_allowed": 30}, 31),
    ({"topics_allowed": 10}, 1),
    ({"partitions_allowed": 256}, 1),
    ({"members_allowed": 8}, 9),
    ({"partitions_allowed": 99}, 1),
]


@pytest.mark.parametrize("limit", with_long(LIMITS, *LIMITS[3:]))
def test_assignor_that_fails_only_in_large_groups_is_found(
    limit: tuple[dict[str, object], int],
) -> None:
    attributes, members = limit
    text = failure(type("Limited", (WrongFrom,), attributes))
    assert "is not valid: " in text
    assert text.count("Subscription(") == members


def test_a_partition_number_that_is_lost_is_found() -> None:
    text = failure(LosesSeven)
    # the smallest group that has such a partition
    assert "-7 is not assigned to anyone" in text
    assert "': 8}" in text
    assert text.count("Subscription(") == 1


def test_the_group_is_made_as_small_as_can_be() -> None:
    text = failure(Forgetful)

    # four partitions are the fewest of which it forgets one, and one member is enough
    assert "-3 is not assigned to anyone" in text
    cluster, _, subscriptions = text.partition("On this group:\n")[2].partition("\nsubscriptions")
    assert len(eval(cluster.removeprefix("cluster = "), {"Cluster": Cluster}).partition_counts) == 1
    assert subscriptions.count("Subscription(") == 1


@pytest.mark.parametrize(
    ("attributes", "what"),
    [
        ({"name": ""}, "its name is '', not a non-empty string"),
        ({"version": -1}, "assignor 'good': its version is -1, not 0 to 32767"),
        ({"supported_protocols": frozenset()}, "its supported_protocols are frozenset"),
        ({"supported_protocols": [RebalanceProtocol.EAGER]}, "its supported_protocols are ["),
        ({"assign": None}, "is not a PartitionAssignor: it lacks assign\n"),
    ],
)
def test_the_shape_is_checked_first(attributes: Mapping[str, object], what: str) -> None:
    assert what in failure(type("Odd", (Good,), dict(attributes))) + "\n"


def test_object_that_is_not_an_assignor_is_refused_with_what_it_lacks() -> None:
    assert failure(dict) == (
        "{} is not a PartitionAssignor: it lacks name, version, supported_protocols, "
        "subscription_user_data, assign, on_assignment"
    )


class WithoutTwo:
    name = "two"
    version = 0
    supported_protocols = frozenset({RebalanceProtocol.EAGER})
    assign = Good.assign
    members = Good.members


def test_class_without_two_methods_is_refused_with_their_names() -> None:
    assert "it lacks subscription_user_data, on_assignment" in failure(WithoutTwo)


def test_assignor_that_cannot_be_copied_is_refused() -> None:
    with pytest.raises(
        TypeError, match=r"cannot be copied .*: give a class or function that makes one"
    ):
        check_assignor(Unprepared())
    assert check_assignor(Unprepared, cases=2) == 4


def test_the_same_seed_makes_the_same_groups() -> None:
    random.seed(1)
    first = failure(Forgetful)
    random.seed(2)
    assert failure(Forgetful) == first


class Textual(Good):
    @override
    def subscription_user_data(self, topics: Collection[str]) -> bytes | None:
        return cast("bytes", "text")


def test_user_data_that_is_not_bytes_is_named() -> None:
    assert failure(Textual) == (
        "assignor 'good': subscription_user_data() must return bytes or None, not 'text'"
    )
