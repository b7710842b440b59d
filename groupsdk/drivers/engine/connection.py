"""One connection to one broker: sends requests and receives responses in the versions that the broker supports."""

import asyncio
import logging
from collections import deque
from collections.abc import Mapping
from dataclasses import replace
from typing import Any, Final, NamedTuple, TypeVar, cast

from groupsdk.errors import (
    DecodeError,
    DisconnectedError,
    GroupSdkError,
    UnsupportedVersionError,
    WireError,
)
from groupsdk.lazy_imports import override
from groupsdk.limits import MAX_INT32
from groupsdk.member.requests import CoordinatorRequest, MembershipRequest
from groupsdk.printable import address_text
from groupsdk.wire.api import (
    ApiVersionRanges,
    FrameDecoder,
    correlation_id_of,
    decode_response,
    encode_request,
)
from groupsdk.wire.messages.groups import (
    HeartbeatRequest,
    JoinGroupRequest,
    LeaveGroupRequest,
    SyncGroupRequest,
)
from groupsdk.wire.messages.metadata import FindCoordinatorRequest, MetadataRequest
from groupsdk.wire.messages.offsets import OffsetFetchRequest, OffsetFetchRequestTopic
from groupsdk.wire.schema import ApiKey, Request, Response, field_versions


logger = logging.getLogger(__name__)

R = TypeVar("R", bound=Response)

_MAX_CORRELATION_ID: Final = MAX_INT32

THROTTLED_SINCE: Final = {
    ApiKey.API_VERSIONS: 2,
    ApiKey.METADATA: 6,
    ApiKey.FIND_COORDINATOR: 2,
    ApiKey.JOIN_GROUP: 3,
    ApiKey.SYNC_GROUP: 2,
    ApiKey.HEARTBEAT: 2,
    ApiKey.LEAVE_GROUP: 2,
    ApiKey.OFFSET_COMMIT: 4,
    ApiKey.OFFSET_FETCH: 4,
}
"""The version from which on the client sends nothing during a response's throttle_time_ms (KIP-219).

Before these, the broker delays the response instead.
"""


_NEEDED: Final[tuple[type[Request[Any]], ...]] = (
    FindCoordinatorRequest,
    JoinGroupRequest,
    SyncGroupRequest,
    HeartbeatRequest,
    LeaveGroupRequest,
)


class _Pending(NamedTuple):
    correlation_id: int
    request_class: type[Request[Any]]
    version: int
    future: "asyncio.Future[Any]"


