"""Update a group: raise the epoch, compute the target, reconcile a member, remove members."""

import logging
from collections.abc import Collection, Iterator, Mapping
from dataclasses import replace
from enum import Enum
from functools import partial
from typing import NamedTuple
from uuid import UUID

from groupsdk.assignment import reads_reports
from groupsdk.broker.coordinator.consumer.assignment_jobs import (
    AssignmentJob,
    AssignmentJobs,
    AssignmentStarter,
    Outcome,
    Target,
    is_quick,
)
from groupsdk.broker.coordinator.consumer.assignors import GroupSpec, MemberSpec, ServerAssignor
from groupsdk.broker.coordinator.consumer.conversion import GroupConversion
from groupsdk.broker.coordinator.consumer.group import ConsumerGroup
from groupsdk.broker.coordinator.consumer.member import ConsumerGroupMember
from groupsdk.broker.coordinator.consumer.reconciliation import Goal, reconciled
from groupsdk.broker.coordinator.consumer.records import (
    current_assignment,
    group_epoch,
    member_tombstones,
    regex_tombstone,
    resolved_regex,
    target_epoch,
    target_of_member,
)
from groupsdk.broker.coordinator.consumer.regex_resolution import (
    Resolution,
    expressions_of,
    needs_resolution,
)
from groupsdk.broker.coordinator.consumer.registry import (
    ConsumerGroupRegistry,
    Draft,
    TimerKind,
    rebalance_timer,
)
from groupsdk.broker.coordinator.consumer.topics import GroupLags, Partitions, SubscribedTopics
from groupsdk.broker.coordinator.hash_order import (
    HashOrder,
    capacity_for,
    members_order,
    text_hash,
    timeline_order,
)
from groupsdk.broker.coordinator.runtime.result_builder import ResultBuilder
from groupsdk.broker.settings.effective import EffectiveSettings


logger = logging.getLogger(__name__)


class RegexUpdate(Enum):
    """The effect of a request on its member's regular expression."""

    NONE = "none"
    UNRESOLVED = "unresolved"
    """The expression changed, and its topics are not known yet."""
    RESOLVED = "resolved"
    """The expression changed to one whose topics are known, or was removed."""


class Change(NamedTuple):
    """The changes a request made to its member's subscription."""

    names: bool
    """Whether the subscribed topic names changed."""
    regex: RegexUpdate
    """How the regular expression changed."""

    @property
    def any(self) -> bool:
        return self.names or self.regex is not RegexUpdate.NONE


