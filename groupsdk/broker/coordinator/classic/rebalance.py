"""Move a group from one generation to the next, and remove members from it."""

import logging
from collections.abc import Iterable

from groupsdk.broker.coordinator.classic.group import ClassicGroup, group_metadata
from groupsdk.broker.coordinator.classic.member import GroupMember, PendingMember, Session
from groupsdk.broker.coordinator.classic.registry import GroupRegistry
from groupsdk.broker.coordinator.classic.responses import join_answer, join_error, sync_error
from groupsdk.broker.coordinator.group_status import GroupState, GroupTrigger
from groupsdk.broker.coordinator.runtime.deadlines import NEVER
from groupsdk.broker.coordinator.runtime.result_builder import ResultBuilder
from groupsdk.error_code import ErrorCode


logger = logging.getLogger(__name__)

_REBALANCES_FROM = frozenset({GroupState.STABLE, GroupState.COMPLETING_REBALANCE, GroupState.EMPTY})


class Rebalances:
    """Starts and completes the rebalances of groups.

    A rebalance always ends: the join phase by its timeout, which expels dynamic members that have not joined, and the
    sync phase by its own, which expels members that have not synced and starts the next rebalance.

    The `builder` of every method receives the replies and records, and has the time. The reasons are for the broker's
    log."""

    __slots__ = ("_registry",)

    def __init__(self, registry: GroupRegistry) -> None:
        self._registry = registry

    def prepare_or_complete(self, group: ClassicGroup, reason: str, builder: ResultBuilder) -> None:
        """Start a rebalance; if the join phase of one is in progress, end it once all members have joined."""
        if group.state in _REBALANCES_FROM:
            self.prepare(group, reason, builder)
        else:
            self.try_complete(group, builder)

    def prepare(self, group: ClassicGroup, reason: str, builder: ResultBuilder) -> None:
        """Start a rebalance; without missing members its join phase ends at once.

        A group that was empty waits for the initial rebalance delay instead (KIP-134).
        """
        if group.state is GroupState.COMPLETING_REBALANCE:
            self.take_assignments_back(group, ErrorCode.REBALANCE_IN_PROGRESS, builder)
        group.pending_syncs = None
        self._registry.phases.clear(group)
        initial = group.state is GroupState.EMPTY
        logger.info(
            "group=%s generation=%d: preparing to rebalance in state %s: %s",
            group.group_id,
            group.generation_id,
            group.state.value,
            reason,
        )
        group.move(GroupTrigger.REBALANCE, builder.now_ms)
        if initial:
            delay_ms = self._initial_delay_ms(group)
            group.new_member_added = False
            group.initial_delay_ms = delay_ms
            group.initial_remaining_ms = max(group.rebalance_timeout_ms - delay_ms, 0)
            self._registry.phases.set(group, builder.now_ms + delay_ms)
        elif group.has_all_members_joined:
            self.complete(group, builder)
        else:
            self._registry.phases.set(group, builder.now_ms + group.rebalance_timeout_ms)

    def try_complete(self, group: ClassicGroup, builder: ResultBuilder) -> None:
        """End the join phase once all members have joined; the initial rebalance delay is not cut short."""
        if (
            group.state is GroupState.PREPARING_REBALANCE
            and not group.is_in_initial_rebalance
            and group.has_all_members_joined
        ):
            self.complete(group, builder)

    def complete(self, group: ClassicGroup, builder: ResultBuilder) -> None:
        """End the join phase: expel dynamic members that have not joined, and start the generation.

        If no member has joined, but static members exist, the phase starts again.
        """
        self._registry.phases.clear(group)
        absent = [m for m in group.members.values() if m.join is None and m.instance_id is None]
        for member in absent:
            logger.info(
                "group=%s member=%s generation=%d: expelled: did not rejoin in time",
                group.group_id,
                member.member_id,
                group.generation_id,
            )
            self.discard(group, member, builder)
        if group.members and not group.elect_joined_leader():
            logger.warning(
                "group=%s generation=%d: none of its %d static members has rejoined; still waiting",
                group.group_id,
                group.generation_id,
                len(group.members),
            )
            self._registry.phases.set(group, builder.now_ms + group.rebalance_timeout_ms)
            return
        group.begin_generation(builder.now_ms)
        if group.members:
            self._answer_joins(group, builder)
        else:
            self._write_empty(group, builder)

    def phase_ended(self, group: ClassicGroup, builder: ResultBuilder) -> None:
        """Handle the timeout of a group's join or sync phase."""
        if group.state is GroupState.PREPARING_REBALANCE:
            if group.is_in_initial_rebalance and self._extended(group, builder):
                return
            self.complete(group, builder)
        elif group.pending_syncs:
            missing = tuple(group.pending_syncs)
            for member_id in missing:
                self.discard(group, group.members[member_id], builder)
            self.prepare(group, f"no SyncGroup in time from {_names(missing)}", builder)

    def session_ended(self, session: Session, builder: ResultBuilder) -> None:
        """Expel a member whose session timed out, or drop an assigned member id that has not joined in time.

        Members with a parked request keep their session, unless they are new.
        """
        group = session.group
        if isinstance(session, PendingMember):
            self._registry.drop_pending(group, session.member_id)
            logger.info(
                "group=%s member=%s generation=%d: did not join with its member id in time",
                group.group_id,
                session.member_id,
                group.generation_id,
            )
            self._complete_if_joined(group, builder)
            return
        if session.deadline_ms != NEVER:
            return  # another session that expired just now completed the rebalance, which answered this join
        if not session.is_new and (session.join is not None or session.sync is not None):
            return  # it waits for a response, which restarts its session
        logger.info(
            "group=%s member=%s generation=%d: expelled: its session timed out",
            group.group_id,
            session.member_id,
            group.generation_id,
        )
        self.discard(group, session, builder)
        if group.state is GroupState.PREPARING_REBALANCE:
            self._complete_if_joined(group, builder)
        else:
            self.prepare_or_complete(
                group, f"the session of {session.member_id} timed out", builder
            )

    def discard(self, group: ClassicGroup, member: GroupMember, builder: ResultBuilder) -> None:
        """Remove a member from its group, and answer its parked requests with UNKNOWN_MEMBER_ID."""
        self.answer_parked(group, member, ErrorCode.UNKNOWN_MEMBER_ID, builder)
        group.remove(member)

    def answer_parked(
        self, group: ClassicGroup, member: GroupMember, error: ErrorCode, builder: ResultBuilder
    ) -> None:
        """Answer the parked JoinGroup and SyncGroup of a member with an error."""
        join, sync = group.take_join(member), member.sync
        if join is not None:
            member_id = "" if error is ErrorCode.UNKNOWN_MEMBER_ID else member.member_id
            builder.reply(join.token, join_error(error, member_id, join.api_version))
        if sync is not None:
            member.sync = None
            builder.reply(sync.token, sync_error(error))

    def take_assignments_back(
        self, group: ClassicGroup, error: ErrorCode, builder: ResultBuilder
    ) -> None:
        """Clear all assignments of a group, and answer all parked SyncGroups with an error."""
        for member in group.members.values():
            member.assignment = b""
            sync = member.sync
            if sync is not None:
                member.sync = None
                self._registry.renew_session(member, builder.now_ms)
                builder.reply(sync.token, sync_error(error))

    def _complete_if_joined(self, group: ClassicGroup, builder: ResultBuilder) -> None:
        # unlike a join, an expiry after which all members have joined also ends the initial phase
        if group.state is GroupState.PREPARING_REBALANCE and group.has_all_members_joined:
            self.complete(group, builder)

    def _extended(self, group: ClassicGroup, builder: ResultBuilder) -> bool:
        """Extend the initial delay if members joined during it."""
        if not group.new_member_added or group.initial_remaining_ms == 0:
            return False
        delay_ms = min(self._initial_delay_ms(group), group.initial_remaining_ms)
        if delay_ms == 0:
            return False  # already due: complete it now
        group.new_member_added = False
        group.initial_remaining_ms = max(group.initial_remaining_ms - group.initial_delay_ms, 0)
        group.initial_delay_ms = delay_ms
        self._registry.phases.set(group, builder.now_ms + delay_ms)
        return True

    def _initial_delay_ms(self, group: ClassicGroup) -> int:
        delay_ms = self._registry.config.group_initial_rebalance_delay_ms
        return delay_ms or (self._registry.config.gather_ms if group.pending_joins else 0)

    def _answer_joins(self, group: ClassicGroup, builder: ResultBuilder) -> None:
        logger.info(
            "group=%s generation=%d: begins with %d members, leader %s, protocol %s",
            group.group_id,
            group.generation_id,
            len(group.members),
            group.leader_id,
            group.protocol_name,
        )
        for member in group.members.values():
            join = group.take_join(member)
            if join is not None:
                builder.reply(
                    join.token,
                    join_answer(
                        group,
                        member.member_id,
                        join.api_version,
                        members=member.member_id == group.leader_id,
                    ),
                )
            self._registry.renew_session(member, builder.now_ms)
            member.is_new = False
        group.pending_syncs = set(group.members)
        self._registry.phases.set(group, builder.now_ms + group.rebalance_timeout_ms)

    def _write_empty(self, group: ClassicGroup, builder: ResultBuilder) -> None:
        logger.info("group=%s generation=%d: now empty", group.group_id, group.generation_id)
        builder.write(group_metadata(group.group_id, group.with_assignments({}, builder.now_ms)))

        def failed(_: ResultBuilder, error: ErrorCode) -> None:
            # the last generation in the log still has the members: after a restart, their sessions must expire again
            logger.warning(
                "group=%s generation=%d: writing its empty state failed: %s",
                group.group_id,
                group.generation_id,
                error.name,
            )

        builder.if_failed(failed)


def _names(member_ids: Iterable[str]) -> str:
    return ", ".join(sorted(member_ids))