class Connection(asyncio.Protocol):
    """One connection: frames in, frames out, responses in the order of the requests.

    Belongs to one event loop. When it breaks, every request without a response fails with the same error.
    Memory is bounded: a length prefix over `max_frame_bytes` ends the connection, and nothing is set
    aside for bytes that have only been announced.
    """

    def __init__(
        self,
        host: str,
        port: int,
        client_id: str,
        max_frame_bytes: int,
        max_throttle_ms: int,
        registry: "set[Connection]",
    ) -> None:
        self.host = host
        self.port = port
        self.versions = ApiVersionRanges({})
        self.expires_at: float | None = None
        """When the broker wants new credentials (KIP-368), in the loop's seconds; None: never."""
        self._client_id = client_id
        self._registry = registry
        self._max_throttle_ms = max_throttle_ms
        self._frames = FrameDecoder(max_frame_bytes)
        self._pending: deque[_Pending] = deque()
        self._transport: asyncio.Transport | None = None
        self._last_id = 0
        self._error: GroupSdkError | None = None
        self._quiet_until = 0.0
        self._lost: asyncio.Future[None] | None = None

    @override
    def __repr__(self) -> str:
        return f"<Connection to {self.address}{' (closed)' if self._error else ''}>"

    @property
    def address(self) -> str:
        """Return host and port, as messages show them."""
        return address_text(self.host, self.port)

    @property
    def usable(self) -> bool:
        """Return whether requests can be sent."""
        return self._transport is not None and self._error is None

    @property
    def idle(self) -> bool:
        """Return whether no response is outstanding."""
        return not self._pending

    @property
    def throttled_s(self) -> float:
        """Return for how many seconds the broker throttles this connection (KIP-219)."""
        return max(0.0, self._quiet_until - asyncio.get_running_loop().time())

    @property
    def error(self) -> GroupSdkError | None:
        """Why the connection ended; None while it lives."""
        return self._error

    @property
    def certificate(self) -> Mapping[str, Any]:
        """The broker's certificate, in the form of `ssl.SSLSocket.getpeercert`; empty where none was checked."""
        certificate = self._transport and self._transport.get_extra_info("peercert")
        return certificate or {}

    def request(self, message: Request[R], version: int | None = None) -> "asyncio.Future[R]":
        """Send a request in a version, by default the latest of both sides, and return a future of its response."""
        if self._transport is None or self._error is not None:
            raise self._error or DisconnectedError(f"{self.address} is not connected")
        if version is None:
            version = self.versions.negotiate(type(message))
        self._last_id = (self._last_id + 1) & _MAX_CORRELATION_ID
        frame = encode_request(message, version, self._last_id, self._client_id)
        future: asyncio.Future[R] = asyncio.get_running_loop().create_future()
        self._pending.append(_Pending(self._last_id, type(message), version, future))
        self._transport.write(frame)
        return future

    def close(self, error: GroupSdkError | None = None) -> None:
        """Close the connection; requests without a response fail with `error`."""
        self._end(error or DisconnectedError(f"the connection to {self.address} was closed"))

    async def wait_closed(self) -> None:
        """Wait until the socket is closed, which is soon after `close`."""
        if self._lost is not None:
            await self._lost

    @override
    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._lost = asyncio.get_running_loop().create_future()
        self._registry.add(self)
        self._transport = cast("asyncio.Transport", transport)

    @override
    def data_received(self, data: bytes) -> None:
        if self._error is not None:
            return
        try:
            for payload in self._frames.feed(data):
                self._on_frame(payload)
        except WireError as error:
            self._end(type(error)(f"{self.address}: {error}"))

    @override
    def connection_lost(self, exc: Exception | None) -> None:
        why = f": {exc}" if exc is not None else ""
        error = DisconnectedError(f"the broker {self.address} closed the connection{why}")
        error.__cause__ = exc
        self._end(error)
        self._registry.discard(self)
        if self._lost is not None and not self._lost.done():
            self._lost.set_result(None)

    def _on_frame(self, payload: bytes) -> None:
        correlation_id = correlation_id_of(payload)
        if not self._pending or self._pending[0].correlation_id != correlation_id:
            expected = self._pending[0].correlation_id if self._pending else "none"
            raise DecodeError(f"got the response to request {correlation_id}, expected {expected}")
        pending = self._pending[0]
        _, response = decode_response(pending.request_class, pending.version, payload)
        self._pending.popleft()
        self._note_throttle(pending, response)
        if not pending.future.done():
            pending.future.set_result(response)

    def _note_throttle(self, pending: _Pending, response: Response) -> None:
        since = THROTTLED_SINCE.get(pending.request_class.api.key)
        throttle_ms: int = getattr(response, "throttle_time_ms", 0)
        if since is not None and pending.version >= since and throttle_ms > 0:
            now = asyncio.get_running_loop().time()
            throttle_s = min(throttle_ms, self._max_throttle_ms) / 1000
            self._quiet_until = max(self._quiet_until, now + throttle_s)

    def _end(self, error: GroupSdkError) -> None:
        if self._error is not None:
            return
        self._error = error
        logger.debug("the connection to %s:%d ended: %s", self.host, self.port, error)
        if self._transport is not None:
            self._transport.abort()
        pending, self._pending = self._pending, deque()
        for call in pending:
            if not call.future.done():
                call.future.set_exception(error)
                # the caller may be gone; asyncio must not warn about the lost error
                call.future.exception()


def check_versions(connection: Connection, *, static: bool) -> None:
    """Check that the broker supports everything that a member needs, one with a group.instance.id more (KIP-345).

    The UnsupportedVersionError names all that is missing.
    """
    lacking: list[str] = []
    for request in _NEEDED:
        try:
            connection.versions.negotiate(request, min_version=_min_version(request, static=static))
        except UnsupportedVersionError as error:
            lacking.append(str(error))
    if lacking:
        raise UnsupportedVersionError(
            f"{connection.address} cannot serve a group member"
            f"{' with a group.instance.id' if static else ''}: {'; '.join(lacking)}"
        )


def send_request(
    connection: Connection, request: MembershipRequest | CoordinatorRequest
) -> "asyncio.Future[Any]":
    """Send a request in the latest version that both sides support, adapted to that version."""
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
    """Return the request in the form of a version: before 8 it has a single group (KIP-709).

    Before 7 the broker returns the previous offset while one is part of an open transaction (KIP-447).
    """
    if version not in field_versions(OffsetFetchRequest, "require_stable"):
        request = replace(request, require_stable=False)
    if version in field_versions(OffsetFetchRequest, "groups"):
        return request
    (group,) = request.groups
    topics = None
    if group.topics is not None:
        topics = tuple(
            OffsetFetchRequestTopic(name=topic.name, partition_indexes=topic.partition_indexes)
            for topic in group.topics
        )
    return replace(request, group_id=group.group_id, topics=topics, groups=())


def _min_version(request: type[Request[Any]], *, static: bool) -> int | None:
    """Return the first version of a request with the fields of static membership (KIP-345)."""
    if not static or not hasattr(request, "group_instance_id"):
        return None
    return field_versions(request, "group_instance_id").first
