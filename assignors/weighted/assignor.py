"""The weighted assignor: members report what they have measured, the leader shares out by it."""

import logging
from collections.abc import Callable, Collection, Mapping
from typing import ClassVar

from assignors.base import names_wrong_arguments
from assignors.sticky.ownership import find_owners
from assignors.sticky.subscription_index import SubscriptionIndex
from assignors.subscribers import checked, partition_counts, subscribers_of
from assignors.weighted.plan import Planner
from assignors.weighted.report import (
    GREATEST_CAPACITY,
    GREATEST_WEIGHT,
    LEAST_CAPACITY,
    WeightReport,
    is_weight,
)
from assignors.weighted.workload import Workload, counted_capacity, merged_weights
from groupsdk.assignment import (
    Assignment,
    Cluster,
    GroupAssignment,
    GroupSubscription,
    Partitions,
    RebalanceProtocol,
    Subscription,
)
from groupsdk.errors import ConfigError, DecodeError
from groupsdk.utf16 import utf16_sorted


logger = logging.getLogger(__name__)

WeightSource = Callable[[], Mapping[str, Mapping[int, float]]]
"""Returns what a member has measured: topic to partition to weight. Weights are of any one unit."""


def _no_weights() -> Mapping[str, Mapping[int, float]]:
    return {}


class WeightedAssignor:
    """Assigns by the weight of partitions and the capacity of members, and moves little.

    Every member reports, in its user data, its capacity, its last assignment, and the weights that it has measured: lag,
    messages or bytes a second, time spent. The leader needs nothing else. A partition's weight is the one that its owner
    reports, or else another member, or else the mean.

    With equal subscriptions and without racks, the greatest load of a member (load over capacity) is at most
    1 + `tolerance` times the greater of two numbers: the least possible greatest load, bounded by mean and heaviest
    partition; and the one of longest-first placement (LPT) of all partitions, which with equal capacities is at most 4/3 of
    the optimum, and 2 - 2/(members + 1) times the greater of the mean and the heaviest partition. If everything can stay
    within this, everything stays. With different subscriptions or racks the same holds with loads compared to 1/1024 of
    the least load, but longest first may then be further from the optimum.

    Racks: a partition that has to be placed goes to a member in a rack of its replicas if that member stays within the
    bound. `rack_moves` allows more: in one rebalance, up to that many partitions are moved only to get a member in one of
    their racks; the heaviest first.

    Args:
        capacity: how much this member can bear relative to the others, 0.01 to 100; two significant digits count.
        weights: called before every join, on the caller's thread; None if this member measures nothing.
        tolerance: 0 to 1; greater values move less.
        rack_moves: 0 or more.

    Raises:
        ConfigError: an argument is out of bounds.
    """

    name: ClassVar[str] = "weighted"
    version: ClassVar[int] = 0
    supported_protocols: ClassVar[frozenset[RebalanceProtocol]] = frozenset(
        {RebalanceProtocol.EAGER}
    )

    def __init__(
        self,
        *,
        capacity: float = 1.0,
        weights: WeightSource | None = None,
        tolerance: float = 0.02,
        rack_moves: int = 0,
    ) -> None:
        if not LEAST_CAPACITY <= capacity <= GREATEST_CAPACITY:
            raise ConfigError(
                f"capacity is {capacity!r}; it must be {LEAST_CAPACITY} to {GREATEST_CAPACITY}"
            )
        if not 0 <= tolerance <= 1:
            raise ConfigError(f"tolerance is {tolerance!r}; it must be 0 to 1")
        if rack_moves < 0:
            raise ConfigError(f"rack_moves is {rack_moves!r}; it must be 0 or more")
        self.__capacity = capacity
        self.__weights = _no_weights if weights is None else weights
        self.__tolerance = tolerance
        self.__rack_moves = rack_moves
        self.__owned: Partitions = {}
        self.__generation_id = -1

    def subscription_user_data(self, topics: Collection[str]) -> bytes | None:
        """Return this member's encoded `WeightReport`; calls `weights`.

        Raises:
            ValueError: a weight is negative, not finite, or over 1e15.
        """
        weights = self.__weights()
        for topic, of_topic in weights.items():
            for partition, weight in of_topic.items():
                if not is_weight(weight):
                    raise ValueError(
                        f"the weight of {topic}-{partition} is {weight!r}; "
                        f"it must be 0 to {GREATEST_WEIGHT:g}"
                    )
        report = WeightReport(self.__capacity, self.__owned, self.__generation_id, weights)
        return report.encode()

    @names_wrong_arguments
    def assign(self, cluster: Cluster, subscriptions: GroupSubscription) -> GroupAssignment:
        """Assign the group's partitions, as the leader; see `PartitionAssignor.assign`.

        Work is bounded by the partitions times the number of different capacities (at most 360), up to
        seven times over; with different subscriptions or racks by that times the members over 30.

        Raises:
            TypeError: an argument is of a wrong type; the error names it.
            ValueError: a number of partitions is out of bounds.
        """
        members = checked(subscriptions)
        member_ids = utf16_sorted(members)
        work = self.__workload(cluster, members, member_ids)
        if not work.weights:
            return {member_id: Assignment() for member_id in member_ids}
        plan = Planner(work, self.__tolerance, self.__rack_moves).assignments()
        return {
            member_id: Assignment(mine) for member_id, mine in zip(member_ids, plan, strict=True)
        }

    def on_assignment(self, assignment: Assignment, generation_id: int) -> None:
        """Store this member's assignment, uncopied, to report it at the next join."""
        self.__owned = assignment.partitions
        self.__generation_id = generation_id

    def __workload(
        self, cluster: Cluster, members: Mapping[str, Subscription], member_ids: list[str]
    ) -> Workload:
        group = subscribers_of(partition_counts(cluster), members, member_ids)
        counts = {topic: cluster.partition_counts[topic] for topic in group.topics}
        reports = [_report(member_id, members[member_id]) for member_id in member_ids]
        subscribed = {id(each.topics): counts.keys() & each.topics for each in members.values()}
        ownership = find_owners(
            [report.owned_partitions for report in reports],
            [report.generation_id for report in reports],
            SubscriptionIndex([subscribed[id(members[m].topics)] for m in member_ids], counts),
            counts,
        )
        replica_racks = {
            topic: [*map(frozenset, racks)]
            for topic, racks in cluster.replica_racks.items()
            if topic in counts and len(racks) == counts[topic]
        }
        racks = [members[member_id].rack_id or None for member_id in member_ids]
        return Workload(
            capacities=[counted_capacity(report.capacity) for report in reports],
            weights=merged_weights(counts, reports, ownership.owned),
            subscribers=group.topics,
            ownership=ownership,
            racks=racks if any(racks) and replica_racks else (),
            replica_racks=replica_racks,
        )


def _report(member_id: str, subscription: Subscription) -> WeightReport:
    if subscription.user_data is not None:
        try:
            return WeightReport.decode(subscription.user_data)
        except DecodeError as error:
            logger.warning("member %s: its weight report cannot be read: %s", member_id, error)
    # a member that came from another assignor: what it owns is in its subscription
    return WeightReport(
        owned_partitions=subscription.owned_partitions, generation_id=subscription.generation_id
    )
