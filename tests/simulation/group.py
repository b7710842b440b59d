"""Model how Kafka's coordinator takes a classic group from one generation to the next."""

from collections.abc import Callable
from dataclasses import dataclass, replace
from enum import Enum
from typing import Protocol

from groupsdk.error_code import ErrorCode
from groupsdk.wire.messages.heartbeat import HeartbeatRequest
from groupsdk.wire.messages.join_group import (
    JoinGroupRequest,
    JoinGroupResponse,
    JoinGroupResponseMember,
)
from groupsdk.wire.messages.leave_group import (
    LeaveGroupRequest,
)
from groupsdk.wire.messages.sync_group import SyncGroupRequest, SyncGroupResponse
from groupsdk.wire.schema import Response
from tests.simulation.timeline import Timeline, Timer


NEW_MEMBER_TIMEOUT_MS = 300_000
GroupRequest = JoinGroupRequest | SyncGroupRequest | HeartbeatRequest | LeaveGroupRequest
Reply = Callable[[Response], None]
Offer = tuple[tuple[str, bytes], ...]


class GroupState(Enum):
    EMPTY = "Empty"
    PREPARING = "PreparingRebalance"
    COMPLETING = "CompletingRebalance"
    STABLE = "Stable"


@dataclass(frozen=True)
class StoredMember:
    member_id: str
    instance_id: str | None
    session_ms: int
    rebalance_ms: int
    offer: Offer
    assignment: bytes


@dataclass(frozen=True)
class Stored:
    """What the log holds of a group: written when the leader syncs, when a static member is replaced and
    when the group empties; nothing else outlives a coordinator."""

    generation: int = 0
    protocol_type: str = ""
    protocol_name: str | None = None
    leader_id: str | None = None
    members: tuple[StoredMember, ...] = ()


class GroupObserver(Protocol):
    """Is told what members cannot see."""

    def written(self, stored: Stored) -> None: ...

    def expelled(self, member_id: str, why: str) -> None: ...


@dataclass
class Member:
    stored: StoredMember
    is_new: bool = True
    parked_join: Reply | None = None
    parked_sync: Reply | None = None
    timer: Timer | None = None


