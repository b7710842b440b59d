"""The callbacks of a consumer, in the classic protocol and in the consumer protocol (KIP-848)."""

import logging
from collections.abc import Callable, Iterable, Mapping
from dataclasses import replace
from typing import Final

from groupsdk.assignment import (
    Assignment,
    Cluster,
    GroupAssignment,
    GroupSubscription,
    MemberReport,
    PartitionAssignor,
    Subscription,
    TopicPartition,
    reads_reports,
)
from groupsdk.assignment.member_report import merged_lags, with_report
from groupsdk.assignment.subscriptions import (
    decode_assignment,
    decode_subscriptions,
    encode_assignments,
    encode_subscription,
)
from groupsdk.consumer.partition_owner import (
    FirstError,
    PartitionOwner,
    PartitionReader,
    TopicSource,
)
from groupsdk.consumer.strategies import (
    Strategies,
    check_exists,
    checked_plan,
    shared_and_unread,
    user_data_of,
)
from groupsdk.consumer.topics import TopicWatch
from groupsdk.errors import AssignmentError
from groupsdk.member.consumer.heartbeat_fields import HeartbeatSubscription
from groupsdk.offsets import name_of, numbers_by_topic
from groupsdk.types import NO_GENERATION, Generation, GroupMembers, ProtocolMetadata


_NAMED: Final = 5


