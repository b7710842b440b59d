"""Model how Kafka's coordinator answers the members of a classic group."""

from dataclasses import replace

from groupsdk.error_code import ErrorCode
from groupsdk.wire.messages.heartbeat import HeartbeatRequest, HeartbeatResponse
from groupsdk.wire.messages.join_group import (
    JoinGroupRequest,
)
from groupsdk.wire.messages.leave_group import (
    LeaveGroupRequest,
    LeaveGroupResponse,
    MemberResponse,
)
from groupsdk.wire.messages.sync_group import SyncGroupRequest, SyncGroupResponse
from tests.simulation.group import (
    GroupState,
    Member,
    Offer,
    Rebalancing,
    Reply,
    StoredMember,
    join_error,
)


GroupRequest = JoinGroupRequest | SyncGroupRequest | HeartbeatRequest | LeaveGroupRequest


class GroupModel(Rebalancing):
    """One group at its coordinator: enough of it for members to live under.

    Left out: several protocols' votes beyond the first common one, the extension of the initial delay,
    capacity, and time for the log to commit.
    """

    # Requests.

    def handle(self, request: GroupRequest, reply: Reply) -> None:
        match request:
            case JoinGroupRequest():
                self._join(request, reply)
            case SyncGroupRequest():
                self._sync(request, reply)
            case HeartbeatRequest():
                reply(HeartbeatResponse(error_code=self._heartbeat(request)))
            case LeaveGroupRequest():
                self._leave(request, reply)

    def accepts_commit(self, member_id: str, generation: int) -> bool:
        """Tell whether a write fenced by this generation is accepted."""
        return (
            member_id in self.members
            and generation == self.generation
            and self.state is not GroupState.COMPLETING
        )

    def _validate(self, member_id: str, instance_id: str | None) -> ErrorCode:
        if instance_id is not None:
            mapped = self._static(instance_id)
            if mapped is None:
                return ErrorCode.UNKNOWN_MEMBER_ID
            if mapped != member_id:
                return ErrorCode.FENCED_INSTANCE_ID
        return ErrorCode.NONE if member_id in self.members else ErrorCode.UNKNOWN_MEMBER_ID

    def _static(self, instance_id: str) -> str | None:
        return next(
            (i for i, m in self.members.items() if m.stored.instance_id == instance_id), None
        )

    # JoinGroup.

    def _join(self, request: JoinGroupRequest, reply: Reply) -> None:
        member_id, instance_id = request.member_id, request.group_instance_id
        if not self._supports(request):
            reply(join_error(ErrorCode.INCONSISTENT_GROUP_PROTOCOL, member_id))
        elif not member_id and instance_id is None:
            given = self._new_id("member")
            self._pending[given] = self._timeline.after(
                request.session_timeout_ms, lambda: self._drop_pending(given)
            )
            reply(join_error(ErrorCode.MEMBER_ID_REQUIRED, given))
        elif not member_id:
            old = self._static(instance_id or "")
            if old is None:
                self._add(self._new_id(instance_id or ""), request, reply)
            else:
                self._replace(old, request, reply)
        elif member_id in self._pending:
            self._pending.pop(member_id).cancel()
            self._add(member_id, request, reply)
        elif error := self._validate(member_id, instance_id):
            reply(join_error(error, member_id))
        else:
            self._rejoin(member_id, request, reply)

    def _supports(self, request: JoinGroupRequest) -> bool:
        if self.state is GroupState.EMPTY:
            return bool(request.protocol_type and request.protocols)
        offered = {each.name for each in request.protocols}
        return request.protocol_type == self.protocol_type and any(
            all(name in dict(member.stored.offer) for member in self.members.values())
            for name in offered
        )

    def _rejoin(self, member_id: str, request: JoinGroupRequest, reply: Reply) -> None:
        member = self.members[member_id]
        unchanged = member.stored.offer == _offer(request)
        current = self.state is GroupState.COMPLETING or (
            self.state is GroupState.STABLE and member_id != self.leader_id
        )
        if self.state is not GroupState.PREPARING and current and unchanged:
            reply(self._joined(member_id))
            return
        self._park(member_id, request, reply)
        if self.state is GroupState.PREPARING:
            self._try_complete()
        else:
            self._prepare()

    def _park(self, member_id: str, request: JoinGroupRequest, reply: Reply) -> None:
        member = self.members[member_id]
        member.stored = replace(
            member.stored,
            offer=_offer(request),
            session_ms=request.session_timeout_ms,
            rebalance_ms=request.rebalance_timeout_ms,
        )
        member.parked_join = reply

    def _add(self, member_id: str, request: JoinGroupRequest, reply: Reply) -> None:
        if self.state is GroupState.EMPTY:
            self.protocol_type = request.protocol_type
        self.members[member_id] = Member(
            StoredMember(
                member_id,
                request.group_instance_id,
                request.session_timeout_ms,
                request.rebalance_timeout_ms,
                _offer(request),
                b"",
            ),
            parked_join=reply,
        )
        self.leader_id = self.leader_id or member_id
        self._touch(member_id)
        if self.state is GroupState.PREPARING:
            self._try_complete()
        else:
            self._prepare()

    def _replace(self, old: str, request: JoinGroupRequest, reply: Reply) -> None:
        """Take a static member that comes back under a new id in the place of the old one."""
        member = self.members.pop(old)
        if member.parked_join is not None:
            member.parked_join(join_error(ErrorCode.FENCED_INSTANCE_ID, old))
        if member.parked_sync is not None:
            member.parked_sync(SyncGroupResponse(error_code=ErrorCode.FENCED_INSTANCE_ID))
        if member.timer is not None:
            member.timer.cancel()
        new = self._new_id(request.group_instance_id or "")
        self._unsynced = {new if each == old else each for each in self._unsynced}
        self.members[new] = Member(replace(member.stored, member_id=new), is_new=member.is_new)
        if self.leader_id == old:
            self.leader_id = new
        self._park(new, request, reply)
        self._touch(new)
        if self.state is GroupState.STABLE:
            self.members[new].parked_join = None
            self._write()
            reply(replace(self._joined(new), skip_assignment=self.leader_id == new))
        elif self.state is GroupState.COMPLETING:
            self._prepare()
        else:
            self._try_complete()

    # SyncGroup, Heartbeat, LeaveGroup.

    def _sync(self, request: SyncGroupRequest, reply: Reply) -> None:
        member_id = request.member_id
        error = self._validate(member_id, request.group_instance_id)
        if not error and request.generation_id != self.generation:
            error = ErrorCode.ILLEGAL_GENERATION
        if not error and self.state is GroupState.PREPARING:
            error = ErrorCode.REBALANCE_IN_PROGRESS
        if error:
            reply(SyncGroupResponse(error_code=error))
            return
        self.members[member_id].parked_sync = reply
        self._unsynced.discard(member_id)
        if self.state is GroupState.COMPLETING and member_id == self.leader_id:
            plan = {each.member_id: each.assignment for each in request.assignments}
            for each, member in self.members.items():
                member.stored = replace(member.stored, assignment=plan.get(each, b""))
            self.state = GroupState.STABLE
            self._write()
        if self.state is GroupState.STABLE:
            for each in self.members:
                self._answer_sync(each, ErrorCode.NONE)
            if not self._unsynced and self._sync_timer is not None:
                self._sync_timer.cancel()

    def _heartbeat(self, request: HeartbeatRequest) -> ErrorCode:
        error = self._validate(request.member_id, request.group_instance_id)
        if error:
            return error
        if request.generation_id != self.generation:
            return ErrorCode.ILLEGAL_GENERATION
        self._touch(request.member_id)
        rebalancing = self.state is GroupState.PREPARING
        return ErrorCode.REBALANCE_IN_PROGRESS if rebalancing else ErrorCode.NONE

    def _leave(self, request: LeaveGroupRequest, reply: Reply) -> None:
        answers, gone = [], False
        for each in request.members:
            error = ErrorCode.NONE
            if each.member_id in self._pending:
                self._pending.pop(each.member_id).cancel()
            else:
                error = self._validate(each.member_id, each.group_instance_id)
                if not error:
                    self._remove(each.member_id, "left")
            gone = gone or not error
            answers.append(MemberResponse(member_id=each.member_id, error_code=error))
        reply(LeaveGroupResponse(members=tuple(answers)))
        if gone:
            self._after_removal()


def _offer(request: JoinGroupRequest) -> Offer:
    return tuple((each.name, each.metadata) for each in request.protocols)
