"""Convert a classic group with members to a consumer group, and back (KIP-848, online migration)."""

import logging
from collections.abc import Callable, Collection, Generator, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from functools import partial
from typing import Any, Final
from uuid import UUID

from groupsdk.broker.coordinator.classic.group import ClassicGroup, group_metadata, group_tombstone
from groupsdk.broker.coordinator.classic.member import GroupMember, Protocols, choose_protocol
from groupsdk.broker.coordinator.classic.rebalance import Rebalances
from groupsdk.broker.coordinator.classic.registry import GroupRegistry
from groupsdk.broker.coordinator.consumer.group import ConsumerGroup, GroupRecord, topics_in
from groupsdk.broker.coordinator.consumer.member import ConsumerGroupMember, Holdings, MemberState
from groupsdk.broker.coordinator.consumer.records import (
    current_assignment,
    group_epoch,
    group_tombstones,
    member_metadata,
    target_epoch,
    target_of_member,
)
from groupsdk.broker.coordinator.consumer.registry import ConsumerGroupRegistry, Draft, TimerKind
from groupsdk.broker.coordinator.consumer.topics import (
    Partitions,
    SubscribedTopics,
    TopicImage,
    names_set,
)
from groupsdk.broker.coordinator.group_status import GroupState
from groupsdk.broker.coordinator.runtime.contract import finished
from groupsdk.broker.coordinator.runtime.result_builder import ResultBuilder
from groupsdk.broker.settings.effective import EffectiveSettings
from groupsdk.broker.settings.table import GroupConfig
from groupsdk.error_code import ErrorCode
from groupsdk.errors import DecodeError
from groupsdk.wire.consumer_protocol import (
    CONSUMER_PROTOCOL_TYPE,
    MAX_VERSION,
    ConsumerProtocolAssignment,
    ConsumerProtocolDecoder,
    ConsumerProtocolEncoder,
    ConsumerProtocolSubscription,
)
from groupsdk.wire.coordinator_records.consumer_group import ClassicMemberMetadata, ClassicProtocol
from groupsdk.wire.coordinator_records.group_metadata import GroupMetadataValue, MemberMetadata


logger = logging.getLogger(__name__)
_LARGE_METADATA: Final = 8 * 1024
"""The size of all metadata of a classic group from which its conversion is prepared and written in steps."""
_KEPT_SUBSCRIPTIONS: Final = 8
_TOPICS_AT_ONCE: Final = 512
_RECORD_COSTS: Final = 16
"""The weight of a record without topics, in topics."""
_MALFORMED: Final = "the embedded consumer protocol is malformed"


class ConversionError(ValueError):
    """A classic group cannot be converted to a consumer group."""

    def __init__(self, text: str, reason: str = _MALFORMED) -> None:
        super().__init__(text)
        self.reason = reason


