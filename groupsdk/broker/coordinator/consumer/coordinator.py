"""The coordinator of the consumer groups in one partition of `__consumer_offsets`: requests, timers, administration."""

import logging
from collections.abc import Callable, Generator, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Final
from uuid import UUID

from groupsdk.broker.coordinator.classic.rebalance import Rebalances
from groupsdk.broker.coordinator.classic.registry import GroupRegistry
from groupsdk.broker.coordinator.consumer.assignment_jobs import (
    AssignmentJob,
    AssignmentStarter,
    Outcome,
)
from groupsdk.broker.coordinator.consumer.assignors import BUILT_IN, ServerAssignor
from groupsdk.broker.coordinator.consumer.classic_members import ClassicMembers
from groupsdk.broker.coordinator.consumer.conversion import GroupConversion
from groupsdk.broker.coordinator.consumer.group import ConsumerGroup
from groupsdk.broker.coordinator.consumer.group_updater import GroupUpdater
from groupsdk.broker.coordinator.consumer.heartbeat import ConsumerHeartbeats
from groupsdk.broker.coordinator.consumer.member import ConsumerGroupMember, MemberState, together
from groupsdk.broker.coordinator.consumer.records import member_tombstones
from groupsdk.broker.coordinator.consumer.registry import (
    ConsumerGroupRegistry,
    Draft,
    GroupTimer,
    TimerKind,
    not_a_consumer_group,
)
from groupsdk.broker.coordinator.consumer.topics import (
    GroupLags,
    Partitions,
    SubscribedTopics,
    TopicImage,
    names_in_order,
    names_set,
)
from groupsdk.broker.coordinator.consumer.views import (
    ConsumerGroupView,
    consumer_group_status,
    consumer_group_view,
)
from groupsdk.broker.coordinator.group_status import GroupStatus
from groupsdk.broker.coordinator.runtime.result_builder import ResultBuilder
from groupsdk.broker.settings.effective import EffectiveSettings
from groupsdk.error_code import ErrorCode
from groupsdk.wire.consumer_protocol import CONSUMER_PROTOCOL_TYPE
from groupsdk.wire.messages.group_admin import (
    Assignment,
    DescribedGroup,
    ListedGroup,
    Member,
    TopicPartitions,
)


logger = logging.getLogger(__name__)
GROUP_TYPE: Final = "consumer"
"""The type of these groups in ListGroups."""
_CLASSIC_MEMBER, _CONSUMER_MEMBER = 0, 1
_TOPICS_AT_ONCE: Final = 256


