"""Simulate a consumer process: a member of either protocol, its listeners and its partitions."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from enum import Enum
from functools import partial
from random import Random
from typing import TYPE_CHECKING, Any, Final

from groupsdk.assignment import Assignment, Subscription
from groupsdk.assignment.subscriptions import (
    decode_assignment,
    decode_subscriptions,
    encode_assignments,
    encode_subscription,
)
from groupsdk.error_code import ErrorCode
from groupsdk.errors import BrokerError
from groupsdk.lazy_imports import override
from groupsdk.member import events
from groupsdk.member.actions import AssignGroup, Call, CompleteJoin, PrepareJoin
from groupsdk.member.classic.membership import ClassicMembership
from groupsdk.member.consumer.heartbeat_fields import HeartbeatSubscription
from groupsdk.member.consumer.membership import ConsumerMembership
from groupsdk.member.membership import Membership
from groupsdk.settings.config import ConsumerMemberConfig, MemberConfig
from groupsdk.snapshot import MemberSnapshot
from groupsdk.testing.simulation.member_process import CallerBehavior, MemberProcess
from groupsdk.testing.simulation.work import (
    CommitStamp,
    CommitterWork,
    Producer,
    TopicPartition,
    TransactionalWork,
    Work,
)
from groupsdk.types import ProtocolMetadata
from groupsdk.wire.consumer_protocol import CONSUMER_PROTOCOL_TYPE
from groupsdk.wire.messages.consumer_groups import ConsumerGroupHeartbeatRequest
from groupsdk.wire.messages.metadata import MetadataResponse
from groupsdk.wire.messages.offsets import OffsetCommitRequest
from groupsdk.wire.schema import Request, Response


if TYPE_CHECKING:
    from groupsdk.testing.simulation.consumer_world import ConsumerWorld


class SpokenProtocol(Enum):
    """The protocol that a consumer speaks."""

    CONSUMER = "consumer"
    EAGER = "eager"
    """The classic protocol; everything is given up before each join."""
    COOPERATIVE = "cooperative"
    """The classic protocol; only what moves is given up."""

    @property
    def is_classic(self) -> bool:
        """Whether the members assign."""
        return self is not SpokenProtocol.CONSUMER


_OFFERED: Final = {SpokenProtocol.EAGER: "range", SpokenProtocol.COOPERATIVE: "cooperative-sticky"}


@dataclass(frozen=True, slots=True)
class ConsumerSetup:
    """A consumer's subscription, and its group protocol."""

    topics: tuple[str, ...]
    protocol: SpokenProtocol = SpokenProtocol.CONSUMER