class GroupConversion:
    """Converts groups between the classic and the consumer protocol, with their records, parked requests and sessions."""

    __slots__ = (
        "_classic",
        "_drafted",
        "_image",
        "_rebalances",
        "_registry",
        "_settings",
        "_subscriptions",
        "_topics",
    )

    def __init__(
        self,
        registry: ConsumerGroupRegistry,
        classic: GroupRegistry,
        rebalances: Rebalances,
        settings: EffectiveSettings,
        topics: SubscribedTopics,
    ) -> None:
        self._registry = registry
        self._classic = classic
        self._rebalances = rebalances
        self._settings = settings
        self._topics = topics
        self._image = topics.image
        # the last large ones that were decoded
        self._subscriptions: dict[bytes, ConsumerProtocolSubscription] = {}
        # the last draft that was prepared, with the state that it was made of
        self._drafted: tuple[Any, Draft] | None = None

    def is_long(self, group_id: str) -> bool:
        """Return whether a classic group is so large that its conversion must be prepared."""
        classic = self._classic.groups.get(group_id)
        return (
            classic is not None
            and classic.metadata_bytes > _LARGE_METADATA
            and classic.state is not GroupState.EMPTY
        )

    def prepare_upgrade(self, group_id: str, names: frozenset[str]) -> Generator[None, None, None]:
        """Decode the subscriptions of a large classic group, look up their topics, and draft the new group, in steps."""
        classic = self._classic.groups.get(group_id)
        if classic is None or not self.is_long(group_id):
            return
        found: set[str] = set()
        for metadata in {_metadata_of(classic, each) for each in classic.members.values()}:
            yield
            found |= yield from self.prepare_subscription(metadata)
        yield
        yield from self._topics.prepare(frozenset(found))
        yield
        yield from self._topics.prepare(names | found)
        before = self._state_of(classic)
        draft = Draft(ConsumerGroup(group_id))
        with suppress(ConversionError):  # reported where it is used
            yield from self._upgrade(classic, draft)
            self._drafted = before, draft

    def _state_of(self, classic: ClassicGroup) -> Any:
        """Return what the upgrade of a group depends on, to be compared with what it is later."""
        return classic, classic.snapshot(), self._settings.config(), self._image().version

    def _upgrade(self, classic: ClassicGroup, draft: Draft) -> Generator[None, None, None]:
        config, topics = self._settings.config(), self._topics
        done = 0
        for record in upgrade_records(classic, config, topics, self.read_subscription):
            if record is not None:
                draft.write(record)
                done += _RECORD_COSTS + topics_in(record)
            if record is None or done > _TOPICS_AT_ONCE:
                done = 0
                yield

    def prepare_subscription(self, metadata: bytes) -> Generator[None, None, frozenset[str]]:
        """Decode a subscription in steps, if it is large, and look up its topics. Return their names."""
        if len(metadata) <= _LARGE_METADATA:
            return frozenset()
        subscription = self._subscriptions.get(metadata)
        if subscription is None:
            try:
                subscription = yield from ConsumerProtocolDecoder().subscription_in_steps(metadata)
            except DecodeError:
                return frozenset()  # reported where it is used
            while len(self._subscriptions) >= _KEPT_SUBSCRIPTIONS:
                del self._subscriptions[next(iter(self._subscriptions))]
            self._subscriptions[metadata] = subscription
        yield
        names = names_set(tuple(subscription.topics))
        yield from self._topics.prepare(names)
        return names

    def read_subscription(self, metadata: bytes) -> ConsumerProtocolSubscription:
        """Decode the metadata with which a classic consumer joins. Raise ConversionError if it is none."""
        found = self._subscriptions.get(metadata)
        if found is not None:
            return found
        try:
            return ConsumerProtocolDecoder().subscription(metadata)
        except DecodeError as error:
            raise ConversionError(f"cannot decode a subscription: {error}") from error

    def draft_of_new_group(self, group_id: str) -> Draft:
        """Return the draft of a new consumer group, which takes over a classic group that is not empty.

        A classic group that waits only for an assigned member id is not empty: its generation goes on.
        """
        draft = Draft(ConsumerGroup(group_id))
        classic = self._classic.groups.get(group_id)
        if classic is not None and classic.state is not GroupState.EMPTY:
            drafted, self._drafted = self._drafted, None
            if drafted is not None and drafted[0] == self._state_of(classic):
                return drafted[1]
            finished(self._upgrade(classic, draft))
        return draft

    def write_upgrade(self, draft: Draft, builder: ResultBuilder) -> None:
        """Write the end of the classic group that a draft replaces, if any; its parked requests have to join again."""
        group_id = draft.group.group_id
        classic = self._classic.groups.get(group_id)
        if classic is None or not draft.records:
            return
        builder.write(group_tombstone(group_id))
        builder.is_large = classic.metadata_bytes > _LARGE_METADATA
        builder.when_written(partial(_log_upgrade, classic))
        for member in classic.members.values():
            self._rebalances.answer_parked(
                classic, member, ErrorCode.REBALANCE_IN_PROGRESS, builder
            )
            at_ms = builder.now_ms + member.session_timeout_ms
            self._registry.set(TimerKind.SESSION, group_id, member.member_id, at_ms)

    def would_downgrade(self, rest: Iterable[ConsumerGroupMember]) -> bool:
        """Return whether a group with only these members must become a classic one, by the migration policy and size."""
        config = self._settings.config()
        size = 0
        for each in rest:
            if each.classic is None:
                return False
            size += 1
        return 0 < size <= config.group_max_size and config.policy.downgrades

    def downgrade(
        self,
        group: ConsumerGroup,
        rest: Collection[ConsumerGroupMember],
        builder: ResultBuilder,
        *,
        generation: int,
        rebalance: bool,
    ) -> None:
        """Write a consumer group as the classic group of its remaining members, which perhaps rebalances at once.

        `group` has all its members, those being removed included, and any drafted changes; `generation` is its epoch
        without these.
        """
        group_id = group.group_id
        builder.write_all(group_tombstones(group))
        value = downgrade_records(group, rest, generation, self._image(), builder.now_ms)
        builder.write(group_metadata(group_id, value))
        builder.when_written(
            partial(self._serve_classic, group_id, offers_of(rest), rebalance=rebalance)
        )
        logger.info(
            "group=%s epoch=%d: becomes a classic group of %d members",
            group_id,
            group.epoch,
            len(rest),
        )

    def _serve_classic(
        self,
        group_id: str,
        offers: Mapping[str, Protocols],
        builder: ResultBuilder,
        *,
        rebalance: bool,
    ) -> None:
        """Start the sessions of a classic group that was a consumer group before.

        Its members still offer all their protocols, of which the group's record has one.
        """
        group = self._classic.groups[group_id]
        for member in group.members.values():
            group.set_protocols(member, offers[member.member_id])
            self._classic.renew_session(member, builder.now_ms)
        if rebalance and group.members:
            self._rebalances.prepare(
                group, "the group was converted from a consumer group", builder
            )


