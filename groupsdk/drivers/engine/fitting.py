"""Fit a member's requests to the versions that a broker has, and say what a broker lacks."""

import asyncio
from dataclasses import replace
from typing import Any, Final

from groupsdk.drivers.engine.connection import Connection
from groupsdk.errors import UnsupportedVersionError
from groupsdk.membership.requests import MembershipRequest
from groupsdk.wire.messages.find_coordinator import FindCoordinatorRequest
from groupsdk.wire.messages.heartbeat import HeartbeatRequest
from groupsdk.wire.messages.join_group import JoinGroupRequest
from groupsdk.wire.messages.leave_group import LeaveGroupRequest
from groupsdk.wire.messages.sync_group import SyncGroupRequest
from groupsdk.wire.schema import Request


_STATIC_SINCE: Final[dict[type[Request[Any]], int]] = {
    JoinGroupRequest: 5,
    SyncGroupRequest: 3,
    HeartbeatRequest: 3,
}
"""The versions from which on these carry group.instance.id (KIP-345)."""

_NEEDED: Final[tuple[type[Request[Any]], ...]] = (
    FindCoordinatorRequest,
    JoinGroupRequest,
    SyncGroupRequest,
    HeartbeatRequest,
    LeaveGroupRequest,
)
_LEAVE_BATCHED_SINCE: Final = 3  # LeaveGroup names several members from v3 on


def check_versions(connection: Connection, *, static: bool) -> None:
    """Check that the broker has all that a member needs, before anything is asked of it.

    Raises:
        UnsupportedVersionError: it lacks something; names all of it.
    """
    lacking: list[str] = []
    for request in _NEEDED:
        try:
            connection.versions.negotiate(request, min_version=_min_version(request, static=static))
        except UnsupportedVersionError as error:
            lacking.append(str(error))
    if lacking:
        raise UnsupportedVersionError(
            f"{connection.host}:{connection.port} cannot serve a group member"
            f"{' with a group.instance.id' if static else ''}: {'; '.join(lacking)}"
        )


def fit(connection: Connection, request: MembershipRequest) -> "asyncio.Future[Any]":
    """Send a request in the newest version that both sides have, in the shape of that version.

    Raises:
        UnsupportedVersionError: the broker is too old for the request.
        EncodeError: the version cannot carry it.
        NetworkError: the connection has ended.
    """
    static = getattr(request, "group_instance_id", None) is not None
    version = connection.versions.negotiate(
        type(request), min_version=_min_version(type(request), static=static)
    )
    if isinstance(request, LeaveGroupRequest) and version < _LEAVE_BATCHED_SINCE:
        request = replace(request, member_id=request.members[0].member_id, members=())
    return connection.request(request, version)


def _min_version(request: type[Request[Any]], *, static: bool) -> int | None:
    return _STATIC_SINCE.get(request) if static else None