class ConsumerMember(MemberProcess):
    """One consumer; its listeners take `callbacks_ms` at most."""

    def __init__(
        self,
        world: "ConsumerWorld",
        name: str,
        config: MemberConfig,
        behavior: CallerBehavior,
        setup: ConsumerSetup,
        callbacks_ms: int,
    ) -> None:
        self.setup = setup
        self.callbacks_ms = callbacks_ms
        self.slowest_callbacks_ms = callbacks_ms
        """What one takes that began before `callbacks_ms` was lowered."""
        self.owned: frozenset[TopicPartition] = frozenset()
        """What its user's code has: until the listener that gives it up has returned, and from when one takes it."""
        self.taking: frozenset[TopicPartition] = frozenset()
        """What it was handed last: its user's code has that once the listener has returned."""
        self.next_setup: ConsumerSetup | None = None
        """What a process that takes its place reads, and how; None: the same."""
        self.asked_ms = 0
        """When it was asked to prepare its last join."""
        self._handed_ms = 0
        self.taken_ms: dict[TopicPartition, int] = {}
        """When each of them was handed to it first, by the name of its topic. Of a classic member when it began to
        join: its assignment is made at any time from then on, and names topics that may be deleted meanwhile."""
        self._consumers_world = world
        self.overlooked: frozenset[TopicPartition] = frozenset()
        """What it has and the group did not know of when it was upgraded."""
        self.owes_join = False
        """Whether it has given partitions up, in a cooperative rebalance, that the next one is to give to others."""
        self._gone: frozenset[TopicPartition] = frozenset()
        self._lost_in_place: frozenset[TopicPartition] = frozenset()
        self._joined_as = ""
        self._joins = True
        """Whether the heartbeat sent last was to join, but for one that leaves."""
        membership: Callable[[Random], Membership] = (
            partial(ConsumerMembership, config)
            if isinstance(config, ConsumerMemberConfig)
            else partial(ClassicMembership, config)
        )
        super().__init__(world, name, config, behavior, membership)
        if world.has_transactions:
            self.work = self._make_work()

    def _make_work(self) -> Work:
        random = self._random
        kind = random.randrange(4)
        if kind == 0:
            return self.work
        group_id, instance_id = self.config.group_id, self.config.group_instance_id
        if kind == 1:
            return CommitterWork(group_id, instance_id, random, self.feed, self.snapshot, self)
        # a static member's next process goes on with the same transactional id, and fences the one before
        transactional_id = f"t-{instance_id or self.name}"
        producer = Producer(
            self._timeline,
            random,
            self._world.process,
            transactional_id,
            self._later,
            lambda: self.alive and not self.cut_off,
        )
        return TransactionalWork(group_id, instance_id, random, self.feed, producer)

    def snapshot(self) -> MemberSnapshot:
        """Return its state, as a member returns it to its caller."""
        return MemberSnapshot.of(self.config, self.view, self.clock_ms)

    def now_ms(self) -> int:
        """Return the time by its own clock."""
        return self.clock_ms

    @override
    def believes(self) -> frozenset[TopicPartition]:
        if not self.alive or not self.view.holds_at(self.clock_ms):
            return frozenset()
        return self.owned

    @property
    def is_refused(self) -> bool:
        """Whether the group has members of the other protocol and may not change."""
        refusal = (
            ErrorCode.INCONSISTENT_GROUP_PROTOCOL
            if self.setup.protocol.is_classic
            else ErrorCode.GROUP_ID_NOT_FOUND
        )
        return self._refused_with is refusal

    @property
    def was_away(self) -> bool:
        """Whether it gave up as a member that its group has forgotten, where it could have joined again."""
        gone = self._refused_with is ErrorCode.GROUP_ID_NOT_FOUND
        return gone and not self.setup.protocol.is_classic and not self._joins

    def subscribe(self, topics: tuple[str, ...]) -> None:
        """Let it read other topics."""
        self.setup = replace(self.setup, topics=topics)
        self._post(events.RejoinRequested("the subscription has changed"))

    @override
    def _as_sent(self, request: Request[Any], connection: int) -> Request[Any]:
        # one that is refused may leave all the same, for a join whose answer was lost
        if isinstance(request, ConsumerGroupHeartbeatRequest) and request.member_epoch >= 0:
            self._joins = request.member_epoch == 0
        if not isinstance(request, OffsetCommitRequest):
            return request
        stamp = CommitStamp(self.name, connection).metadata
        topics = tuple(
            replace(
                topic,
                partitions=tuple(
                    replace(partition, committed_metadata=stamp) for partition in topic.partitions
                ),
            )
            for topic in request.topics
        )
        return replace(request, topics=topics)

    @override
    def _on_response(self, request_id: int, response: Response) -> None:
        if isinstance(response, MetadataResponse) and self._consumers_world.names_are_late:
            nobody = tuple(
                replace(topic, error_code=ErrorCode.UNKNOWN_TOPIC_ID, name=None, partitions=())
                for topic in response.topics
            )
            response = replace(response, topics=nobody)
        super()._on_response(request_id, response)

    @override
    def _gives_up(self) -> None:
        self._own(frozenset())

    @override
    def _perform(self, call: Call, raises: bool, duration_ms: int) -> None:
        def finish() -> None:
            self._finish(call, raises)

        match call:
            case PrepareJoin():
                self._later(duration_ms, lambda: self._prepare(call, finish))
            case CompleteJoin():
                self._take_up(call, raises, duration_ms, finish)
            case AssignGroup():
                self._later(duration_ms, finish)

    def _prepare(self, call: PrepareJoin, finish: Callable[[], None]) -> None:
        self.asked_ms, self.taking = self.called_ms, frozenset()
        if call.run_callback:
            if call.generation.is_reset and self.config.group_instance_id is not None:
                self._lost_in_place |= self.owned
            if call.generation.is_reset or self.setup.protocol is not SpokenProtocol.COOPERATIVE:
                self._own(frozenset())
            else:
                self._own(frozenset(each for each in self.owned if each[0] in self.setup.topics))
        finish()

    def _take_up(
        self, call: CompleteJoin, raises: bool, duration_ms: int, finish: Callable[[], None]
    ) -> None:
        """Give up first, then take; a listener that raises may do so before, between and after."""
        given = decode_assignment(call.assignment) if call.assignment else Assignment()
        assigned = frozenset((each.topic, each.partition) for each in given)
        raises_after = self._random.randrange(3) if raises else None
        self.taking = assigned
        member_id = self.view.generation.member_id
        returned = self._lost_in_place if member_id != self._joined_as else frozenset()
        self._gone |= (self.owned | returned) - assigned
        self._lost_in_place, self._joined_as = frozenset(), member_id
        self.owes_join = self.setup.protocol is SpokenProtocol.COOPERATIVE and bool(self._gone)
        self._handed_ms = self.asked_ms if self.setup.protocol.is_classic else self.called_ms
        self._world.note(f"{self.name}: {_written(self.owned)} -> {_written(assigned)}")

        def take() -> None:
            self._own(assigned)
            finish()

        def give_up() -> None:
            self._own(self.owned & assigned)
            if raises_after == 1:
                finish()
            else:
                self._later(self._listener_ms(), take)

        if raises_after == 0:
            self._later(duration_ms, finish)
        else:
            self._later(duration_ms + self._listener_ms(), give_up)

    def _listener_ms(self) -> int:
        return self._random.randrange(1, self.callbacks_ms + 1)

    def _own(self, places: frozenset[TopicPartition]) -> None:
        self.taken_ms = {each: self.taken_ms.get(each, self._handed_ms) for each in sorted(places)}
        self.owned = places
        self.overlooked &= places | self.taking
        self.work.keep(places)

    @override
    def _answer(self, call: Call) -> events.CallerEvent:
        match call:
            case PrepareJoin():
                return events.JoinPrepared(
                    call.call_id, CONSUMER_PROTOCOL_TYPE, tuple(self._offers())
                )
            case AssignGroup():
                plan = share_out(
                    decode_subscriptions(call.members),
                    self._consumers_world.partition_counts(),
                )
                return events.GroupAssigned(call.call_id, encode_assignments(plan))
            case CompleteJoin():
                gone, self._gone = self._gone, frozenset()
                if self.setup.protocol is SpokenProtocol.COOPERATIVE and gone:
                    self._post(events.RejoinRequested("need to revoke partitions and re-join"))
                return events.JoinDelivered(call.call_id)

    def _offers(self) -> list[ProtocolMetadata]:
        topics, protocol = self.setup.topics, self.setup.protocol
        if protocol is SpokenProtocol.CONSUMER:
            # some by names or by an expression, whichever they read, so that they change from one to the other
            if self._consumers_world.has_patterns and len(topics) > 1 and self.name[-1] in "13579":
                return HeartbeatSubscription(pattern="|".join(topics)).protocols()
            return HeartbeatSubscription(frozenset(topics)).protocols()
        owned: dict[str, tuple[int, ...]] = {}
        for topic, index in sorted(self.owned):
            owned[topic] = (*owned.get(topic, ()), index)
        subscription = Subscription(
            topics=topics,
            owned_partitions=owned,
            generation_id=self.view.generation.generation_id,
        )
        return [ProtocolMetadata(_OFFERED[protocol], encode_subscription(subscription))]

    @property
    @override
    def fenced(self) -> bool:
        return self._refused_with is ErrorCode.FENCED_INSTANCE_ID

    @property
    def _refused_with(self) -> ErrorCode | None:
        failure = self.view.failure
        if failure is None or not isinstance(failure.error, BrokerError):
            return None
        return failure.error.error_code


def share_out(
    subscriptions: Mapping[str, Subscription], counts: Mapping[str, int]
) -> dict[str, Assignment]:
    """Share partitions out in turn, so that many change hands with each member; what another owns waits (KIP-429)."""
    owners = {
        (topic, index): member_id
        for member_id, each in subscriptions.items()
        for topic, numbers in each.owned_partitions.items()
        for index in numbers
    }
    plan: dict[str, dict[str, tuple[int, ...]]] = {each: {} for each in subscriptions}
    for topic in sorted(counts):
        readers = [each for each in sorted(subscriptions) if topic in subscriptions[each].topics]
        for index in range(counts[topic]) if readers else ():
            member_id = readers[index % len(readers)]
            if owners.get((topic, index), member_id) == member_id:
                given = plan[member_id]
                given[topic] = (*given.get(topic, ()), index)
    return {member_id: Assignment(given) for member_id, given in plan.items()}


def _written(places: frozenset[TopicPartition]) -> str:
    return " ".join(f"{topic}-{index}" for topic, index in sorted(places)) or "nothing"