class GroupUpdater:
    """The steps shared by heartbeats and joins: raise the epoch, compute the target, reconcile one member, remove members.

    The steps read and write a `Draft`, whose records its owner then writes; only timers are set at once."""

    def __init__(
        self,
        registry: ConsumerGroupRegistry,
        settings: EffectiveSettings,
        assignors: Mapping[str, ServerAssignor],
        topics: SubscribedTopics,
        conversion: GroupConversion,
        start: AssignmentStarter | None,
        lags: GroupLags,
    ) -> None:
        self.registry = registry
        self.settings = settings
        self.assignors = assignors
        self.topics = topics
        self.conversion = conversion
        self._start = start
        self._lags = lags
        self.jobs = AssignmentJobs()
        # the metadata version at which each group's hash was last checked; not persisted
        self._seen: dict[str, int] = {}
        self._resolutions: dict[str, Resolution] = {}

    def needs_refresh(self, group: ConsumerGroup) -> bool:
        """Return whether topics changed since the group's metadata hash was last checked."""
        return self._seen.get(group.group_id) != self.topics.image().version

    def update_regex(
        self, draft: Draft, before: ConsumerGroupMember | None, after: ConsumerGroupMember
    ) -> RegexUpdate:
        """Drop unused expressions after a member's request. Return how the member's expression changed."""
        old = "" if before is None else before.regex
        if old == after.regex:
            return RegexUpdate.NONE
        self.drop_unused_regexes(draft)
        if after.regex and after.regex not in draft.group.regexes:
            return RegexUpdate.UNRESOLVED
        return RegexUpdate.RESOLVED

    def drop_unused_regexes(self, draft: Draft) -> None:
        """Delete the resolved topics of regular expressions that no member of the draft uses any more."""
        if not draft.group.regexes:
            return
        used = expressions_of(draft.group)
        for regex in [each for each in draft.group.regexes if each not in used]:
            draft.write(regex_tombstone(draft.group.group_id, regex))

    def bump_epoch(self, draft: Draft, change: Change) -> None:
        """Raise the group epoch if the subscription, or the metadata of the subscribed topics, changed."""
        group = draft.group
        bump = change.names or change.regex is RegexUpdate.RESOLVED
        found = group.metadata_hash
        if bump or self.needs_refresh(group):
            image = self.topics.image()
            found = self.topics.of(group.subscribed_topics()).hash
            if found == group.metadata_hash:
                # only after the hash is in the log: a failed request must not hide the topic change
                self._seen[group.group_id] = image.version
        if bump or found != group.metadata_hash:
            self.registry.counters.consumer_rebalances += 1
            draft.write(group_epoch(group.group_id, group.epoch + 1, found))

    def resolve_regexes(self, draft: Draft, now_ms: int) -> bool:
        """Resolve all regular expressions of a group; raise the group epoch if the matching topics changed.

        Return False if there are so many topics that it must be called again.
        """
        group, image = draft.group, self.topics.image()
        wanted = expressions_of(group)
        resolution = self._resolutions.pop(group.group_id, None)
        if resolution is None or resolution.regexes != wanted:
            resolution = Resolution(wanted, image)
        if not resolution.go_on():
            self._resolutions[group.group_id] = resolution
            return False
        changed = False
        for regex, found in resolution.found(now_ms).items():
            before = group.regexes.get(regex)
            # a new expression without a topic adds nothing
            changed |= found.topics != (frozenset() if before is None else before.topics)
            draft.write(resolved_regex(group.group_id, regex, found))
        hashed = self.topics.of(draft.group.subscribed_topics()).hash
        if changed or hashed != group.metadata_hash:
            self.registry.counters.consumer_rebalances += 1
            draft.write(group_epoch(group.group_id, group.epoch + 1, hashed))
        return True

    def request_regexes(self, draft: Draft, now_ms: int) -> None:
        """Set the timer that resolves the regular expressions after the response, if that is due."""
        group = draft.group
        interval_ms = self.settings.config().group_consumer_regex_refresh_interval_ms
        if self.registry.is_set(TimerKind.REGEX, group.group_id, ""):
            return
        if needs_resolution(group, self.topics.image(), interval_ms, now_ms):
            self.registry.set(TimerKind.REGEX, group.group_id, "", now_ms)

    def assignor_of(self, group: ConsumerGroup) -> str:
        """Return the name of the assignor that most members request; the default one if no member does."""
        votes = group.assignor_votes()
        if not votes:
            return next(iter(self.assignors))
        return max(timeline_order(votes), key=votes.__getitem__)

    def _elected(self, draft: Draft, member_id: str) -> str:
        """Return the name of the assignor for the next target, in whose election Kafka breaks ties differently.

        It copies the votes into a HashMap, takes back the vote of the member that asks, and counts it again.
        """
        base, after = draft.base, draft.group.members[member_id]
        before = base.members.get(member_id)
        if before is None and after.instance_id is not None:
            before = base.static_member(after.instance_id)
        votes = dict(base.assignor_votes())
        order: HashOrder[str]
        order = HashOrder(text_hash, capacity_for(len(votes))) if votes else HashOrder(text_hash)
        for name in timeline_order(votes):
            order.put(name)
        if before is not None and before.server_assignor is not None:
            votes[before.server_assignor] -= 1
            if not votes[before.server_assignor]:
                order.remove(before.server_assignor)
        if after.server_assignor is not None:
            votes[after.server_assignor] = votes.get(after.server_assignor, 0) + 1
            order.compute(after.server_assignor)
        return max(order, key=votes.__getitem__, default=next(iter(self.assignors)))

    def is_target_due(self, group: ConsumerGroup, now_ms: int) -> bool:
        """Return whether a target assignment must be computed now.

        It must if the group epoch is above the target's, no job is running, and the assignment interval has passed
        (KIP-1263).
        """
        if group.epoch <= group.assignment_epoch or self.jobs.is_running(group.group_id):
            return False
        interval_ms = self.settings.assignment_interval_ms(group.group_id)
        last_ms = group.assignment_timestamp_ms
        return not (last_ms and interval_ms and now_ms < last_ms + interval_ms)

    def update_target(self, draft: Draft, member_id: str, now_ms: int) -> None:
        """Compute the target assignment of the group epoch, if due.

        If the assignor is started on another thread, `assigned` receives the outcome later.
        """
        group = draft.group
        if not self.is_target_due(group, now_ms):
            return
        self.jobs.raise_failure(group.group_id)
        name = self._elected(draft, member_id)
        assignor = self.assignors.get(name) or next(iter(self.assignors.values()))
        spec = self.spec_of(group, new=draft.new_members())
        if reads_reports(assignor):
            spec = replace(spec, lags=self._lags(group.group_id, spec.topics.values()))
        job = AssignmentJob(group.group_id, group.epoch, name, assignor, spec)
        if self._start is None or is_quick(assignor, spec):
            self._write_target(draft, job, job.run(), now_ms)
            return
        draft.start = partial(self._begin, job, self._start)

    def _begin(self, job: AssignmentJob, start: AssignmentStarter) -> None:
        self.jobs.begin(job)
        start(job)

    def assigned(self, job: AssignmentJob, outcome: Outcome, draft: Draft, now_ms: int) -> None:
        """Apply the outcome of an assignor that ran on another thread to the group's current state.

        A failure is kept for the next `update_target`. A target is dropped if it is outdated: a newer one exists, or the
        group has other members."""
        if not self.jobs.end(job, outcome):
            return
        group = draft.group
        if isinstance(outcome, Exception):
            logger.warning(
                "group=%s epoch=%d: assignor %s failed; keeping the previous target assignment: %s",
                job.group_id,
                job.epoch,
                job.name,
                outcome,
            )
        elif group.assignment_epoch < job.epoch <= group.epoch and not (
            # a static member rejoined under another id, without a new epoch: the target lacks it
            job.epoch == group.epoch and job.spec.members.keys() != group.members.keys()
        ):
            self._write_target(draft, job, outcome, now_ms)

    def _write_target(self, draft: Draft, job: AssignmentJob, target: Target, now_ms: int) -> None:
        group = draft.group
        for member_id in job.spec.members:
            share = target.get(member_id, {})
            if member_id in group.members and not _is_same(group.targets.get(member_id), share):
                draft.write(target_of_member(group.group_id, member_id, share))
        draft.write(target_epoch(group.group_id, job.epoch, now_ms))
        self.jobs.succeeded(group.group_id)
        logger.info(
            "group=%s epoch=%d: assignor %s computed the target assignment of %d members",
            group.group_id,
            job.epoch,
            job.name,
            len(job.spec.members),
        )

    def spec_of(self, group: ConsumerGroup, new: Collection[str] = ()) -> GroupSpec:
        """Build the input of an assignor; Kafka iterates the `new` members, which only the draft has, after the others."""
        topics = self.topics.of(group.subscribed_topics()).topics
        subscribed: dict[frozenset[str], frozenset[UUID]] = {}

        def subscription(member: ConsumerGroupMember) -> frozenset[UUID]:
            names = group.topics_of(member)
            found = subscribed.get(names)
            if found is None:
                found = subscribed[names] = self.topics.ids_of(names)
            return found

        members = {
            member_id: MemberSpec(
                member_id=member_id,
                instance_id=group.members[member_id].instance_id,
                rack_id=group.members[member_id].rack_id,
                client_id=group.members[member_id].client_id,
                subscribed=subscription(group.members[member_id]),
                target=dict(group.target(member_id)),
            )
            for member_id in members_order(group.members, new)
        }
        return GroupSpec(members=members, topics=topics, is_homogeneous=_is_homogeneous(group))

    def reconcile(
        self,
        draft: Draft,
        member_id: str,
        owned: Mapping[UUID, frozenset[int]] | None,
        *,
        subscription_changed: bool,
        now_ms: int,
    ) -> ConsumerGroupMember:
        """Advance a member one step towards its target. Return the resulting member."""
        group = draft.group
        member = group.members[member_id]
        if member.is_reconciled_to(group.assignment_epoch) and not subscription_changed:
            return member
        made = reconciled(
            group,
            member,
            Goal(
                epoch=group.assignment_epoch,
                target=group.target(member_id),
                subscribed=self.subscribed_ids(group, member),
                subscription_changed=subscription_changed,
            ),
            owned,
        )
        if made is member:
            return member
        draft.write(current_assignment(group.group_id, made))
        rebalance_timer(self.registry, draft, member_id, now_ms)
        return made

    def subscribed_ids(self, group: ConsumerGroup, member: ConsumerGroupMember) -> frozenset[UUID]:
        """Return the ids of the existing topics that a member of the group subscribes to."""
        return self.topics.ids_of(group.topics_of(member))

    def renew_session(self, group_id: str, member_id: str, now_ms: int, timeout_ms: int) -> None:
        """Restart a member's session timer, which expires `timeout_ms` from now."""
        self.registry.set(TimerKind.SESSION, group_id, member_id, now_ms + timeout_ms)

    def remove(
        self, group: ConsumerGroup, leaving: Collection[ConsumerGroupMember], builder: ResultBuilder
    ) -> None:
        """Write the removal of members, raising the group epoch once.

        Once only classic members are left, write the downgrade of the group to a classic one instead."""
        gone = {each.member_id for each in leaving}
        if self.conversion.would_downgrade(_without(group, gone)):
            rest = list(_without(group, gone))
            self.conversion.downgrade(group, rest, builder, generation=group.epoch, rebalance=True)
            return
        draft = Draft(group)
        for member in leaving:
            for record in member_tombstones(group.group_id, member.member_id):
                draft.write(record)
        self.drop_unused_regexes(draft)
        hashed = self.topics.of(draft.group.subscribed_topics()).hash
        self.registry.counters.consumer_rebalances += 1
        draft.write(group_epoch(group.group_id, group.epoch + 1, hashed))
        if not draft.group.members and self.settings.config().follows_4_4:
            draft.write(target_epoch(group.group_id, group.epoch + 1, 0))
        draft.hand_over(builder)


def _without(group: ConsumerGroup, gone: Collection[str]) -> Iterator[ConsumerGroupMember]:
    return (member for member in group.members.values() if member.member_id not in gone)


def _is_same(before: Partitions | None, target: Partitions) -> bool:
    """Return whether two targets have the same partitions in any order; None differs from an empty target."""
    if before is None or before.keys() != target.keys():
        return False
    return all(set(before[each]) == set(indexes) for each, indexes in target.items())


def _is_homogeneous(group: ConsumerGroup) -> bool:
    """Return whether Kafka considers the subscriptions homogeneous (`ConsumerGroup.subscriptionType`).

    With expressions, only if all members have the same one and no member also names a topic.
    """
    subscriptions = group.subscriptions()
    names = {each for each, _ in subscriptions}
    regexes = {regex for _, regex in subscriptions}
    if regexes == {""}:
        return len(names) == 1
    return len(regexes) == 1 and not any(names)
