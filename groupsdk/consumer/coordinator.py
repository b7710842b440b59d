"""Decide for one consumer what it joins with, what it gives up and what it gets: the protocol "consumer".

It does no I/O of its own. What has to be read, stored or asked is behind the small contracts below, so that
whole groups run in one test without a broker.
"""

import logging
from collections import deque
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import replace
from typing import Protocol

from groupsdk.assignment import (
    Assignment,
    GroupAssignment,
    GroupSubscription,
    Subscription,
    TopicPartition,
)
from groupsdk.consumer.listener import ListenerCalls
from groupsdk.consumer.strategies import Strategies, check_exists
from groupsdk.consumer.subscription import TopicSubscription
from groupsdk.consumer.topics import TopicView, TopicWatch
from groupsdk.errors import AssignmentError
from groupsdk.offsets import name_of, numbers_by_topic
from groupsdk.snapshot import MemberSnapshot
from groupsdk.subscriptions import (
    decode_assignment,
    decode_subscriptions,
    encode_assignments,
    encode_subscription,
)
from groupsdk.types import Generation, GroupMembers, ProtocolMetadata
from groupsdk.wire.consumer_protocol import CONSUMER_PROTOCOL_TYPE


logger = logging.getLogger(__name__)


class MemberSide(Protocol):
    """The member that calls the coordinator back."""

    def snapshot(self) -> MemberSnapshot:
        """Return its state."""
        ...

    def request_rejoin(self, reason: str) -> None:
        """Ask for a rebalance."""
        ...


class Reading(Protocol):
    """What reads the partitions and keeps their positions."""

    def commit_before_join(self) -> None:
        """Store the positions of what is kept, if the settings say so, and do not wait for the answer."""
        ...

    def commit_before_revocation(self, partitions: Collection[TopicPartition]) -> None:
        """Store the positions, if that is what the settings say; must not raise an `Exception`."""
        ...

    def take(self, partitions: Collection[TopicPartition]) -> None:
        """Own these from now on; reading them begins after the callbacks."""
        ...

    def release(self, partitions: Collection[TopicPartition]) -> None:
        """Read these no more, and forget their positions."""
        ...


class Topics(Protocol):
    """Knows the cluster's topics."""

    def describe(self, topics: Collection[str] | None) -> TopicView:
        """Ask for topics; None for all."""
        ...


