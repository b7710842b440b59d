"""One group of a scripted broker: two-step join, sync, generations. No timers: nobody is ever expelled.

Beside `instant_group`, as a broker over TCP serves several members at once, and so has to park their requests.
"""

import asyncio
import itertools
from typing import Final

from groupsdk.wire.messages.groups import (
    JoinGroupRequest,
    JoinGroupResponse,
    JoinGroupResponseMember,
    SyncGroupRequest,
    SyncGroupResponse,
)


_UNKNOWN_MEMBER: Final = 25


class ScriptedGroup:
    """One group, without timers; where it is `alone`, every member that joins replaces the others."""

    def __init__(self, *, alone: bool = False) -> None:
        self.generation = 0
        self._alone = alone
        self.members: dict[str, JoinGroupRequest] = {}
        self.joining: dict[str, asyncio.Future[JoinGroupResponse]] = {}
        self.syncing: dict[str, asyncio.Future[SyncGroupResponse]] = {}
        self.assignments: dict[str, bytes] | None = None
        self._ids = itertools.count(1)

    def join(self, request: JoinGroupRequest, version: int) -> "asyncio.Future[JoinGroupResponse]":
        future: asyncio.Future[JoinGroupResponse] = asyncio.get_running_loop().create_future()
        member_id = request.member_id or f"member-{next(self._ids)}"
        if not request.member_id and version >= 4 and request.group_instance_id is None:
            future.set_result(JoinGroupResponse(error_code=79, member_id=member_id))
            return future
        if self._alone:
            self.members.clear()
            self.joining.clear()
        self.members[member_id] = request
        self.joining[member_id] = future
        self.assignments = None
        for waiting in self.syncing.values():
            waiting.set_result(SyncGroupResponse(error_code=27))
        self.syncing.clear()
        self._complete_join()
        return future

    def _complete_join(self) -> None:
        if not self.joining or set(self.joining) != set(self.members):
            return
        self.generation += 1
        leader = next(iter(self.members))
        everyone = tuple(
            JoinGroupResponseMember(member_id=each, metadata=request.protocols[0].metadata)
            for each, request in self.members.items()
        )
        joining, self.joining = self.joining, {}
        for member_id, future in joining.items():
            request = self.members[member_id]
            if future.done():
                continue
            future.set_result(
                JoinGroupResponse(
                    generation_id=self.generation,
                    protocol_type=request.protocol_type,
                    protocol_name=request.protocols[0].name,
                    leader=leader,
                    member_id=member_id,
                    members=everyone if member_id == leader else (),
                )
            )

    def sync(self, request: SyncGroupRequest) -> "asyncio.Future[SyncGroupResponse]":
        future: asyncio.Future[SyncGroupResponse] = asyncio.get_running_loop().create_future()
        code = self.check(request.member_id, request.generation_id)
        if code:
            future.set_result(SyncGroupResponse(error_code=code))
            return future
        self.syncing[request.member_id] = future
        if request.member_id == next(iter(self.members)):
            self.assignments = {each.member_id: each.assignment for each in request.assignments}
        if self.assignments is not None:
            for member_id, waiting in self.syncing.items():
                if not waiting.done():
                    assignment = self.assignments.get(member_id, b"")
                    waiting.set_result(SyncGroupResponse(assignment=assignment))
            self.syncing.clear()
        return future

    def check(self, member_id: str, generation: int) -> int:
        if member_id not in self.members:
            return _UNKNOWN_MEMBER
        if generation != self.generation:
            return 22
        return 27 if self.joining else 0

    def remove(self, member_id: str) -> int:
        if self.members.pop(member_id, None) is None:
            return _UNKNOWN_MEMBER
        self.joining.pop(member_id, None)
        self._complete_join()
        return 0