class ConsumerCoordinator(PartitionOwner):
    """Builds subscriptions, revokes and adds partitions for the classic protocol, as Kafka's class of this name."""

    def __init__(
        self,
        strategies: Strategies,
        reader: PartitionReader,
        topics: TopicSource,
        watch: TopicWatch,
        client_rack: str | None = None,
    ) -> None:
        super().__init__(reader, topics, watch)
        self._strategies = strategies
        self._client_rack = client_rack
        self._reports = any(map(reads_reports, strategies))
        self._lags: dict[TopicPartition, int] = {}
        self._former_lags: dict[TopicPartition, int] = {}
        """Of partitions given up in the last rebalance: their next owner has not measured them yet."""
        self._lost_in_place: frozenset[TopicPartition] = frozenset()
        """What a static member has lost since its last assignment: the group may still keep it from others for this one."""
        self._joined_as = ""
        """The member id of the last assignment."""
        self.client_id = ""
        self.load: float | None = None

    # Called by the member (`GroupCallbacks`).

    def metadata(self) -> list[ProtocolMetadata]:
        """Return one subscription for each assignor: topics, owned partitions with their generation, rack."""
        subscription = self._subscribed()
        if subscription.has_patterns:
            view = self._topics.describe(None)
            subscription.match(view.partition_counts, view.internal)
        topics = subscription.topics
        common = Subscription(
            topics=topics,
            owned_partitions=numbers_by_topic(self.owned),
            generation_id=self._owned_generation,
            rack_id=self._client_rack,
        )
        return [
            ProtocolMetadata(
                each.name,
                encode_subscription(
                    replace(common, user_data=self._user_data(each, frozenset(topics)))
                ),
            )
            for each in self._strategies
        ]

    def _user_data(self, assignor: PartitionAssignor, topics: frozenset[str]) -> bytes | None:
        own = user_data_of(assignor, topics)
        if not reads_reports(assignor):
            return own
        lags: dict[str, dict[int, int]] = {}
        for (topic, number), lag in (self._former_lags | self._lags).items():
            if topic in topics:
                lags.setdefault(topic, {})[number] = lag
        return with_report(own, MemberReport(self.client_id, self.load, lags))

    def _measure(self, generation: int) -> None:
        """Note the lags before partitions are given up; those of the last owner go once more with the next join."""
        if self.owned or generation != -1:
            measured = self._reader.lags(self.owned)
            self._former_lags = {
                each: lag for each, lag in self._lags.items() if each not in measured
            }
            self._lags = measured

    def on_join_prepare(self, generation: int, member_id: str) -> None:
        """Revoke the partitions that the rebalance protocol requires, or with the generation -1 drop lost ones.

        Eager: all. Cooperative: only those of topics that are not subscribed to any more.
        """
        self._watch.forget()
        self._left = False
        self._completed = None
        if self._reports:
            self._measure(generation)
        if generation == -1 or not member_id:
            if self._member().snapshot().group_instance_id is not None:
                self._lost_in_place |= self.owned
            self._lose(self.owned)
        elif not self._strategies.cooperative:
            self._revoke(self.owned)
        else:
            # while the group rebalances, the coordinator does not read commits of this connection
            self._reader.commit_before_join()
            subscription = self._subscribed()
            self._revoke({each for each in self.owned if not subscription.wants(each.topic)})

    def perform_assignment(
        self, leader_id: str, protocol: str, members: GroupMembers
    ) -> Mapping[str, bytes]:
        """Assign the group's partitions with the assignor that the group agreed on; see `GroupCallbacks`.

        Raises AssignmentError if the assignor's plan is not valid. Raises DecodeError if a member's metadata is not a subscription.
        """
        assignor = self._strategies.chosen(protocol)
        subscriptions = decode_subscriptions(members)
        topics = _topics_of(subscriptions)
        racks = any(each.rack_id for each in subscriptions.values())
        cluster = self._topics.describe(sorted(topics)).cluster(sorted(topics), racks=racks)
        if reads_reports(assignor):
            reports = {member_id: each.report for member_id, each in subscriptions.items()}
            cluster = replace(cluster, lags=merged_lags(reports))
        missing = sorted(topics - cluster.partition_counts.keys())
        if missing:
            self._log(logging.WARNING, "topics that do not exist are not assigned: %s", missing)
        plan, left_out = checked_plan(assignor, cluster, subscriptions)
        if left_out:
            self._log(
                logging.WARNING,
                "assignor %r left members out, which get no partitions: %s",
                assignor.name,
                left_out,
            )
        check_exists(assignor.name, cluster, plan)
        self._warn_of(assignor.name, cluster, plan)
        if self._strategies.cooperative:
            check_revoked_first(assignor.name, subscriptions, plan)
        self._watch.assigned(topics, cluster, racks=racks)
        return encode_assignments(plan)

    def _warn_of(self, name: str, cluster: Cluster, plan: GroupAssignment) -> None:
        """Warn of partitions that several members read, or none: an assignor may mean it."""
        shared, unread = shared_and_unread(cluster, plan)
        if self._strategies.cooperative:
            unread = []  # it leaves out what has to be revoked first
        for found, what in (
            (shared, "to several members, each of which reads all their records"),
            (unread, "to nobody"),
        ):
            if found:
                self._log(
                    logging.WARNING,
                    "assignor %r gives %d partitions %s: %s",
                    name,
                    len(found),
                    what,
                    ", ".join(map(name_of, found[:_NAMED])) + (", ..." if found[_NAMED:] else ""),
                )

    def on_assignment_skipped(self, leader_id: str, protocol: str, members: GroupMembers) -> None:
        """Start watching the group's topics as its leader; assignments stay as they are (KIP-814)."""
        subscriptions = decode_subscriptions(members)
        topics = _topics_of(subscriptions)
        racks = any(each.rack_id for each in subscriptions.values())
        # looked at before the generation begins, so that whatever changes within it is noticed
        cluster = self._topics.describe(sorted(topics)).cluster(sorted(topics), racks=racks)
        self._watch.assigned(topics, cluster, racks=racks)

    def on_join_complete(
        self, generation: int, member_id: str, protocol: str, assignment: bytes
    ) -> None:
        """Apply an assignment, encoded or empty: revoke the partitions that are not in it, then add the new ones.

        Where the user's code raises, all of it is done nevertheless, and the first exception is raised at
        the end; the second delivery, which that causes, then finds nothing to do. Where it closes the
        consumer, nothing more is taken up.
        """
        delivery = self._delivery(generation, member_id)
        errors = FirstError()
        if self._completed == delivery:
            self._tell(errors)  # what a Ctrl-C has kept from the listener
            errors.raise_first()
            return
        subscription = self._subscribed()
        assignor = self._strategies.chosen(protocol)
        share = decode_assignment(assignment) if assignment else Assignment()
        assigned = frozenset(share)
        foreign = sorted({each.topic for each in assigned if not subscription.wants(each.topic)})
        if foreign:
            # made for an older subscription: taking it up would give partitions up for nothing
            self._rejoin(f"assigned topics that are not subscribed to any more: {foreign}")
            self._completed = delivery
            return
        revoked, added = self.owned - assigned, assigned - self.owned
        # with another member id it has its place back without a rebalance, as one that may have all this still
        returned = self._lost_in_place if member_id != self._joined_as else frozenset()
        freed = revoked | (returned - assigned)
        self._lost_in_place, self._joined_as = frozenset(), member_id
        if revoked:
            errors.keep(lambda: self._revoke(revoked))
        if freed and self._strategies.cooperative and not self._left:
            self._rejoin("need to revoke partitions and re-join")
        steps: tuple[Callable[[], object], ...] = (
            lambda: assignor.on_assignment(share, generation),
            lambda: self._take_up(assigned, added, delivery),
        )
        for step in steps:
            if not self._left:
                errors.keep(step)
        self._tell(errors)
        errors.raise_first()