class ConsumerCoordinator:
    """The half of the contract that a consumer fills in (`GroupCallbacks`), as Kafka's class of this name.

    Args:
        strategies: the assignors that it offers.
        reading: what reads.
        topics: who knows the topics.
        watch: decides when to look at them again.
        client_rack: where the consumer runs; None where it does not say.
    """

    protocol_type = CONSUMER_PROTOCOL_TYPE

    def __init__(
        self,
        strategies: Strategies,
        reading: Reading,
        topics: Topics,
        watch: TopicWatch,
        client_rack: str | None = None,
    ) -> None:
        self.subscription: TopicSubscription | None = None
        self.listener = ListenerCalls()
        self.owned: frozenset[TopicPartition] = frozenset()
        self.member: MemberSide | None = None
        self._strategies = strategies
        self._reading = reading
        self._topics = topics
        self._watch = watch
        self._client_rack = client_rack
        self._owned_generation = -1
        self._completed: tuple[Generation, int] | None = None
        """The assignment that was taken up last: its generation, and how many there were by then.

        The generation alone does not tell two of them apart. Where the group has members of the consumer
        protocol of KIP-848, it is the member's epoch, which stays over several assignments.
        """
        self._untold: deque[Callable[[], object]] = deque()
        """What the listener has not heard of the last assignment."""
        self._announced: frozenset[TopicPartition] = frozenset()
        """What it believes to be the consumer's."""
        self._going: frozenset[TopicPartition] = frozenset()
        """Being given up at present, by a listener that may close the consumer."""
        self._left = False

    # What the member asks and tells, see `GroupCallbacks`.

    def metadata(self) -> list[ProtocolMetadata]:
        """Return one subscription for each assignor: topics, what is owned since when, the rack."""
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
                    replace(common, user_data=each.subscription_user_data(frozenset(topics)))
                ),
            )
            for each in self._strategies
        ]

    def on_join_prepare(self, generation: int, member_id: str) -> None:
        """Give up what is lost, or what the rebalance protocol says.

        Eager: everything. Cooperative: only topics that are not subscribed to any more.
        """
        self._watch.forget()
        self._left = False
        self._completed = None
        if generation == -1 or not member_id:
            self._lose(self.owned)
        elif not self._strategies.cooperative:
            self._revoke(self.owned)
        else:
            # while the group rebalances, the coordinator reads no commit of ours
            self._reading.commit_before_join()
            subscription = self._subscribed()
            self._revoke({each for each in self.owned if not subscription.wants(each.topic)})

    def perform_assignment(
        self, leader_id: str, protocol: str, members: GroupMembers
    ) -> Mapping[str, bytes]:
        """Share the group's topics out by the assignor that the group agreed on."""
        assignor = self._strategies.chosen(protocol)
        subscriptions = decode_subscriptions(members)
        topics = _topics_of(subscriptions)
        racks = any(each.rack_id for each in subscriptions.values())
        cluster = self._topics.describe(sorted(topics)).cluster(sorted(topics), racks=racks)
        missing = sorted(topics - cluster.partition_counts.keys())
        if missing:
            self._log(logging.WARNING, "topics that do not exist are not assigned: %s", missing)
        plan = assignor.assign(cluster, subscriptions)
        check_exists(assignor.name, cluster, plan)
        if self._strategies.cooperative:
            check_revoked_first(assignor.name, subscriptions, plan)
        self._watch.assigned(topics, cluster, racks=racks)
        return encode_assignments(plan)

    def on_assignment_skipped(self, leader_id: str, protocol: str, members: GroupMembers) -> None:
        """Watch the group's topics from here on, as its leader; its assignments stay (KIP-814)."""
        subscriptions = decode_subscriptions(members)
        topics = _topics_of(subscriptions)
        racks = any(each.rack_id for each in subscriptions.values())
        # looked at before the generation begins, so that whatever changes within it is noticed
        cluster = self._topics.describe(sorted(topics)).cluster(sorted(topics), racks=racks)
        self._watch.assigned(topics, cluster, racks=racks)

    def on_join_complete(
        self, generation: int, member_id: str, protocol: str, assignment: bytes
    ) -> None:
        """Take up an assignment: first give up what is not in it, then take what is new.

        Where the user's code raises, all of it is done nevertheless, and the first exception is raised at
        the end; the second delivery, which that causes, then finds nothing to do. Where it closes the
        consumer, nothing more is taken up.
        """
        delivery = self._delivery(generation, member_id)
        errors = _Errors()
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
        if revoked:
            errors.keep(lambda: self._revoke(revoked))
            if self._strategies.cooperative and not self._left:
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

    def on_leave_prepare(self) -> None:
        """Give everything up, but what a listener that causes this is about to give up anyway."""
        self._watch.forget()
        self._left = True
        snapshot = self._member().snapshot()
        # During a rebalance too, what a cooperative member keeps is its own until it leaves.
        if snapshot.generation.is_reset or not snapshot.holds:
            self._lose(self.owned)
        else:
            self._revoke(self.owned)
        self._completed = None

    @property
    def leaving(self) -> bool:
        """Whether the consumer gives everything up to leave the group."""
        return self._left

    # Details.

    def _delivery(self, generation: int, member_id: str) -> tuple[Generation, int]:
        """Return what tells one assignment from every other, and from its own second delivery."""
        epoch = self._member().snapshot().assignment_epoch
        return Generation(generation, member_id, None), epoch

    def _take_up(
        self,
        assigned: frozenset[TopicPartition],
        added: frozenset[TopicPartition],
        delivery: tuple[Generation, int],
    ) -> None:
        # first: where a Ctrl-C comes in between, the second delivery finds them new once more
        self._reading.take(added)
        self._untold = deque(
            (
                lambda: self.listener.generation_changed(self._member().snapshot().generation),
                lambda: self.listener.assigned(sorted(self.owned - self._announced)),
            )
        )
        self.owned = assigned
        self._owned_generation = delivery[0].generation_id
        self._completed = delivery
        self._log(logging.INFO, "owns %d partitions, %d of them new", len(assigned), len(added))

    def _tell(self, errors: "_Errors") -> None:
        """Tell the listener what it has not heard of the last assignment."""
        while self._untold and not self._left:
            begun = self.listener.begun
            try:
                errors.keep(self._untold[0])
            except BaseException:
                if self.listener.begun != begun:
                    self._told()
                raise
            self._told()

    def _told(self) -> None:
        self._untold.popleft()
        if not self._untold:
            self._announced = self.owned

    def _revoke(self, partitions: Collection[TopicPartition]) -> None:
        going = frozenset(partitions) - self._going
        if not going:
            return
        self._log(logging.INFO, "gives up %d partitions", len(going))
        with self._giving_up(going):
            self._reading.commit_before_revocation(going)
            self.listener.revoked(sorted(going))

    def _lose(self, partitions: Collection[TopicPartition]) -> None:
        self._completed = None
        self._owned_generation = -1
        going = frozenset(partitions) - self._going
        if not going:
            return
        self._log(logging.WARNING, "lost %d partitions", len(going))
        with self._giving_up(going):
            self.listener.lost(sorted(going))

    @contextmanager
    def _giving_up(self, partitions: frozenset[TopicPartition]) -> Iterator[None]:
        """Own these until the user's code has heard of their loss, and name them to nobody a second time."""
        begun, keep = self.listener.begun, False
        self._going |= partitions
        try:
            yield
        except Exception:
            raise
        except BaseException:
            keep = (
                self.listener.begun == begun
            )  # it has not heard of it, and does when this is tried again
            raise
        finally:
            self._going -= partitions
            if not keep:
                self._announced -= partitions
                self._drop(partitions)

    def _drop(self, partitions: Collection[TopicPartition]) -> None:
        self._reading.release(partitions)
        self.owned = self.owned.difference(partitions)

    def _rejoin(self, reason: str) -> None:
        self._member().request_rejoin(reason)

    def _member(self) -> MemberSide:
        assert self.member is not None
        return self.member

    def _subscribed(self) -> TopicSubscription:
        assert self.subscription is not None, "nothing joins before subscribe()"
        return self.subscription

    def _log(self, level: int, message: str, *arguments: object) -> None:
        if logger.isEnabledFor(level):
            snapshot = self._member().snapshot()
            logger.log(
                level,
                f"group=%s member=%s generation=%d: {message}",  # noqa: G004  # message is a format too
                snapshot.group_id,
                snapshot.member_id or "-",
                snapshot.generation.generation_id,
                *arguments,
            )


class _Errors:
    """Keeps the first exception of several steps that must all be done."""

    def __init__(self) -> None:
        self._first: Exception | None = None

    def keep(self, step: Callable[[], object]) -> None:
        try:
            step()
        except Exception as error:  # noqa: BLE001  # raised at the end
            self._first = self._first or error

    def raise_first(self) -> None:
        if self._first is not None:
            raise self._first


def check_revoked_first(name: str, subscriptions: GroupSubscription, plan: GroupAssignment) -> None:
    """Refuse a plan that gives to one member what another one still has to give up in the same round.

    The two would own it at the same time (KIP-429).

    Raises:
        AssignmentError: names the partition and both members.
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
                        f" while {owner!r} owns it; a cooperative one has to leave it out until it is revoked"
                    )


def _topics_of(subscriptions: GroupSubscription) -> frozenset[str]:
    lists: Iterable[Iterable[str]] = {
        id(each.topics): each.topics for each in subscriptions.values()
    }.values()
    return frozenset(topic for topics in lists for topic in topics)
