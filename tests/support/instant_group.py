"""A group of one member, whose coordinator answers at once; for fake hosts of members.

Beside `scripted_group`, as hosts in virtual time have no event loop in which a request could be parked.
"""

from collections.abc import Mapping

from groupsdk.wire.messages.groups import (
    HeartbeatRequest,
    HeartbeatResponse,
    JoinGroupRequest,
    JoinGroupResponse,
    JoinGroupResponseMember,
    LeaveGroupRequest,
    LeaveGroupResponse,
    SyncGroupRequest,
    SyncGroupResponse,
)
from groupsdk.wire.schema import Response


class InstantGroup:
    """Makes its only member the leader, and gives it what it planned for itself.

    Args:
        assignment: what the member gets if it planned nothing for itself.
    """

    def __init__(self, member_id: str, assignment: bytes = b"") -> None:
        self.generation = 0
        self.given: Mapping[str, bytes] | None = None
        """What the member is assigned, in place of what it planned."""
        self.broker_assigns = False
        """Whether the group has members of KIP-848: no leader, and a generation that stays."""
        self._member_id = member_id
        self._assignment = assignment

    def answer(self, request: object, code: int = 0) -> Response:
        """Return the coordinator's response to a request of the membership; `code` is its error code."""
        match request:
            case JoinGroupRequest():
                return self._joined(request, code)
            case SyncGroupRequest():
                planned = {each.member_id: each.assignment for each in request.assignments}
                given = planned if self.given is None else self.given
                return SyncGroupResponse(
                    error_code=code,
                    protocol_type=request.protocol_type,
                    protocol_name=request.protocol_name,
                    assignment=given.get(self._member_id, b"") or self._assignment,
                )
            case HeartbeatRequest():
                return HeartbeatResponse(error_code=code)
            case LeaveGroupRequest():
                return LeaveGroupResponse(error_code=code)
            case _:
                raise AssertionError(request)

    def _joined(self, request: JoinGroupRequest, code: int) -> JoinGroupResponse:
        if code:
            return JoinGroupResponse(error_code=code, protocol_name=None, member_id=self._member_id)
        self.generation += not (self.broker_assigns and self.generation)
        offered = request.protocols[0]
        member = JoinGroupResponseMember(self._member_id, None, offered.metadata)
        return JoinGroupResponse(
            generation_id=self.generation,
            protocol_type=request.protocol_type,
            protocol_name=offered.name,
            leader="" if self.broker_assigns else self._member_id,
            member_id=self._member_id,
            members=() if self.broker_assigns else (member,),
        )
