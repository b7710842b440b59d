"""A broker for tests that speaks Kafka's protocol over TCP, and misbehaves exactly as a test tells it to.

It serves plain groups well enough for a few members: two-step join, sync, heartbeat, leave. No timers:
nobody is ever expelled, except by `expel`. What a test scripts comes before all of this.
"""

import asyncio
import contextlib
import socket
import ssl
import struct
import threading
from collections import defaultdict, deque
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, fields, replace
from typing import Any, Final, Self

from groupsdk.clock import SystemClock
from groupsdk.errors import GroupSdkError
from groupsdk.wire.api import RequestHeader, decode_request, encode_response
from groupsdk.wire.messages.connection import (
    ApiVersion,
    ApiVersionsRequest,
    ApiVersionsResponse,
    SaslAuthenticateRequest,
    SaslAuthenticateResponse,
    SaslHandshakeRequest,
    SaslHandshakeResponse,
)
from groupsdk.wire.messages.groups import (
    HeartbeatRequest,
    HeartbeatResponse,
    JoinGroupRequest,
    LeaveGroupRequest,
    LeaveGroupResponse,
    MemberResponse,
    SyncGroupRequest,
)
from groupsdk.wire.messages.metadata import (
    Coordinator,
    FindCoordinatorRequest,
    FindCoordinatorResponse,
    MetadataRequest,
    MetadataResponse,
    MetadataResponseBroker,
)
from groupsdk.wire.schema import ApiKey, Request, Response
from tests.support.scripted_group import ScriptedGroup
from tests.support.scripted_steps import KAFKA_4_3, Step, failed


_UNSUPPORTED_VERSION: Final = 35
_UNKNOWN_MEMBER: Final = 25
_LENGTH: Final = struct.Struct(">i")
_MAX_REQUEST: Final = 1_000_000


@dataclass(frozen=True, slots=True)
class Seen:
    """A request that came in."""

    api: ApiKey
    version: int
    client_id: str | None
    connection: int
    """Counts the connections from 1."""
    at_ms: int
    request: Request[Any]


