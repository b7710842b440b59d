"""Shared parts of the assignors: a base class for stateless ones, and argument type checks."""

from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from functools import wraps
from typing import ClassVar, TypeVar

from groupsdk.assignment import (
    Assignment,
    Cluster,
    GroupAssignment,
    GroupSubscription,
    RebalanceProtocol,
    Subscription,
)


class StatelessAssignor:
    """Base class of assignors that keep no state between rebalances and send no user data.

    Subclasses set `name` and add `assign`; see `groupsdk.assignment.PartitionAssignor`.
    """

    name: ClassVar[str]
    version: ClassVar[int] = 0
    supported_protocols: ClassVar[frozenset[RebalanceProtocol]] = frozenset(
        {RebalanceProtocol.EAGER}
    )

    @property
    def is_stateless(self) -> bool:
        """Whether the assignor is stateless, with its overrides: then the two methods below need not be called."""
        own = type(self)
        return (
            own.subscription_user_data is StatelessAssignor.subscription_user_data
            and own.on_assignment is StatelessAssignor.on_assignment
        )

    def subscription_user_data(self, topics: Collection[str]) -> bytes | None:
        """Return None: the leader needs only the topics."""
        return None

    def on_assignment(self, assignment: Assignment, generation_id: int) -> None:
        """Do nothing: the next assignment does not depend on this one."""


_OF_A_REBALANCE = ("subscription_user_data", "assign", "on_assignment")


def has_own_methods(kind: type, base: type) -> bool:
    """Return whether a class takes part in rebalances with exactly the methods of `base`, overriding none."""
    return all(getattr(kind, name) is getattr(base, name) for name in _OF_A_REBALANCE)


_Self = TypeVar("_Self")
_Assign = Callable[[_Self, Cluster, GroupSubscription], GroupAssignment]

_NUMBER = "an int"


def names_wrong_arguments(assign: _Assign[_Self]) -> _Assign[_Self]:
    """Decorate `assign` to raise a TypeError that names the argument of the wrong type.

    What arrives by the wire has its types. So nothing is looked at beforehand, which would take time in every
    rebalance, but only where something has failed.
    """

    @wraps(assign)
    def checking(
        self: _Self, cluster: Cluster, subscriptions: GroupSubscription
    ) -> GroupAssignment:
        try:
            return assign(self, cluster, subscriptions)
        except (TypeError, AttributeError) as error:
            for fault in _faults(cluster, subscriptions):
                raise TypeError(fault) from error
            raise

    return checking


def _faults(cluster: object, subscriptions: object) -> Iterator[str]:
    # Annotations cannot be relied on here.
    if not isinstance(cluster, Cluster):
        yield f"the cluster is {cluster!r}, not a Cluster"
        return
    if not isinstance(subscriptions, Mapping):
        yield f"subscriptions are {subscriptions!r}, not a mapping of member id to Subscription"
        return
    for member_id, subscription in subscriptions.items():
        if not isinstance(subscription, Subscription):
            yield f"member {member_id!r}: {subscription!r} is not a Subscription"
            return
        yield from (f"member {member_id!r}: {each}" for each in _faults_of(subscription))
    all_racks: Mapping[str, object] = cluster.replica_racks
    for topic, replicas in all_racks.items():
        if not _is_list(replicas):
            yield f"topic {topic!r}: replica_racks are {replicas!r}, not a list of each partition's racks"
            continue
        for number, racks in enumerate(_items(replicas)):
            if not isinstance(racks, Collection) or isinstance(racks, str):
                yield f"topic {topic!r}: the racks of partition {number} are {racks!r}, not a list of names"


def _faults_of(subscription: Subscription) -> Iterator[str]:
    topics: object = subscription.topics
    user_data: object = subscription.user_data
    generation_id: object = subscription.generation_id
    owned: object = subscription.owned_partitions
    if isinstance(topics, str):
        yield f"topics is the string {topics!r}, not a list of names"
    elif not _is_list(topics):
        yield f"topics is {topics!r}, not a list of names"
    else:
        yield from (
            f"topic {each!r} is not a str" for each in _items(topics) if not isinstance(each, str)
        )
    if user_data is not None and not isinstance(user_data, bytes | bytearray | memoryview):
        yield f"user_data is {user_data!r}, not bytes"
    if not isinstance(generation_id, int):
        yield f"generation_id is {generation_id!r}, not {_NUMBER}"
    if not isinstance(owned, Mapping):
        yield f"owned_partitions are {owned!r}, not a mapping of topic to partitions"
        return
    for topic, numbers in owned.items():
        if not _is_list(numbers):
            yield f"owned_partitions of {topic!r} are {numbers!r}, not a list of numbers"
        else:
            wrong = (each for each in _items(numbers) if not isinstance(each, int))
            yield from (f"owned partition {each!r} of {topic!r} is not {_NUMBER}" for each in wrong)


def _is_list(value: object) -> bool:
    return isinstance(value, Sequence | frozenset | set) and not isinstance(value, str)


def _items(value: object) -> Iterator[object]:
    return iter(value) if isinstance(value, Collection) else iter(())