class BrokerAssignedCoordinator(PartitionOwner):
    """Implements `GroupCallbacks` for a consumer that uses the consumer protocol.

    The broker assigns, so no plan is computed here. An assignment is applied in steps: partitions that are not in it
    are committed and revoked, and then new ones are added. The member acknowledges it to the group's coordinator once
    this has returned.
    """

    _generation_told: Generation = NO_GENERATION

    def metadata(self) -> list[ProtocolMetadata]:
        """Return the subscribed topics, including those matched by client-side patterns, and the broker-side pattern."""
        subscription = self._subscribed()
        if subscription.has_patterns:
            view = self._topics.describe(None)
            subscription.match(view.partition_counts, view.internal)
        topics = frozenset(subscription.topics)
        self._seek_unassigned(self.owned)  # no assignment follows where the new topics do not exist
        return HeartbeatSubscription(topics, subscription.broker_pattern).protocols()

    def _seek_unassigned(self, assigned: Iterable[TopicPartition]) -> None:
        self._watch.seek(set(self._subscribed().topics).difference(t for t, _ in assigned))

    def on_join_prepare(self, generation: int, member_id: str) -> None:
        """Drop all partitions as lost: the member is about to join."""
        self._left = False
        self._lose(self.owned)

    def perform_assignment(
        self, leader_id: str, protocol: str, members: GroupMembers
    ) -> Mapping[str, bytes]:
        raise AssertionError("a member of the consumer protocol is asked for no plan")

    def on_join_complete(
        self, generation: int, member_id: str, protocol: str, assignment: bytes
    ) -> None:
        """Apply an assignment, as `ConsumerCoordinator` does; a second delivery only acknowledges it."""
        delivery = self._delivery(generation, member_id)
        errors = FirstError()
        if self._completed != delivery:
            share = decode_assignment(assignment) if assignment else Assignment()
            assigned = frozenset(share)
            revoked, added = self.owned - assigned, assigned - self.owned
            steps: list[Callable[[], object]] = []
            if revoked:
                steps.append(lambda: self._revoke(revoked))
            steps.append(lambda: self._take_up(assigned, added, delivery))
            for step in steps:
                if not self._left:
                    errors.keep(step)
            self._generation_told = self._member().snapshot().generation
            self._seek_unassigned(assigned)
        self._tell(errors)
        errors.raise_first()

    def tell_epoch(self) -> None:
        """Tell the listener about a new member epoch that leaves the assignment unchanged.

        A listener that uses the generation as a fencing token must not miss it.
        """
        generation = self._member().snapshot().generation
        if self._completed is None or generation == self._generation_told or generation.is_reset:
            return
        self._generation_told = generation
        if not self._left:
            self.listener.generation_changed(generation)


def check_revoked_first(name: str, subscriptions: GroupSubscription, plan: GroupAssignment) -> None:
    """Reject a plan that assigns a partition which another member still has to revoke in the same rebalance.

    Both members would own it at the same time (KIP-429).
    """
    owners = {
        (topic, number): member_id
        for member_id, subscription in subscriptions.items()
        for topic, numbers in subscription.owned_partitions.items()
        for number in numbers
    }
    for member_id, share in plan.items():
        owned = subscriptions[member_id].owned_partitions if member_id in subscriptions else {}
        for topic, numbers in share.partitions.items():
            kept = set(owned.get(topic, ()))
            for number in numbers:
                owner = owners.get((topic, number))
                if number not in kept and owner is not None:
                    raise AssignmentError(
                        f"assignor {name!r} gives {name_of(TopicPartition(topic, number))} to {member_id!r}"
                        f" while {owner!r} owns it; a cooperative assignor must leave it out until it is revoked"
                    )


def _topics_of(subscriptions: GroupSubscription) -> frozenset[str]:
    lists: Iterable[Iterable[str]] = {
        id(each.topics): each.topics for each in subscriptions.values()
    }.values()
    return frozenset(topic for topics in lists for topic in topics)