class ScriptedBroker:
    """Listens on a free port from `start` (or `with`) to `stop`. Its methods may be called from any thread.

    Args:
        versions: what it offers, e.g. `KAFKA_4_3`.
        passwords: makes it a SASL listener that takes these users by PLAIN, or their tokens by OAUTHBEARER.
        lists_versions: whether it tells its ranges when it refuses an ApiVersions version (KIP-511).
        session_lifetime_ms: after which SASL clients have to authenticate again (KIP-368).
        alone: whether a member that joins replaces those that were in the group.
    """

    def __init__(
        self,
        *,
        versions: Mapping[ApiKey, tuple[int, int]] = KAFKA_4_3,
        host: str = "127.0.0.1",
        tls: ssl.SSLContext | None = None,
        passwords: Mapping[str, str] | None = None,
        lists_versions: bool = True,
        session_lifetime_ms: int = 0,
        alone: bool = False,
    ) -> None:
        self.host = host
        self.port = 0
        self.versions = dict(versions)
        self.throttle_ms = 0
        self.coordinator: tuple[str, int] | None = None
        """Whom FindCoordinator names; itself by default."""
        self.brokers: tuple[tuple[str, int], ...] | None = None
        """Whom Metadata names; itself by default."""
        self._tls = tls
        self._passwords = passwords
        self._lists_versions = lists_versions
        self._session_lifetime_ms = session_lifetime_ms
        self._scripts: dict[tuple[ApiKey, str | None], deque[Step]] = defaultdict(deque)
        self._forever: dict[tuple[ApiKey, str | None], Step] = {}
        self._groups: dict[str, ScriptedGroup] = defaultdict(lambda: ScriptedGroup(alone=alone))
        self._seen: list[Seen] = []
        self._changed = threading.Condition()
        self._release = asyncio.Event()
        self._connections: dict[int, asyncio.StreamWriter] = {}
        self._answering: set[asyncio.Task[None]] = set()
        self._serving = threading.Event()
        self._accepted = 0
        self._loop = asyncio.new_event_loop()
        self._server: asyncio.Server | None = None
        self._thread = threading.Thread(target=self._run, name="scripted-broker", daemon=True)
        self.errors: list[Exception] = []
        """What went wrong in the broker itself; a test may look."""

    # What a test says.

    def script(
        self, api: ApiKey, *steps: Step, client_id: str | None = None, forever: bool = False
    ) -> None:
        """Say what happens to the next requests of an API, or (one step, `forever`) to all from then on.

        Args:
            steps: one for each request; those of the client come before those of everyone.
            client_id: only for requests of this client.
            forever: for every request that no other step is left for.
        """
        if forever:
            (self._forever[api, client_id],) = steps
        else:
            self._scripts[api, client_id].extend(steps)

    def release(self) -> None:
        """Answer what is held, now and from now on."""
        self._loop.call_soon_threadsafe(self._release.set)

    def expel(self, group_id: str, member_id: str) -> None:
        self._loop.call_soon_threadsafe(lambda: self._groups[group_id].remove(member_id))

    def drop_connections(self) -> None:
        self._loop.call_soon_threadsafe(self._abort_all)

    # What a test asks.

    @property
    def address(self) -> str:
        """Where it listens, as bootstrap.servers wants it."""
        return f"[{self.host}]:{self.port}" if ":" in self.host else f"{self.host}:{self.port}"

    @property
    def accepted(self) -> int:
        """Count the connections there have been."""
        return self._accepted

    @property
    def connected(self) -> int:
        """Count the connections that are open."""
        return len(self._connections)

    def seen(self, api: ApiKey | None = None, client_id: str | None = None) -> list[Seen]:
        with self._changed:
            return [
                each
                for each in self._seen
                if api in (None, each.api) and client_id in (None, each.client_id)
            ]

    def wait_for(
        self, condition: Callable[[], bool], timeout_s: float = 60, what: str = "it"
    ) -> None:
        """Wait until the condition holds, asked after everything that happens.

        Raises:
            TimeoutError: it does not.
        """
        with self._changed:
            if not self._changed.wait_for(condition, timeout_s):
                last = [f"{each.client_id}: {each.api.name}" for each in self._seen[-20:]]
                raise TimeoutError(f"{what}: not in {timeout_s:g} s; the last requests: {last}")

    # Running.

    def start(self) -> None:
        """Listen."""
        family = socket.AF_INET6 if ":" in self.host else socket.AF_INET
        listener = socket.create_server((self.host, 0), family=family, backlog=2048)
        self.port = listener.getsockname()[1]
        self._listener = listener
        self._thread.start()
        self._serving.wait()

    def stop(self) -> None:
        """Close everything; harmless when repeated."""
        if self._thread.is_alive():
            self._loop.call_soon_threadsafe(self._loop.stop)
            self._thread.join(10)

    def __enter__(self) -> Self:
        self.start()
        return self

    def __exit__(self, kind: type[BaseException] | None, *_: object) -> None:
        self.stop()
        if kind is None and self.errors:
            raise self.errors[0]

    def _run(self) -> None:
        loop = self._loop
        asyncio.set_event_loop(loop)
        try:
            self._server = loop.run_until_complete(
                asyncio.start_server(self._accept, sock=self._listener, ssl=self._tls)
            )
            loop.call_soon(self._serving.set)
            loop.run_forever()
            loop.run_until_complete(self._tidy(self._server))
        finally:
            asyncio.set_event_loop(None)
            loop.close()

    async def _tidy(self, server: asyncio.Server) -> None:
        server.close()
        this = asyncio.current_task()
        for _ in range(
            5
        ):  # a connection may just be on its way through the steps of its acceptance
            self._abort_all()
            for task in asyncio.all_tasks() - {this}:
                task.cancel()
            await asyncio.sleep(0)
        await asyncio.sleep(0.01 if self._tls is not None else 0)

    def _abort_all(self) -> None:
        for writer in self._connections.values():
            writer.transport.abort()

    # One connection.

    def _accept(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        # no coroutine: asyncio complains of one that is cancelled before it has begun
        self._accepted += 1
        number = self._accepted
        self._connections[number] = writer
        task = self._loop.create_task(self._hold(number, reader, writer))
        self._answering.add(task)
        task.add_done_callback(lambda task: self._ended(number, task))

    async def _hold(
        self, number: int, reader: asyncio.StreamReader, writer: asyncio.StreamWriter
    ) -> None:
        try:
            await self._serve(number, reader, writer)
        except (OSError, EOFError, asyncio.CancelledError):
            pass
        except GroupSdkError as error:
            self.errors.append(error)

    def _ended(self, number: int, task: "asyncio.Task[None]") -> None:
        self._answering.discard(task)
        # held until then: a writer that goes before its transport is closed warns, from Python 3.13 on
        writer = self._connections.pop(number)
        writer.transport.abort()
        with self._changed:
            self._changed.notify_all()

    async def _serve(
        self, number: int, reader: asyncio.StreamReader, writer: asyncio.StreamWriter
    ) -> None:
        trusted = self._passwords is None
        while True:
            (length,) = _LENGTH.unpack(await reader.readexactly(4))
            if not 0 <= length <= _MAX_REQUEST:
                return  # another protocol: a real broker closes the connection, too
            header, request = decode_request(await reader.readexactly(length))
            api = request.api.key
            step = self._note(number, header, request)
            if not trusted and api not in (
                ApiKey.API_VERSIONS,
                ApiKey.SASL_HANDSHAKE,
                ApiKey.SASL_AUTHENTICATE,
            ):
                return
            frame = await self._frame(step, header, request)
            if frame is None:
                return
            if api is ApiKey.SASL_AUTHENTICATE and step.error is None:
                trusted = True
            await self._send(step, frame, writer)
            if step.closes:
                writer.close()
                await writer.wait_closed()
                return

    def _note(self, number: int, header: RequestHeader, request: Request[Any]) -> Step:
        api, client_id = request.api.key, header.client_id
        with self._changed:
            self._seen.append(
                Seen(
                    api,
                    header.api_version,
                    client_id,
                    number,
                    SystemClock().now_ms(),
                    request,
                )
            )
            self._changed.notify_all()
        for key in ((api, client_id), (api, None)):
            if self._scripts[key]:
                return self._scripts[key].popleft()
            if key in self._forever:
                return self._forever[key]
        return Step()

    async def _send(self, step: Step, frame: bytes, writer: asyncio.StreamWriter) -> None:
        if step.delay_ms:
            await asyncio.sleep(step.delay_ms / 1000)
        if step.held:
            await self._release.wait()
        if step.silent:
            return
        data = frame if step.garble is None else step.garble(frame)
        for chunk in _bytes_of(data) if step.trickled else (data,):
            writer.write(chunk)
            await writer.drain()
            if step.trickled:
                await asyncio.sleep(0)

    # Answers.

    async def _frame(
        self, step: Step, header: RequestHeader, request: Request[Any]
    ) -> bytes | None:
        version = header.api_version
        offered = self.versions.get(request.api.key)
        if isinstance(request, ApiVersionsRequest) and not self._has(request, version):
            refusal = ApiVersionsResponse(
                error_code=_UNSUPPORTED_VERSION,
                api_keys=self._ranges() if self._lists_versions else (),
            )
            return encode_response(refusal, 0, header.correlation_id)
        if offered is None or not self._has(request, version):
            return None
        if step.answer is not None:
            response, version = step.answer, min(version, step.answer.api.max_version)
        elif step.error is not None:
            response = self._fail(request, step.error, version)
        elif step.silent:
            return b""
        else:
            response = await self._answer(request, version)
        if step.change is not None:
            response = step.change(response)
        if self.throttle_ms and any(f.name == "throttle_time_ms" for f in fields(response)):
            response = replace(response, throttle_time_ms=self.throttle_ms)  # type: ignore[call-arg]  # it has it
        if (
            isinstance(response, ApiVersionsResponse)
            and response.error_code == _UNSUPPORTED_VERSION
        ):
            version = 0
        return encode_response(response, version, header.correlation_id)

    def _fail(self, request: Request[Any], code: int, version: int) -> Response:
        member_id = getattr(request, "member_id", "")
        if code == _UNKNOWN_MEMBER and member_id:
            self._groups[getattr(request, "group_id", "")].remove(member_id)
        return failed(request, code, version)

    def _has(self, request: Request[Any], version: int) -> bool:
        first, last = self.versions.get(request.api.key, (1, 0))
        return first <= version <= last

    def _ranges(self) -> tuple[ApiVersion, ...]:
        return tuple(
            ApiVersion(api_key=api, min_version=first, max_version=last)
            for api, (first, last) in self.versions.items()
        )

    async def _answer(self, request: Request[Any], version: int) -> Response:
        match request:
            case ApiVersionsRequest():
                return ApiVersionsResponse(api_keys=self._ranges())
            case MetadataRequest():
                known = self.brokers or ((self.host, self.port),)
                return MetadataResponse(
                    brokers=tuple(
                        MetadataResponseBroker(node_id=position, host=host, port=port)
                        for position, (host, port) in enumerate(known)
                    )
                )
            case FindCoordinatorRequest():
                return self._find_coordinator(request, version)
            case SaslHandshakeRequest():
                known_one = request.mechanism in ("PLAIN", "OAUTHBEARER")
                return SaslHandshakeResponse(
                    error_code=0 if known_one else 33, mechanisms=("PLAIN", "OAUTHBEARER")
                )
            case SaslAuthenticateRequest():
                return self._authenticate(request.auth_bytes)
            case _:
                return await self._answer_member(request, version)

    async def _answer_member(self, request: Request[Any], version: int) -> Response:
        match request:
            case JoinGroupRequest():
                return await self._groups[request.group_id].join(request, version)
            case SyncGroupRequest():
                return await self._groups[request.group_id].sync(request)
            case HeartbeatRequest():
                group = self._groups[request.group_id]
                code = group.check(request.member_id, request.generation_id)
                return HeartbeatResponse(error_code=code)
            case LeaveGroupRequest():
                return self._leave(request, version)
            case _:
                raise AssertionError(f"no member sends {type(request).__name__}")

    def _leave(self, request: LeaveGroupRequest, version: int) -> LeaveGroupResponse:
        group = self._groups[request.group_id]
        if version < 3:
            return LeaveGroupResponse(error_code=group.remove(request.member_id))
        return LeaveGroupResponse(
            members=tuple(
                MemberResponse(member_id=each.member_id, error_code=group.remove(each.member_id))
                for each in request.members
            )
        )

    def _find_coordinator(
        self, request: FindCoordinatorRequest, version: int
    ) -> FindCoordinatorResponse:
        host, port = self.coordinator or (self.host, self.port)
        if version < 4:
            return FindCoordinatorResponse(node_id=1, host=host, port=port)
        return FindCoordinatorResponse(
            coordinators=tuple(
                Coordinator(key=key, node_id=1, host=host, port=port)
                for key in request.coordinator_keys
            )
        )

    def _authenticate(self, auth_bytes: bytes) -> SaslAuthenticateResponse:
        passwords = self._passwords or {}
        if auth_bytes.startswith(b"n,,"):
            accepted = any(f"Bearer {each}\1".encode() in auth_bytes for each in passwords.values())
        else:
            _, user, password = auth_bytes.decode().split("\0")
            accepted = passwords.get(user) == password
        if not accepted:
            return SaslAuthenticateResponse(error_code=58, error_message="Authentication failed")
        return SaslAuthenticateResponse(session_lifetime_ms=self._session_lifetime_ms)


def _bytes_of(data: bytes) -> Iterator[bytes]:
    for position in range(len(data)):
        yield data[position : position + 1]


@contextlib.contextmanager
def refusing_port() -> Iterator[int]:
    """Give a port of 127.0.0.1 on which nobody listens."""
    with socket.socket() as sock:
        sock.bind(
            ("127.0.0.1", 0)
        )  # bound and not listening: connections are refused, and it stays ours
        yield sock.getsockname()[1]


@contextlib.contextmanager
def mute_port() -> Iterator[int]:
    """Give a port of 127.0.0.1 that takes connections and never says a word."""
    with socket.create_server(("127.0.0.1", 0), backlog=128) as sock:
        yield sock.getsockname()[1]


@contextlib.contextmanager
def full_port() -> Iterator[int]:
    """Give a port of 127.0.0.1 whose queue is full: to connect takes for ever, as to a dead host."""
    with contextlib.ExitStack() as stack:
        listener = stack.enter_context(socket.create_server(("127.0.0.1", 0), backlog=0))
        port = listener.getsockname()[1]
        for _ in range(4):
            sock = stack.enter_context(socket.socket())
            sock.setblocking(False)
            sock.connect_ex(("127.0.0.1", port))
        yield port