class Rebalancing:
    """The members of one group at its coordinator, and how they get from one generation to the next."""

    def __init__(
        self,
        timeline: Timeline,
        stored: Stored,
        observer: GroupObserver,
        new_id: Callable[[str], str],
        initial_delay_ms: int,
    ) -> None:
        self.generation = stored.generation
        self.protocol_type = stored.protocol_type
        self.protocol_name = stored.protocol_name
        self.leader_id = stored.leader_id
        self.members = {each.member_id: Member(each, is_new=False) for each in stored.members}
        self.state = GroupState.STABLE if self.members else GroupState.EMPTY
        self._timeline = timeline
        self._observer = observer
        self._new_id = new_id
        self._initial_delay_ms = initial_delay_ms
        self._initial = False
        self._pending: dict[str, Timer] = {}
        self._unsynced: set[str] = set()
        self._join_timer: Timer | None = None
        self._sync_timer: Timer | None = None
        for member_id in self.members:
            self._touch(member_id)

    def _joined(self, member_id: str) -> JoinGroupResponse:
        name = self.protocol_name or ""
        shown = self.members.values() if member_id == self.leader_id else ()
        return JoinGroupResponse(
            generation_id=self.generation,
            protocol_type=self.protocol_type,
            protocol_name=name,
            leader=self.leader_id or "",
            member_id=member_id,
            members=tuple(
                JoinGroupResponseMember(
                    member_id=each.stored.member_id,
                    group_instance_id=each.stored.instance_id,
                    metadata=dict(each.stored.offer)[name],
                )
                for each in shown
            ),
        )

    def _answer_sync(self, member_id: str, error: ErrorCode) -> None:
        member = self.members[member_id]
        reply, member.parked_sync = member.parked_sync, None
        if reply is not None:
            self._touch(member_id)
            reply(
                SyncGroupResponse(error_code=error)
                if error
                else SyncGroupResponse(
                    protocol_type=self.protocol_type,
                    protocol_name=self.protocol_name,
                    assignment=member.stored.assignment,
                )
            )

    def unload(self, *, answer: bool) -> None:
        """Stop being the coordinator: timers end, and what is parked is answered or never will be."""
        timers = [*self._pending.values(), self._join_timer, self._sync_timer]
        for timer in (*timers, *(member.timer for member in self.members.values())):
            if timer is not None:
                timer.cancel()
        for member in self.members.values():
            join, sync = member.parked_join, member.parked_sync
            member.parked_join = member.parked_sync = None
            if answer and join is not None:
                join(join_error(ErrorCode.NOT_COORDINATOR, ""))
            if answer and sync is not None:
                sync(SyncGroupResponse(error_code=ErrorCode.NOT_COORDINATOR))

    # The rebalance.

    def _prepare(self) -> None:
        if self.state is GroupState.COMPLETING:
            for member_id, member in self.members.items():
                member.stored = replace(member.stored, assignment=b"")
                self._answer_sync(member_id, ErrorCode.REBALANCE_IN_PROGRESS)
        self._unsynced.clear()
        self._cancel_timers()
        self._initial = self.state is GroupState.EMPTY
        self.state = GroupState.PREPARING
        if self._initial:
            self._join_timer = self._timeline.after(self._initial_delay_ms, self._complete)
            return
        self._join_timer = self._timeline.after(self._rebalance_ms, self._complete)
        self._try_complete()

    @property
    def _rebalance_ms(self) -> int:
        return max((each.stored.rebalance_ms for each in self.members.values()), default=0)

    def _cancel_timers(self) -> None:
        for timer in (self._join_timer, self._sync_timer):
            if timer is not None:
                timer.cancel()
        self._join_timer = self._sync_timer = None

    def _try_complete(self) -> None:
        if self.state is not GroupState.PREPARING or self._initial or self._pending:
            return
        if all(member.parked_join is not None for member in self.members.values()):
            self._complete()

    def _complete(self) -> None:
        self._cancel_timers()
        self._initial = False
        for member_id, member in list(self.members.items()):
            if member.parked_join is None and member.stored.instance_id is None:
                self._remove(member_id, "did not rejoin")
        joining = [i for i, member in self.members.items() if member.parked_join is not None]
        if self.members and not joining:
            self._join_timer = self._timeline.after(self._rebalance_ms, self._complete)
            return
        self.generation += 1
        if not self.members:
            self.protocol_name, self.leader_id, self.state = None, None, GroupState.EMPTY
            self._write()
            return
        if self.leader_id not in joining:
            self.leader_id = joining[0]
        offers = [dict(member.stored.offer) for member in self.members.values()]
        self.protocol_name = next(name for name in offers[0] if all(name in o for o in offers))
        self.state = GroupState.COMPLETING
        self._unsynced = set(self.members)
        self._sync_timer = self._timeline.after(self._rebalance_ms, self._sync_expired)
        for member_id, member in list(self.members.items()):
            reply, member.parked_join, member.is_new = member.parked_join, None, False
            self._touch(member_id)
            if reply is not None:
                reply(self._joined(member_id))

    def _sync_expired(self) -> None:
        for member_id in list(self._unsynced):
            self._remove(member_id, "did not sync")
        self._prepare()

    # Members that go.

    def _touch(self, member_id: str) -> None:
        member = self.members[member_id]
        if member.timer is not None:
            member.timer.cancel()
        timeout_ms = member.stored.session_ms
        if member.is_new and member.parked_join is not None:
            timeout_ms = NEW_MEMBER_TIMEOUT_MS
        member.timer = self._timeline.after(timeout_ms, lambda: self._expire(member_id))

    def _expire(self, member_id: str) -> None:
        member = self.members[member_id]
        parked = member.parked_join is not None or member.parked_sync is not None
        if parked and not member.is_new:
            return
        self._remove(member_id, "session expired")
        self._after_removal()

    def _drop_pending(self, member_id: str) -> None:
        del self._pending[member_id]
        self._try_complete()

    def _remove(self, member_id: str, why: str) -> None:
        member = self.members.pop(member_id)
        if member.timer is not None:
            member.timer.cancel()
        if member.parked_join is not None:
            member.parked_join(join_error(ErrorCode.UNKNOWN_MEMBER_ID, ""))
        if member.parked_sync is not None:
            member.parked_sync(SyncGroupResponse(error_code=ErrorCode.UNKNOWN_MEMBER_ID))
        self._unsynced.discard(member_id)
        if self.leader_id == member_id:
            self.leader_id = next(iter(self.members), None)
        self._observer.expelled(member_id, why)

    def _after_removal(self) -> None:
        if self.state in (GroupState.STABLE, GroupState.COMPLETING):
            self._prepare()
        elif self.state is GroupState.PREPARING:
            self._try_complete()

    def _write(self) -> None:
        name = self.protocol_name
        self._observer.written(
            Stored(
                self.generation,
                self.protocol_type,
                name,
                self.leader_id,
                tuple(
                    replace(m.stored, offer=tuple(o for o in m.stored.offer if o[0] == name))
                    for m in self.members.values()
                ),
            )
        )


def join_error(error: ErrorCode, member_id: str) -> JoinGroupResponse:
    return JoinGroupResponse(error_code=error, member_id=member_id, protocol_name=None)
