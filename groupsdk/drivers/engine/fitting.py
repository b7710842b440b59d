"""Fit a member's requests to the versions that a broker has, and say what a broker lacks."""

import asyncio
from dataclasses import replace
from typing import Any, Final

from groupsdk.drivers.engine.connection import Connection
from groupsdk.errors import UnsupportedVersionError
from groupsdk.membership.requests import CoordinatorRequest, MembershipRequest
from groupsdk.wire.messages.find_coordinator import FindCoordinatorRequest
from groupsdk.wire.messages.heartbeat import HeartbeatRequest
from groupsdk.wire.messages.join_group import JoinGroupRequest
from groupsdk.wire.messages.leave_group import LeaveGroupRequest
from groupsdk.wire.messages.metadata import MetadataRequest
from groupsdk.wire.messages.offset_fetch import OffsetFetchRequest, OffsetFetchRequestTopic
from groupsdk.wire.messages.sync_group import SyncGroupRequest
from groupsdk.wire.schema import Request, field_versions


_NEEDED: Final[tuple[type[Request[Any]], ...]] = (
    FindCoordinatorRequest,
    JoinGroupRequest,
    SyncGroupRequest,
    HeartbeatRequest,
    LeaveGroupRequest,
)


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


def fit(
    connection: Connection, request: MembershipRequest | CoordinatorRequest
) -> "asyncio.Future[Any]":
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
    if isinstance(request, LeaveGroupRequest) and version not in field_versions(
        LeaveGroupRequest, "members"
    ):
        request = replace(request, member_id=request.members[0].member_id, members=())
    elif isinstance(request, OffsetFetchRequest):
        request = _offset_fetch_in(version, request)
    elif isinstance(request, MetadataRequest) and version not in field_versions(
        MetadataRequest, "allow_auto_topic_creation"
    ):
        request = replace(request, allow_auto_topic_creation=True)  # which cannot be refused there
    return connection.request(request, version)


def _offset_fetch_in(version: int, request: OffsetFetchRequest) -> OffsetFetchRequest:
    """Return the request in the shape of a version: before 8 there is one group in it (KIP-709).

    Before 7 the broker cannot say that an offset is still part of an open transaction (KIP-447): it tells the
    one before.
    """
    if version not in field_versions(OffsetFetchRequest, "require_stable"):
        request = replace(request, require_stable=False)
    if version in field_versions(OffsetFetchRequest, "groups"):
        return request
    (group,) = request.groups
    topics = None
    if group.topics is not None:
        topics = tuple(
            OffsetFetchRequestTopic(name=each.name, partition_indexes=each.partition_indexes)
            for each in group.topics
        )
    return replace(request, group_id=group.group_id, topics=topics, groups=())


def _min_version(request: type[Request[Any]], *, static: bool) -> int | None:
    """Return the version from which on a request carries what a static member must say (KIP-345)."""
    if not static or not hasattr(request, "group_instance_id"):
        return None
    return field_versions(request, "group_instance_id").first