def _log_upgrade(classic: ClassicGroup, _: ResultBuilder) -> None:
    logger.info(
        "group=%s generation=%d: becomes a consumer group, with %d classic members",
        classic.group_id,
        classic.generation_id,
        len(classic.members),
    )


def offers_of(members: Iterable[ConsumerGroupMember]) -> dict[str, Protocols]:
    """Return the protocols that classic members offer, by member id."""
    return {
        member.member_id: tuple((p.name, p.metadata) for p in member.classic.supported_protocols)
        for member in members
        if member.classic is not None
    }


def upgrade_records(
    group: ClassicGroup,
    config: GroupConfig,
    topics: SubscribedTopics,
    read_subscription: Callable[[bytes], ConsumerProtocolSubscription],
) -> Iterator[GroupRecord | None]:
    """Build the records that convert a classic group with members to a consumer group; None: nothing yet.

    Raise ConversionError if it cannot be. The generation becomes the group epoch, and the members keep their
    assignments.
    """
    if not config.policy.upgrades:
        policy = config.group_consumer_migration_policy
        raise ConversionError(
            f"group.consumer.migration.policy={policy} forbids it", "online upgrade is disabled"
        )
    if group.protocol_type != CONSUMER_PROTOCOL_TYPE:
        raise ConversionError(
            f"its protocol type is {group.protocol_type!r}",
            "the group does not use the consumer embedded protocol",
        )
    if len(group.members) > config.group_consumer_max_size:
        raise ConversionError(
            f"it has {len(group.members)} members, more than group.consumer.max.size={config.group_consumer_max_size}",
            "the group size exceeds the consumer group maximum size",
        )
    image = topics.image()
    members, done = [], 0
    for each in tuple(group.members.values()):
        subscription = read_subscription(_metadata_of(group, each))
        member = yield from _upgraded(group, each, subscription, image)
        members.append(member)
        done += _RECORD_COSTS + len(member.topic_names)
        if done > _TOPICS_AT_ONCE:
            done = 0
            yield None
    group_id, epoch = group.group_id, group.generation_id
    names = frozenset().union(*{member.topic_names for member in members})
    targets: dict[str, Partitions] = {
        member.member_id: {topic_id: tuple(epochs) for topic_id, epochs in member.assigned.items()}
        for member in members
    }
    for member in members:
        yield member_metadata(group_id, member)
    yield group_epoch(group_id, epoch, topics.of(names).hash)
    for member_id, target in targets.items():
        yield target_of_member(group_id, member_id, target)
    yield target_epoch(group_id, epoch, 0)
    for member in members:
        yield current_assignment(group_id, member)


def _metadata_of(group: ClassicGroup, member: GroupMember) -> bytes:
    name = group.protocol_name or next((each for each, _ in member.protocols), "")
    metadata = next((data for each, data in member.protocols if each == name), None)
    if metadata is None:
        metadata = member.protocols[0][1] if member.protocols else b""
    return metadata