class ConsumerGroupCoordinator:
    """The consumer groups of one log partition, alongside its classic groups.

    Does no I/O and reads no clock. Not thread-safe: one thread calls it."""

    def __init__(
        self,
        registry: ConsumerGroupRegistry,
        classic: GroupRegistry,
        rebalances: Rebalances,
        settings: EffectiveSettings,
        image: Callable[[], TopicImage],
        new_uuid: Callable[[], str],
        assignors: Mapping[str, ServerAssignor] | None,
        start: AssignmentStarter | None,
        lags: GroupLags,
    ) -> None:
        self.registry = registry
        self._classic = classic
        self._settings = settings
        self._image = image
        built_in: dict[str, ServerAssignor] = {name: made() for name, made in BUILT_IN.items()}
        self._topics = topics = SubscribedTopics(image)
        self.conversion = GroupConversion(registry, classic, rebalances, settings, topics)
        self._updater = updater = GroupUpdater(
            registry, settings, assignors or built_in, topics, self.conversion, start, lags
        )
        self.heartbeats = ConsumerHeartbeats(updater, classic, new_uuid)
        self.classic_members = ClassicMembers(updater, new_uuid)

    def group(self, group_id: str) -> ConsumerGroup | None:
        """Return a live consumer group; None if there is none with this id."""
        return self.registry.groups.get(group_id)

    def prepare(self, group_id: str, names: Sequence[str]) -> Generator[None, None, None]:
        """Look up the topics of a large subscription in steps, before the request of a member of the group that has it."""
        wanted = names_set(tuple(names))
        yield from self._topics.prepare(wanted)
        yield from self.conversion.prepare_upgrade(group_id, wanted)
        group = self.registry.groups.get(group_id)
        if group is not None:
            wanted |= group.subscribed_topics()
            yield
            yield from self._topics.prepare(wanted)

    def unprepared(self, group_id: str, member_id: str, epoch: int = 0) -> frozenset[str]:
        """Return the names that a member's heartbeat is to look up before, which may be after each change of any topic."""
        group = self.registry.groups.get(group_id)
        if group is None:
            return frozenset()
        names = frozenset[str]()
        if epoch < 0:
            names = _topics_without(group, member_id)
        elif self._updater.needs_refresh(group):
            names = group.subscribed_topics()
        elif member_id in group.members:
            names = group.topics_of(group.members[member_id])
        return names if self._topics.is_long(names) else frozenset()

    def prepare_heartbeat(
        self, group_id: str, member_id: str, epoch: int
    ) -> Generator[None, None, None]:
        """Look these names up in steps."""
        return self._topics.prepare(self.unprepared(group_id, member_id, epoch))

    def prepare_join(self, group_id: str, metadata: bytes) -> Generator[None, None, None]:
        """Do the same for the large subscription of a classic member, where its group is a consumer group."""
        group = self.registry.groups.get(group_id)
        if group is not None:
            names = yield from self.conversion.prepare_subscription(metadata)
            yield
            names |= group.subscribed_topics()
            yield
            yield from self._topics.prepare(names)

    def view(self, group_id: str) -> ConsumerGroupView | None:
        """Return a snapshot of a consumer group; None if there is none with this id."""
        group = self.registry.groups.get(group_id)
        if group is None:
            return None
        assignor = self._updater.assignor_of(group)
        return consumer_group_view(group, self.registry, assignor, self._name_of)

    def status(self, group_id: str) -> GroupStatus | None:
        """Return a consumer group's state and the members it waits for; None if there is none with this id."""
        group = self.registry.groups.get(group_id)
        return None if group is None else consumer_group_status(group, self.registry)

    def _name_of(self, topic_id: UUID) -> str:
        topic = self._image().topic_by_id(topic_id)
        return str(topic_id) if topic is None else topic.name

    def loaded(self, now_ms: int) -> None:
        """Restart all sessions with the group's timeout, and the rebalance timers of members that must revoke."""
        for group in self.registry.groups.values():
            timeout_ms = self._settings.session_timeout_ms(group.group_id)
            for member in group.members.values():
                self._updater.renew_session(group.group_id, member.member_id, now_ms, timeout_ms)
                if member.state is MemberState.UNREVOKED_PARTITIONS:
                    at_ms = now_ms + max(member.rebalance_timeout_ms, 0)
                    self.registry.set(
                        TimerKind.REBALANCE, group.group_id, member.member_id, at_ms, member.epoch
                    )

    def advance(self, builder: ResultBuilder) -> None:
        """Handle the due timers up to the first that writes records or takes long; call it again while `next_ms` is in the past.

        The remaining ones stay due, since each may depend on the records of the one before."""
        others_first = False
        for timer in self.registry.timers.pop_due(builder.now_ms):
            others_first = others_first or bool(builder.records) or not self._is_prepared(timer)
            if others_first:
                self.registry.timers.set(timer, builder.now_ms)
                continue
            self.registry.taken(timer)
            self._due(timer, builder)

    def _is_prepared(self, timer: GroupTimer) -> bool:
        """Look up some topics of the members that the group will have left; False if there are more, and others come first."""
        group = self.registry.groups.get(timer.group_id)
        if group is None or timer.member_id not in group.members:
            return True
        if timer.steps is None:
            timer.steps = self._topics.prepare(_topics_without(group, timer.member_id))
        return next(timer.steps, timer) is timer

    def _due(self, timer: GroupTimer, builder: ResultBuilder) -> None:
        group = self.registry.groups.get(timer.group_id)
        if group is None:
            return
        if timer.kind is TimerKind.REGEX:
            self._resolve(group, builder)
            return
        member = group.members.get(timer.member_id)
        if member is None or (timer.epoch >= 0 and member.epoch != timer.epoch):
            return
        logger.info(
            "group=%s member=%s epoch=%d: removed: its %s timeout expired",
            group.group_id,
            member.member_id,
            member.epoch,
            timer.kind.value,
        )
        self._updater.remove(group, [member], builder)

        def failed(again: ResultBuilder, error: ErrorCode) -> None:
            # it could not be written: retry for as long as the member exists
            self.registry.set(
                timer.kind, timer.group_id, timer.member_id, again.now_ms + 1_000, timer.epoch
            )

        builder.if_failed(failed)

    def _resolve(self, group: ConsumerGroup, builder: ResultBuilder) -> None:
        draft = Draft(group)
        if not self._updater.resolve_regexes(draft, builder.now_ms):
            # other requests come first
            self.registry.set(TimerKind.REGEX, group.group_id, "", builder.now_ms)
        draft.hand_over(builder)

    def assigned(self, job: AssignmentJob, outcome: Outcome, now_ms: int) -> ResultBuilder:
        """Handle the outcome of an assignor that ran on another thread; ignored if its group no longer exists."""
        builder = ResultBuilder(now_ms)
        group = self.registry.groups.get(job.group_id) or ConsumerGroup(job.group_id)
        draft = Draft(group)
        self._updater.assigned(job, outcome, draft, now_ms)
        draft.hand_over(builder)
        return builder

    def listed(self) -> Iterator[ListedGroup]:
        """Iterate over a copy of the groups, in the form of ListGroups."""
        return (
            ListedGroup(group.group_id, CONSUMER_PROTOCOL_TYPE, group.state.value, GROUP_TYPE)
            for group in tuple(self.registry.groups.values())
        )

    def described(self, group_id: str) -> Generator[None, None, DescribedGroup]:
        """Describe a group in the form of ConsumerGroupDescribe, with INVALID_GROUP_ID or GROUP_ID_NOT_FOUND if unknown.

        In steps. The description is the one of the first step, whatever happens to the group meanwhile.
        """
        group = self.registry.groups.get(group_id)
        if not group_id:
            code = ErrorCode.INVALID_GROUP_ID
            return DescribedGroup(error_code=code, error_message=code.text)
        if group is None:
            return DescribedGroup(
                error_code=ErrorCode.GROUP_ID_NOT_FOUND,
                error_message=not_a_consumer_group(
                    group_id, is_classic=group_id in self._classic.groups
                ),
                group_id=group_id,
            )
        described = DescribedGroup(
            group_id=group_id,
            group_state=group.state.value,
            group_epoch=group.epoch,
            assignment_epoch=group.assignment_epoch,
            assignor_name=self._updater.assignor_of(group),
        )
        members = sorted(group.members.values(), key=lambda each: each.member_id)
        targets = [group.target(each.member_id) for each in members]
        answers = []
        for member, target in zip(members, targets, strict=True):
            answer = yield from self._described_member(member, target)
            answers.append(answer)
            yield
        return replace(described, members=tuple(answers))

    def _described_member(
        self, member: ConsumerGroupMember, target: Partitions
    ) -> Generator[None, None, Member]:
        assigned = yield from self._named(together(member.assigned, member.pending))
        wanted = yield from self._named(target)
        return Member(
            member_id=member.member_id,
            instance_id=member.instance_id,
            rack_id=member.rack_id,
            member_epoch=member.epoch,
            client_id=member.client_id,
            client_host=member.client_host,
            subscribed_topic_names=names_in_order(member.topic_names),
            subscribed_topic_regex=member.regex,
            assignment=assigned,
            target_assignment=wanted,
            member_type=_CONSUMER_MEMBER if member.classic is None else _CLASSIC_MEMBER,
        )

    def _named(self, partitions: Partitions) -> Generator[None, None, Assignment]:
        image = self._image()
        named = []
        for number, (topic_id, indexes) in enumerate(partitions.items(), 1):
            topic = image.topic_by_id(topic_id)
            if topic is not None:
                named.append(TopicPartitions(topic_id, topic.name, tuple(sorted(indexes))))
            if not number % _TOPICS_AT_ONCE:
                yield
        return Assignment(tuple(named))


def _topics_without(group: ConsumerGroup, member_id: str) -> frozenset[str]:
    """Return the names that the other members subscribe to."""
    draft = Draft(group)
    for record in member_tombstones(group.group_id, member_id):
        draft.write(record)
    return draft.group.subscribed_topics()
