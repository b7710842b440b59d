"""Fit a member's requests to the versions that a broker has."""

import asyncio
from dataclasses import replace
from typing import Any

from groupsdk.drivers.engine.connection import Connection
from groupsdk.membership.actions import MembershipRequest
from groupsdk.wire.messages.join_group import JoinGroupRequest
from groupsdk.wire.messages.leave_group import LeaveGroupRequest


_STATIC_SINCE = 5  # JoinGroup carries group.instance.id from v5 on (KIP-345)
_LEAVE_BATCHED_SINCE = 3  # LeaveGroup names several members from v3 on


def fit(connection: Connection, request: MembershipRequest) -> "asyncio.Future[Any]":
    """Send a request in the newest version that both sides have, in the shape of that version.

    Raises:
        UnsupportedVersionError: the broker is too old for the request.
        EncodeError: the version cannot carry it.
        NetworkError: the connection has ended.
    """
    if isinstance(request, JoinGroupRequest) and request.group_instance_id is not None:
        version = connection.versions.negotiate(JoinGroupRequest, min_version=_STATIC_SINCE)
        return connection.request(request, version)
    version = connection.versions.negotiate(type(request))
    if isinstance(request, LeaveGroupRequest) and version < _LEAVE_BATCHED_SINCE:
        request = replace(request, member_id=request.members[0].member_id, members=())
    return connection.request(request, version)
