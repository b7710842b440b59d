"""Run a server-side assignor (KIP-848) on many groups and report the smallest one on which it breaks the contract."""

import inspect
import random
from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import TYPE_CHECKING, Any, Final
from uuid import NAMESPACE_OID, UUID, uuid5

from groupsdk.assignment import Cluster, Subscription
from groupsdk.assignment.check.cases import LARGE, SMALL, Case, Scale, fresh_case, shrunk
from groupsdk.assignment.check.clock import LATER_S, package_of, shifted_clock
from groupsdk.assignment.check.steps import StepLimit, TooManySteps, growth_problem


if TYPE_CHECKING:
    from groupsdk.broker.coordinator.consumer.assignors import GroupSpec, ServerAssignor


_EVERY: Final = 5

MakeServerAssignor = Callable[[], "ServerAssignor"]
Shares = dict[str, dict[str, tuple[int, ...]]]
"""Partitions by member and topic name."""


def is_server_assignor(thing: object) -> bool:
    """Return whether an object is a server-side assignor: its `assign` takes a group and nothing else."""
    assign = getattr(thing, "assign", None)
    if not callable(assign):
        return False
    try:
        parameters = inspect.signature(assign).parameters
    except (TypeError, ValueError):
        return False
    return len(parameters) == (2 if isinstance(thing, type) else 1)


class ServerCheck:
    """Checks the cases of one assignor.

    A case is that of a member's assignor; what a member owns stands for its previous target.
    """

    def __init__(self, make: MakeServerAssignor, max_steps: int) -> None:
        self._make = make
        self._max_steps = max_steps
        self.name = repr(getattr(make(), "name", make))

    def problem_of_shape(self) -> str | None:
        """Return the problem that does not depend on a group, if any."""
        name: object = getattr(self._make(), "name", None)
        if not isinstance(name, str) or not name:
            return f"has the name {name!r}; it must be a string that is not empty"
        return None

    def growth_problem(self) -> str | None:
        def prepare(case: Case) -> Callable[[], object]:
            spec = group_of(case)
            return lambda: self._make().assign(spec)

        return growth_problem(prepare)

    def cases(self, seed: int, number: int) -> tuple[Case, Callable[[], Case]]:
        source = random.Random(f"{seed}/{number}/server")
        scale = LARGE if number % _EVERY == 1 else SMALL
        fresh = fresh_case(source, scale)
        return fresh, lambda: self._later(source, fresh, scale)

    def _later(self, source: random.Random, case: Case, scale: Scale) -> Case:
        """Derive the next group from an assignment: members leave and join; topics grow, appear and disappear."""
        shares = self._shares(case)
        counts = {
            topic: count + source.randrange(4) if source.random() < 0.3 else count
            for topic, count in case.cluster.partition_counts.items()
            if source.random() < 0.9
        }
        subscriptions = {
            member_id: replace(subscription, owned_partitions=shares.get(member_id, {}))
            for member_id, subscription in case.subscriptions.items()
            if source.random() < 0.8
        }
        for member_id in source.sample(scale.members, 2):
            wanted = tuple(topic for topic in counts if source.random() < 0.7)
            subscriptions.setdefault(member_id, Subscription(wanted))
        racks = {
            topic: listed
            for topic, listed in case.cluster.replica_racks.items()
            if len(listed) == counts.get(topic)
        }
        return Case(Cluster(counts, racks), subscriptions)

    def failure_of(self, case: Case) -> tuple[Case, str] | None:
        """Return the smallest failing group found and the property that it breaks; None if all hold."""
        failure = self._failure(case)
        return None if failure is None else shrunk(case, failure, self._failure)

    def _failure(self, case: Case) -> str | None:
        from groupsdk.broker.coordinator.consumer.assignors import AssignorError, checked

        spec = group_of(case)
        before = repr(spec)
        try:
            with StepLimit(self._max_steps):
                result = self._make().assign(spec)
        except TooManySteps:
            return f"is not bounded: over {self._max_steps} lines of Python"
        except Exception as error:  # noqa: BLE001 - it is the user's
            return f"is not robust: it raises {type(error).__name__}: {error}"
        if repr(spec) != before:
            return "is not considerate: it changed the group that it was given"
        try:
            given = checked(spec, result)
        except (AssignorError, AttributeError, TypeError, ValueError) as error:
            return f"is not valid: {error}\nIt gave: {result!r}"
        missing = _missing(spec, given)
        if missing is not None:
            return f"is not valid: {missing}\nIt gave: {result!r}"
        for maker in (self._make(), self._make()):
            again = [checked(spec, maker.assign(group_of(case))) for _ in range(2)]
            if again != [given, given]:
                return f"is not deterministic: first {given!r}\nthen {again!r}"
        maker = self._make()
        for seconds in LATER_S:
            with shifted_clock(seconds, package_of(maker)):
                later = checked(spec, maker.assign(group_of(case)))
            if later != given:
                return (
                    f"is not timeless: first {given!r}\nwith the clock {seconds} s ahead {later!r}"
                )
        return None

    def _shares(self, case: Case) -> Shares:
        spec = group_of(case)
        return {
            member_id: {spec.topics[each].name: tuple(indexes) for each, indexes in share.items()}
            for member_id, share in self._make().assign(spec).items()
        }


def group_of(case: Case) -> "GroupSpec":
    from groupsdk.broker.coordinator.consumer.assignors import GroupSpec, MemberSpec
    from groupsdk.broker.coordinator.consumer.topics import TopicInfo

    cluster = case.cluster
    wanted = {topic for each in case.subscriptions.values() for topic in each.topics}
    topics = {
        _id_of(name): TopicInfo(
            _id_of(name), name, count, tuple(map(tuple, cluster.replica_racks.get(name, ())))
        )
        for name, count in sorted(cluster.partition_counts.items())
        if name in wanted
    }
    members = {
        member_id: MemberSpec(
            member_id=member_id,
            instance_id=subscription.group_instance_id,
            rack_id=subscription.rack_id,
            subscribed=frozenset(
                _id_of(topic) for topic in subscription.topics if topic in cluster.partition_counts
            ),
            target={
                _id_of(topic): tuple(indexes)
                for topic, indexes in subscription.owned_partitions.items()
            },
        )
        for member_id, subscription in case.subscriptions.items()
    }
    same = len({frozenset(each.topics) for each in case.subscriptions.values()}) == 1
    return GroupSpec(members=members, topics=topics, is_homogeneous=same)


def _id_of(topic: str) -> UUID:
    return uuid5(NAMESPACE_OID, topic)


def _missing(spec: "GroupSpec", given: Mapping[str, Mapping[UUID, Any]]) -> str | None:
    """Return a partition that was not assigned although its topic has a subscriber."""
    subscribed = {each for member in spec.members.values() for each in member.subscribed}
    for topic_id in subscribed:
        topic = spec.topics[topic_id]
        indexes = {index for share in given.values() for index in share.get(topic_id, ())}
        for index in range(topic.partitions):
            if index not in indexes:
                return f"nobody is given {topic.name}-{index}"
    return None
