"""Ask a real broker how it sees a group, with our own messages over one blocking connection."""

import socket
import struct
from dataclasses import dataclass
from typing import Final, TypeVar

from groupsdk.error_code import ErrorCode
from groupsdk.wire.api import decode_response, encode_request
from groupsdk.wire.messages.groups import DescribedGroup, DescribeGroupsRequest
from groupsdk.wire.schema import Request, Response
from tests.support.workers import eventually


R = TypeVar("R", bound=Response)


_TIMEOUT_S: Final = 60.0
_MAX_ANSWER: Final = 1 << 22
_VERSION: Final = 5
_LATER: Final = frozenset(
    {
        ErrorCode.COORDINATOR_LOAD_IN_PROGRESS,
        ErrorCode.COORDINATOR_NOT_AVAILABLE,
        ErrorCode.NOT_COORDINATOR,
    }
)


@dataclass(frozen=True, slots=True)
class GroupSeen:
    """A group as its coordinator describes it; "Dead" where there is none."""

    state: str
    protocol_type: str
    protocol_name: str
    assignments: dict[str, bytes]
    """Member id to assignment."""
    instance_ids: dict[str, str]
    """Member id to group.instance.id, of static members."""

    @property
    def member_ids(self) -> set[str]:
        return set(self.assignments)


def describe_group(address: str, group_id: str) -> GroupSeen:
    """Return how the broker at `address` (host:port, PLAINTEXT), which has to be the coordinator, sees a group.

    While it is not, or loads the group, it is asked again: a broker that was halted for seconds may load it again.
    """

    def ask() -> DescribedGroup | None:
        response = request_once(address, DescribeGroupsRequest(groups=(group_id,)), _VERSION)
        (group,) = response.groups
        assert isinstance(group, DescribedGroup)
        return None if group.error_code in _LATER else group

    group = eventually(ask, f"{address} does not coordinate {group_id!r}")
    assert group.error_code == 0, f"DescribeGroups of {group_id!r}: error {group.error_code}"
    return GroupSeen(
        state=group.group_state,
        protocol_type=group.protocol_type,
        protocol_name=group.protocol_data,
        assignments={member.member_id: member.member_assignment for member in group.members},
        instance_ids={
            member.member_id: member.group_instance_id
            for member in group.members
            if member.group_instance_id is not None
        },
    )


def request_once(address: str, request: Request[R], version: int) -> R:
    """Return a broker's answer to one request, sent over a connection of its own without security."""
    host, _, port = address.rpartition(":")
    with socket.create_connection((host, int(port)), timeout=_TIMEOUT_S) as sock:
        sock.sendall(encode_request(request, version, 1, "test"))
        (size,) = struct.unpack(">i", _receive(sock, 4))
        assert 0 <= size <= _MAX_ANSWER
        _, response = decode_response(type(request), version, _receive(sock, size))
    return response


def _receive(sock: socket.socket, size: int) -> bytes:
    data = bytearray()
    while len(data) < size:
        chunk = sock.recv(size - len(data))
        if not chunk:
            raise ConnectionResetError("the broker closed the connection")
        data += chunk
    return bytes(data)
