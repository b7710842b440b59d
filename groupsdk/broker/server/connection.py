"""Serve one connection: split its bytes into requests, handle them one at a time, and respond."""

import asyncio
import logging
import struct
from collections.abc import Callable, Mapping, Sequence
from enum import Enum
from functools import partial
from types import GeneratorType
from typing import TYPE_CHECKING, Any, Final, cast

from groupsdk.broker.server.call import Call, Route, is_served, load_route, loaded_route, route
from groupsdk.broker.server.contract import BadRequestError
from groupsdk.broker.server.pace import Steps
from groupsdk.broker.server.split_requests import InParts, paths_of
from groupsdk.errors import DecodeError, GroupSdkError
from groupsdk.lazy_imports import override


if TYPE_CHECKING:
    from groupsdk.broker.server.contract import Acceptor, ServingNode
    from groupsdk.wire.compiler import CodecSteps
    from groupsdk.wire.schema import Response


logger = logging.getLogger(__name__)
_LENGTH: Final = struct.Struct(">i").unpack_from
_HEADER: Final = struct.Struct(">hhih").unpack_from
_PREFIX: Final = struct.Struct(">ii").pack
_TAGGED_PREFIX: Final = struct.Struct(">iib").pack
_HEADER_BYTES: Final = 10
_SMALL_ANSWER: Final = 1024
"""Responses below this size are joined with their header at once, which costs less than joining the parts
later.
"""
_MAX_WAITING: Final = 64 * 1024
"""How many bytes of further requests are read while one is being handled."""
_MAX_PARTS: Final = 64
_MAX_UNKNOWN: Final = 512 * 1024
"""The largest request of a client that has not authenticated (Kafka's sasl.server.max.receive.size)."""
_LARGE_ANSWER: Final = 16 * 1024
"""Responses from this size on are written at once, so that a client that does not read is noticed."""
_LARGE_MESSAGE: Final = 8 * 1024
"""The size from which requests are decoded, and their responses encoded, in steps: an element may be one byte."""
_MANY_FROM: Final = 512
"""The size from which a request may have so many elements that it is handled in parts."""
_RESERVE_FROM: Final = 64 * 1024
"""Requests of at least this size count towards the memory limit of all requests, with the bytes received so
far.
"""


class ConnectionState(Enum):
    """The read state of a connection (Kafka: KafkaChannel.ChannelMuteState)."""

    READY = "Ready"
    """No request is being handled: the next one is started."""
    ANSWERING = "Answering"
    """A request is being handled; further ones wait."""
    BLOCKED = "Blocked"
    """The client does not read its responses: no request is started."""
    ANSWERING_BLOCKED = "AnsweringBlocked"
    """A request is being handled for a client that does not read its responses."""
    CLOSED = "Closed"
    """Nothing more is read; earlier responses may still be sent."""

    __hash__ = (
        object.__hash__
    )  # states are looked up twice for each request, and Enum.__hash__ is implemented in Python


class ConnectionTrigger(Enum):
    """The events that change a connection's state; the value is the label in the diagram."""

    TAKEN_UP = "a request is taken up"
    ANSWERED = "it is answered, or needs no answer"
    WRITING_PAUSED = "the client stops reading"
    WRITING_RESUMED = "the client reads again"
    CLOSED = "either side closes it"


_READY, _ANSWERING, _BLOCKED, _ANSWERING_BLOCKED, _CLOSED = ConnectionState
TRANSITIONS: Final[Mapping[tuple[ConnectionState, ConnectionTrigger], ConnectionState]] = {
    (_READY, ConnectionTrigger.TAKEN_UP): _ANSWERING,
    (_ANSWERING, ConnectionTrigger.ANSWERED): _READY,
    (_ANSWERING_BLOCKED, ConnectionTrigger.ANSWERED): _BLOCKED,
    (_READY, ConnectionTrigger.WRITING_PAUSED): _BLOCKED,
    (_ANSWERING, ConnectionTrigger.WRITING_PAUSED): _ANSWERING_BLOCKED,
    (_BLOCKED, ConnectionTrigger.WRITING_RESUMED): _READY,
    (_ANSWERING_BLOCKED, ConnectionTrigger.WRITING_RESUMED): _ANSWERING,
    **{(each, ConnectionTrigger.CLOSED): _CLOSED for each in ConnectionState},
}
"""All transitions; a trigger that is missing for a state does not change it."""