def _upgraded(
    group: ClassicGroup,
    member: GroupMember,
    subscription: ConsumerProtocolSubscription,
    image: TopicImage,
) -> Generator[None, None, ConsumerGroupMember]:
    assigned: Holdings = {}
    if member.assignment:
        try:
            given = ConsumerProtocolDecoder().assignment(member.assignment)
        except DecodeError as error:
            text = f"cannot decode the assignment of {member.member_id}: {error}"
            raise ConversionError(text) from error
        if given.user_data:
            # KAFKA-18134: only the client's assignor can interpret it
            raise ConversionError(
                f"the assignment of {member.member_id} has user data, which only its own assignor can interpret",
                "an unsupported custom assignor is in use. Please refer to the documentation or switch to a default"
                " assignor before re-attempting the upgrade",
            )
        is_large = len(given.assigned_partitions) > _TOPICS_AT_ONCE
        if is_large:
            yield
        assigned = holdings_of(given.assigned_partitions, image, group.generation_id)
        if is_large:
            yield
    return ConsumerGroupMember(
        member_id=member.member_id,
        instance_id=member.instance_id,
        rack_id=subscription.rack_id,
        client_id=member.client_id,
        client_host=member.client_host,
        topic_names=names_set(tuple(subscription.topics)),
        rebalance_timeout_ms=member.rebalance_timeout_ms,
        classic=ClassicMemberMetadata(
            member.session_timeout_ms,
            tuple(ClassicProtocol(each, data) for each, data in member.protocols),
        ),
        epoch=group.generation_id,
        previous_epoch=group.generation_id,
        state=MemberState.STABLE,
        assigned=assigned,
    )


def holdings_of(partitions: Mapping[str, Sequence[int]], image: TopicImage, epoch: int) -> Holdings:
    """Return partitions by topic id, as assigned in an epoch; partitions of deleted topics are omitted."""
    held: dict[UUID, dict[int, int]] = {}
    for name, indexes in partitions.items():
        topic = image.topic(name)
        if topic is not None and indexes:
            held[topic.topic_id] = dict.fromkeys(sorted(indexes), epoch)
    return held


def subscription_of(member: ConsumerGroupMember) -> bytes:
    """Return the metadata of a classic member's first protocol; empty if it offers none."""
    assert member.classic is not None
    protocols = member.classic.supported_protocols
    return protocols[0].metadata if protocols else b""


def assignment_bytes(partitions: Partitions, image: TopicImage, subscription: bytes) -> bytes:
    """Encode partitions as the assignment of a classic consumer, without deleted topics.

    In the version of its subscription, if that is supported."""
    version = int.from_bytes(subscription[:2]) if len(subscription) >= 2 else 0
    named = {
        topic.name: tuple(sorted(indexes))
        for topic_id, indexes in partitions.items()
        if (topic := image.topic_by_id(topic_id)) is not None
    }
    return ConsumerProtocolEncoder().assignment(
        ConsumerProtocolAssignment(named), min(version, MAX_VERSION)
    )


def downgrade_records(
    group: ConsumerGroup,
    rest: Collection[ConsumerGroupMember],
    generation: int,
    image: TopicImage,
    now_ms: int,
) -> GroupMetadataValue:
    """Build the record of the classic group that a consumer group becomes, with all members' targets as assignments.

    The first of `rest`, which must all be classic, becomes leader.
    """
    protocols = offers_of(rest)
    supported: dict[str, int] = {}
    for offered in protocols.values():
        for each_name, _ in offered:
            supported[each_name] = supported.get(each_name, 0) + 1
    name = choose_protocol(protocols.values(), supported)
    leader = next(iter(each.member_id for each in rest), None)
    members = []
    for each in rest:
        assert each.classic is not None
        data = dict(protocols[each.member_id]).get(name or "", b"")
        members.append(
            MemberMetadata(
                member_id=each.member_id,
                group_instance_id=each.instance_id,
                client_id=each.client_id,
                client_host=each.client_host,
                rebalance_timeout=each.rebalance_timeout_ms,
                session_timeout=each.classic.session_timeout_ms,
                subscription=data,
                assignment=assignment_bytes(group.target(each.member_id), image, data),
            )
        )
    return GroupMetadataValue(
        protocol_type=CONSUMER_PROTOCOL_TYPE,
        generation=generation,
        protocol=name,
        leader=leader,
        current_state_timestamp=now_ms,
        members=tuple(members),
    )
