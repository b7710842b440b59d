"""Carry requests and answers over one connection to one broker."""

import asyncio
from collections import deque
from typing import Any, TypeVar, cast

from typing_extensions import override

from groupsdk.errors import DecodeError, DisconnectedError, GroupSdkError, WireError
from groupsdk.wire.api import ApiVersionRanges, correlation_id_of, decode_response, encode_request
from groupsdk.wire.framing import FrameDecoder
from groupsdk.wire.schema import Request, Response


R = TypeVar("R", bound=Response)

_MAX_CORRELATION_ID = 2**31 - 1


class _Pending:
    __slots__ = ("correlation_id", "future", "request_class", "version")

    def __init__(
        self,
        correlation_id: int,
        request_class: type[Request[Any]],
        version: int,
        future: "asyncio.Future[Any]",
    ) -> None:
        self.correlation_id = correlation_id
        self.request_class = request_class
        self.version = version
        self.future = future


class Connection(asyncio.Protocol):
    """One connection: frames in, frames out, answers in the order of the requests.

    Belongs to one event loop. When it breaks, every request without an answer fails with the same error.
    """

    def __init__(self, host: str, port: int, client_id: str, max_frame_bytes: int) -> None:
        self.host = host
        self.port = port
        self.versions = ApiVersionRanges({})
        self.expires_at: float | None = None
        """When the broker wants new credentials (KIP-368), in the loop's seconds; None: never."""
        self._client_id = client_id
        self._frames = FrameDecoder(max_frame_bytes)
        self._pending: deque[_Pending] = deque()
        self._transport: asyncio.Transport | None = None
        self._last_id = 0
        self._error: GroupSdkError | None = None
        self._answered = False

    @override
    def __repr__(self) -> str:
        return f"<Connection to {self.host}:{self.port}{' (closed)' if self._error else ''}>"

    @property
    def usable(self) -> bool:
        """Tell whether requests can be sent."""
        return self._transport is not None and self._error is None

    @property
    def idle(self) -> bool:
        """Tell whether no answer is outstanding."""
        return not self._pending

    @property
    def answered(self) -> bool:
        """Tell whether the broker has ever answered on this connection."""
        return self._answered

    @property
    def error(self) -> GroupSdkError | None:
        """Why the connection ended; None while it lives."""
        return self._error

    def request(self, message: Request[R], version: int | None = None) -> "asyncio.Future[R]":
        """Send a request; the future holds the answer.

        Args:
            message: what to ask.
            version: which version to speak; by default the newest that both sides have.

        Raises:
            DisconnectedError: the connection has ended.
            UnsupportedVersionError: the broker does not have the request in a version of ours.
            EncodeError: that version cannot carry the message.
        """
        if self._transport is None or self._error is not None:
            raise self._error or DisconnectedError(f"{self.host}:{self.port} is not connected")
        if version is None:
            version = self.versions.negotiate(type(message))
        self._last_id = (self._last_id + 1) & _MAX_CORRELATION_ID
        frame = encode_request(message, version, self._last_id, self._client_id)
        future: asyncio.Future[R] = asyncio.get_running_loop().create_future()
        self._pending.append(_Pending(self._last_id, type(message), version, future))
        self._transport.write(frame)
        return future

    def close(self, error: GroupSdkError | None = None) -> None:
        """End the connection; requests without an answer fail with `error`."""
        self._end(
            error or DisconnectedError(f"the connection to {self.host}:{self.port} was closed")
        )

    @override
    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast("asyncio.Transport", transport)

    @override
    def data_received(self, data: bytes) -> None:
        if self._error is not None:
            return
        try:
            for payload in self._frames.feed(data):
                self._on_frame(payload)
        except WireError as error:
            self._end(type(error)(f"{self.host}:{self.port}: {error}"))

    @override
    def connection_lost(self, exc: Exception | None) -> None:
        where = f"{self.host}:{self.port}"
        why = f": {exc}" if exc is not None else ""
        error = DisconnectedError(f"the broker {where} closed the connection{why}")
        error.__cause__ = exc
        self._end(error)

    def _on_frame(self, payload: bytes) -> None:
        correlation_id = correlation_id_of(payload)
        if not self._pending or self._pending[0].correlation_id != correlation_id:
            expected = self._pending[0].correlation_id if self._pending else "none"
            raise DecodeError(f"an answer to request {correlation_id}, but {expected} is next")
        pending = self._pending[0]
        _, response = decode_response(pending.request_class, pending.version, payload)
        self._pending.popleft()
        self._answered = True
        if not pending.future.done():
            pending.future.set_result(response)

    def _end(self, error: GroupSdkError) -> None:
        if self._error is not None:
            return
        self._error = error
        if self._transport is not None:
            self._transport.abort()
        pending, self._pending = self._pending, deque()
        for each in pending:
            if not each.future.done():
                each.future.set_exception(error)
                # whoever asked may be gone; that is no reason for asyncio to complain
                each.future.exception()