def _moves_by(trigger: ConnectionTrigger) -> dict[ConnectionState, ConnectionState]:
    return {each: TRANSITIONS.get((each, trigger), each) for each in ConnectionState}


_ANSWERED: Final = _moves_by(ConnectionTrigger.ANSWERED)
_WRITING_PAUSED: Final = _moves_by(ConnectionTrigger.WRITING_PAUSED)
_WRITING_RESUMED: Final = _moves_by(ConnectionTrigger.WRITING_RESUMED)


class Connection(asyncio.Protocol):
    """One client's connection, accepted by a listener.

    As in Kafka, a request is handled only after the one before it was answered, so that responses are sent in
    order and a client that does not read costs one response. Invalid input closes this connection only.

    Attributes:
        principal: the authenticated user, such as "User:alice"; "" before SASL authentication.
        client_host: the client's address in Java's format, with its slash.
        authenticator: the `SaslGate`; None if the listener does not use SASL.
        on_lost: called once when the connection is lost; None: nothing to call.
    """

    __slots__ = (
        "_activity",
        "_buffer",
        "_client_id",
        "_client_id_bytes",
        "_group",
        "_has_turn",
        "_is_undecoded",
        "_listener",
        "_out",
        "_partial",
        "_paused",
        "_reserved",
        "_reserved_unknown",
        "_serving",
        "_state",
        "_transport",
        "_unloaded",
        "_unsent",
        "_waited",
        "_wanted",
        "active_ms",
        "authenticator",
        "client_host",
        "heard",
        "listener_name",
        "node",
        "on_lost",
        "peer",
        "principal",
    )

    def __init__(self, listener: "Acceptor") -> None:
        self._listener = listener
        self.node: ServingNode = listener.node
        self._activity = self.node.cluster.activity
        self.principal = "User:ANONYMOUS"
        self.client_host = "/127.0.0.1"
        self.peer = "127.0.0.1"
        self._state = _READY
        self.active_ms = 0
        """When the listener last found that bytes had been received, in milliseconds."""
        self.heard = False
        """Whether bytes have been received since then; setting it costs less than reading the clock for every
        request.
        """
        self.authenticator: Any = None
        self.listener_name = listener.name
        self.on_lost: Callable[[], None] | None = None
        self._transport: asyncio.Transport = cast("asyncio.Transport", None)
        self._buffer = bytearray()
        self._wanted = 4
        self._out: list[bytes] = []
        self._paused = False  # reading is paused
        self._serving = False  # within _serve, which continues and writes by itself
        self._partial = False  # part of a request has arrived, and its deadline is running
        self._reserved = 0
        self._reserved_unknown = False  # reserved in the pool of unauthenticated clients
        self._unsent = 0
        self._client_id_bytes = b""
        self._client_id = ""
        self._waited = (
            b""  # API and version of the last request that waited for its turn, in its header
        )
        self._group = ""  # the group of that request
        self._is_undecoded = False  # a request waits for its turn as it was received
        self._has_turn = False  # it is the turn of the request that is taken up next
        self._unloaded = b""  # a request whose code is being loaded

    @override
    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Register the connection with its listener, which may refuse it."""
        self._transport = cast("asyncio.Transport", transport)
        self.active_ms = self._listener.now_ms()
        address = transport.get_extra_info("peername")
        if address:
            self.peer = str(address[0])
            self.client_host = f"/{self.peer}"
        self._listener.opened(self, transport)

    @override
    def connection_lost(self, exc: Exception | None) -> None:
        """Release all resources of the connection, and call `on_lost`."""
        # what a client sent before it went away counts: a member leaves, records are appended
        if self._is_undecoded:
            self._take_up_buffered()
        while self._unloaded and self._state is not _CLOSED:
            load_route(*_HEADER(self._unloaded)[:2])
            self._take_up_loaded()
        self._state = _CLOSED
        self._buffer.clear()
        self._release()
        self._whole()
        self._note_unsent(0)
        if self.on_lost is not None:
            self.on_lost()
        self._listener.lost(self)

    @override
    def data_received(self, data: bytes) -> None:
        """Buffer received bytes and handle the complete requests."""
        self.heard = True
        if self._state is _READY and not self._buffer:
            waited = self._waited
            if waited and data[4:8] == waited and self.node.cluster.has_waiting(self._group):
                self._wait(data)
            else:
                self._serve(data)
            return
        if self._state is _CLOSED:
            return
        self._buffer += data
        if self._state is not _READY:
            if len(self._buffer) > _MAX_WAITING:
                self._pause()
        elif len(self._buffer) < self._wanted:
            self._hold()
        else:
            self._serve(self._buffer)

    @override
    def pause_writing(self) -> None:
        """Stop handling requests of a client that does not read its responses."""
        self._state = _WRITING_PAUSED[self._state]
        self._note_unsent(self._transport.get_write_buffer_size())

    @override
    def resume_writing(self) -> None:
        """Resume handling requests of a client that reads again."""
        self._state = _WRITING_RESUMED[self._state]
        self._note_unsent(0)
        self._listener.soon(self._resume)

    def close(self, reason: str = "") -> None:
        """Close the connection after sending the pending responses; a reason is logged. Does nothing if it is closed."""
        if self._state is not _CLOSED:
            if reason:
                logger.info("node %d: closing %s: %s", self.node.node_id, self.peer, reason)
            self._flush()
            self._state = _CLOSED
            self._transport.close()

    def abort(self) -> None:
        """Close the connection immediately; unsent responses are lost."""
        self._state = _CLOSED
        self._transport.abort()

    @property
    def closed(self) -> bool:
        """Whether the client gets no further responses."""
        return self._state is _CLOSED

    @property
    def must_answer_small(self) -> bool:
        """Whether responses must be small because slow clients already hold too much memory."""
        return self._listener.must_answer_small

    def expire(self, reason: str) -> None:
        """Close an idle connection and log the reason; close it immediately if the client does not read its responses."""
        if self._state in {_CLOSED, _BLOCKED, _ANSWERING_BLOCKED}:
            logger.info("node %d: dropping %s: %s", self.node.node_id, self.peer, reason)
            self.abort()
        else:
            self.close(reason)

    def answered(self, call: Call, response: "Response") -> None:
        """Send the response to the current request and start the next one; called by `Call.answer`."""
        if self._state is _CLOSED:
            return
        if call.large or call.request_bytes > _LARGE_MESSAGE:
            steps = call.route.encode_in_steps(response)
            self._in_steps(steps, partial(self._send_pieces, call))
            return
        try:
            body = call.route.encode(response)
        except GroupSdkError as error:
            self._unwritable(error)
            return
        size = len(body)
        head = _head(call, size)
        if size < _SMALL_ANSWER:
            self._out.append(head + body)
        else:
            self._out += (head, body)
            if size >= _LARGE_ANSWER:
                self._flush()
        self._sent()

    def _unwritable(self, error: GroupSdkError) -> None:
        node, peer = self.node.node_id, self.peer
        logger.error("node %d: cannot encode the response to %s", node, peer, exc_info=error)
        self.close("cannot encode a response")

    def _send_pieces(self, call: Call, pieces: Sequence[bytes]) -> None:
        """Send a response that may be so large that copying it takes long."""
        self._out.append(_head(call, sum(map(len, pieces))))
        self._in_steps(self._writing(pieces), lambda _: self._sent())

    def _writing(self, pieces: Sequence[bytes]) -> "CodecSteps[None]":
        last = len(pieces) - 1
        for number, piece in enumerate(pieces):
            self._out.append(piece)
            self._flush()
            if number < last:
                yield

    def _sent(self) -> None:
        if self._serving and self._state is _ANSWERING:
            self._state = _READY  # `_serve` continues with the next request
        else:
            self.go_on()

    def _in_steps(self, steps: "CodecSteps[Any]", done: Callable[[Any], None]) -> None:
        """Run one step of reading or writing a large message, and schedule the next after other pending work."""
        if self._state is _CLOSED:
            return
        try:
            next(steps)
        except StopIteration as ended:
            result = ended.value
        except DecodeError as error:
            self.close(str(error))
            return
        except GroupSdkError as error:
            self._unwritable(error)
            return
        else:
            self.node.cluster.in_steps(partial(self._in_steps, steps, done))
            return
        done(result)

    def go_on(self) -> None:
        """Start the next request, after one that needs no response."""
        self._state = _ANSWERED[self._state]
        if not self._serving:
            self._flush()
            if self._buffer or self._paused:
                self._listener.soon(self._resume)

    def _flush(self) -> None:
        out = self._out
        if out:
            self._transport.write(out[0] if len(out) == 1 else b"".join(out))
            out.clear()
            if self._state is _BLOCKED or self._state is _ANSWERING_BLOCKED:
                self._note_unsent(self._transport.get_write_buffer_size())

    def _resume(self) -> None:
        if self._state is _READY and len(self._buffer) >= self._wanted:
            self._serve(self._buffer)
        if self._paused and self._state is _READY:
            self._unpause()

    def _pause(self) -> None:
        if not self._paused and self._state is not _CLOSED:
            self._paused = True
            self._transport.pause_reading()

    def _unpause(self) -> None:
        if self._wanted > _RESERVE_FROM and not self._reserve():
            return
        self._paused = False
        self._transport.resume_reading()

    def _serve(self, source: bytes | bytearray) -> None:
        """Handle the complete requests of `source` until one has to wait; buffer the remaining bytes."""
        self._serving = True
        position = 0
        try:
            position = self._serve_all(source)
        except BadRequestError as error:
            self.close(str(error))
        finally:
            self._serving = False
        self._flush()
        if self._state is _CLOSED:
            self._buffer.clear()
        elif source is self._buffer:
            del self._buffer[:position]
            if position:
                self._release()
        elif position < len(source):
            self._buffer += memoryview(source)[position:]
        if self._state is not _READY:
            self._wanted = 4
            # checked here, too: a request that is handled in steps may be between two of them
            if len(self._buffer) > _MAX_WAITING:
                self._pause()
        elif self._buffer:
            self._hold()

    def _serve_all(self, source: bytes | bytearray) -> int:
        position, end = 0, len(source)
        while self._state is _READY:
            if end - position < 4:
                self._wanted = 4
                break
            (length,) = _LENGTH(source, position)
            stop = position + 4 + length
            if stop > end or length < 0:
                self._incomplete(length)
                break
            payload = source[position + 4 : stop]
            position = stop
            if self._partial:
                self._whole()
            # a bytearray holds bytes that arrived in pieces, or while another request was handled
            self._handle(payload if type(payload) is bytes else bytes(payload))
            if len(self._out) > _MAX_PARTS:
                self._flush()
        return position

    def _incomplete(self, length: int) -> None:
        limit = self._listener.max_request_bytes
        if self._is_unknown():
            limit = min(limit, _MAX_UNKNOWN)
        if not 0 <= length <= limit:
            raise BadRequestError(
                f"invalid request size of {length} bytes; the limit is {limit} (socket.request.max.bytes)"
            )
        self._wanted = 4 + length
        if not self._partial:
            self._partial = True
            self._listener.begun(self, self._wanted)

    def _is_unknown(self) -> bool:
        return self.authenticator is not None and not self.authenticator.done

    def _whole(self) -> None:
        """Record that a partly received request is complete, or never will be."""
        if self._partial:
            self._partial = False
            self._listener.ended(self)

    def _hold(self) -> None:
        """Account for the received part of a large request; if memory is exhausted, continue reading later."""
        if self._wanted > _RESERVE_FROM and self._state is not _CLOSED and not self._reserve():
            self._pause()

    def _reserve(self) -> bool:
        more = len(self._buffer) - self._reserved
        if self._is_unknown():
            if not self._listener.reserve_unknown(more):
                self.close("unauthenticated clients hold too much memory")
                return False
            self._reserved_unknown = True
        elif not self._listener.reserve(self, more):
            return False
        self._reserved += more
        return True

    def _release(self) -> None:
        reserved, self._reserved = self._reserved, 0
        if reserved:
            if self._reserved_unknown:
                self._listener.release_unknown(reserved)
            else:
                self._listener.release(self, reserved)
        self._reserved_unknown = False

    def _note_unsent(self, size: int) -> None:
        self._listener.unsent(size - self._unsent)
        self._unsent = size

    def memory_free(self) -> None:
        """Resume reading a large request that waited for memory; called by `Limits`."""
        self._resume()

    def _handle(self, payload: bytes) -> None:
        if self.authenticator is not None and self.authenticator.raw:
            self._handle_raw(payload)
            return
        try:
            key, version, correlation_id, size = _HEADER(payload)
        except struct.error:
            raise BadRequestError(
                f"{len(payload)} bytes is too short for a request header"
            ) from None
        start = _HEADER_BYTES + size if size > 0 else _HEADER_BYTES
        name = payload[_HEADER_BYTES:start]
        if name != self._client_id_bytes:
            self._learn_client_id(name, size)
        found = loaded_route(key, version) or self._first_of_kind(
            key, version, correlation_id, payload, start
        )
        if found is None:
            return
        if found.flexible:
            # usually there are none, encoded as 0
            start = start + 1 if payload[start : start + 1] == b"\0" else _skip_tags(payload, start)
        if self.authenticator is not None:
            self.authenticator.check(self, key)
        call = Call(self, found, correlation_id, self._client_id, len(payload))
        if len(payload) > _LARGE_MESSAGE:
            self._activity.long += 1
            self._state = _ANSWERING
            self._in_steps(found.decode_in_steps(payload, start), partial(self._meet_faults, call))
            return
        try:
            message = found.decode(payload, start)
        except DecodeError as error:
            raise BadRequestError(str(error)) from None
        self._state = _ANSWERING
        if found.may_wait is not None and found.may_wait(self.node, message):
            # all members of a group send one at the same time: requests of other clients go first
            self._activity.long += 1
            self._take_up_in_turn(call, message)
            return
        self._activity.short += 1
        take_up = self._meet_faults if self.node.faults.any else self.run
        take_up(call, message)

    def _first_of_kind(
        self, key: int, version: int, correlation_id: int, payload: bytes, start: int
    ) -> Route | None:
        """Return the route of the first request of its kind; None if it is being loaded, or is not served."""
        if not is_served(key, version):
            self._not_served(key, version, correlation_id, payload, start)
            return None
        off_loop = self.node.cluster.off_loop
        if off_loop is None:
            return route(key, version)
        # imports and compilation take up to 200 ms
        self._state = _ANSWERING
        self._unloaded = payload
        off_loop(partial(load_route, key, version), self._loaded)
        return None

    def _loaded(self, error: BaseException | None) -> None:
        if error is not None:
            logger.error("node %d: cannot load a handler", self.node.node_id, exc_info=error)
            self._unloaded = b""
            self.close("cannot load the handler of a request")
        elif self._unloaded and self.node.running:
            self._take_up_loaded()

    def _take_up_loaded(self) -> None:
        payload, self._unloaded = self._unloaded, b""
        self._buffer[:0] = len(payload).to_bytes(4) + payload
        self._take_up_buffered()

    def _meet_faults(self, call: Call, message: Any) -> None:
        """Pass a request on unless a scripted fault intercepts it."""
        if not self.node.faults.intercept(call, message):
            self.run(call, message)

    def _take_up_in_turn(self, call: Call, message: Any) -> None:
        if self._has_turn:
            self._has_turn = False
            self._meet_faults(call, message)
            return
        self._waited, self._group = call.route.kind, message.group_id
        self.node.cluster.in_steps(partial(self._take_up_later, call, message), self._group)

    def _take_up_later(self, call: Call, message: Any) -> None:
        if self._state is not _CLOSED and self.node.running:
            self._meet_faults(call, message)

    def _wait(self, data: bytes) -> None:
        """Leave a request undecoded until its turn: decoding those of a thousand members takes as long as many steps."""
        self._buffer += data
        self._state = _ANSWERING
        self._is_undecoded = True
        self.node.cluster.in_steps(self._take_turn, self._group)

    def _take_turn(self) -> None:
        if self._is_undecoded and self.node.running:
            self._has_turn = True
            self._take_up_buffered()
            self._has_turn = False

    def _take_up_buffered(self) -> None:
        self._is_undecoded = False
        self._state = _ANSWERED[self._state]
        self._resume()

    def _handle_raw(self, message: bytes) -> None:
        """Process a SASL message without a header, as clients send it after SaslHandshake version 0."""
        if self.authenticator.validate(message, partial(self._validated_raw, message)):
            self._state = _ANSWERING
        else:
            self._answer_raw(message)

    def _validated_raw(self, message: bytes) -> None:
        if self._state is _CLOSED:
            return
        try:
            self._answer_raw(message)
        except BadRequestError as error:
            self.close(str(error))
        else:
            self.go_on()

    def _answer_raw(self, message: bytes) -> None:
        try:
            answer = self.authenticator.evaluate(self, message)
        except BadRequestError:
            raise
        except GroupSdkError:
            raise BadRequestError("authentication failed") from None
        self._out += (len(answer).to_bytes(4), answer)

    def run(self, call: Call, message: Any) -> None:
        """Pass a request in flight and its decoded message to the handler, in parts if it has very many elements."""
        if call.request_bytes > _MANY_FROM:
            paths = paths_of(call.route.api_key, message)
            if paths is not None:
                InParts(call, message, paths).go_on()
                return
        try:
            response = call.route.handle(call, message)
        except BadRequestError as error:
            self.close(str(error))
            return
        except Exception as error:  # noqa: BLE001 - a bug in one handler must not end the broker
            response = self._failed(call, message, error)
        if type(response) is GeneratorType:
            self.go_on_with(call, message, response)
        elif response is not None:
            call.answer(cast("Response", response))

    def go_on_with(self, call: Call, message: Any, steps: Steps) -> None:
        """Run one step of a request in flight, and schedule the next after other pending work of the loop.

        The decoded message is used to build an error response if a step raises.
        """
        if not self.node.running:
            steps.close()
            return
        try:
            next(steps)
        except StopIteration as done:
            response = done.value
        except Exception as error:  # noqa: BLE001 - a bug in one handler must not end the broker
            response = self._failed(call, message, error)
        else:
            self.node.cluster.in_steps(partial(self.go_on_with, call, message, steps))
            return
        if response is not None:
            call.answer(response)

    def _failed(self, call: Call, message: Any, error: Exception) -> "Response | None":
        from groupsdk.broker.server.error_responses import (  # only a failure needs it
            failure_code,
            refuse,
        )

        code = failure_code(error)
        if code is None:
            node, what = self.node.node_id, type(message).__name__
            logger.error("node %d: %s of %s failed", node, what, self.peer, exc_info=error)
        response = refuse(message, -1 if code is None else code, call.version)
        if response is None:
            self.close("a request failed, and its response cannot carry an error")
        return response

    def _learn_client_id(self, name: bytes, size: int) -> None:
        # as in Kafka: any negative size means null, and invalid UTF-8 becomes U+FFFD
        if len(name) != max(size, 0):
            raise BadRequestError(
                f"the client id of length {size} extends past the end of the request"
            )
        self._client_id = name.decode(errors="replace")
        self._client_id_bytes = name

    def _not_served(
        self, key: int, version: int, correlation_id: int, payload: bytes, start: int
    ) -> None:
        if key != 18:
            raise BadRequestError(f"API {key} version {version} is not supported")
        if version > 0:
            # newer versions have the same header; the body is not decoded
            _skip_tags(payload, start)
        # KIP-511: respond in version 0, whatever the request's version, with the supported versions
        from groupsdk.broker.server.handlers.handshake import unsupported_version

        found = cast("Route", route(18, 0))
        Call(self, found, correlation_id, self._client_id, 0).answer(unsupported_version())


class TlsConnection(Connection):
    """A connection over asyncio's TLS transport.

    After a reset nothing more is written: asyncio logs each further write until it reports the loss.
    """

    __slots__ = ("_encrypted",)

    @override
    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        # its own `is_closing` does not tell whether the socket was lost; other event loops do not log
        protocol = getattr(transport, "_ssl_protocol", None)
        self._encrypted = getattr(protocol, "_transport", transport)
        super().connection_made(transport)

    @override
    def _flush(self) -> None:
        if self._encrypted.is_closing():
            self._out.clear()
        else:
            super()._flush()


def _head(call: Call, size: int) -> bytes:
    """Return the length and the header of a response whose body has `size` bytes."""
    if call.route.flexible_answer:
        return _TAGGED_PREFIX(size + 5, call.correlation_id, 0)
    return _PREFIX(size + 4, call.correlation_id)


def _skip_tags(payload: bytes, start: int) -> int:
    """Return the position after the tagged fields of a header."""
    from groupsdk.wire.primitives import DECODE_FAILURES, read_unknown_tags

    try:
        return read_unknown_tags(payload, start, len(payload))[1]
    except DECODE_FAILURES as error:
        raise BadRequestError(f"invalid tagged fields in the request header: {error}") from None
