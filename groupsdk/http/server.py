"""Listen for HTTP on a thread of its own, with bounded connections."""

import asyncio
import contextlib
import errno
import logging
import socket
import threading
from collections import defaultdict
from collections.abc import Callable, Coroutine
from typing import Any, ClassVar, Final, Self, cast
from urllib.parse import unquote

import h11
import uvicorn
from starlette.requests import ClientDisconnect
from starlette.types import ASGIApp, Receive, Scope, Send
from uvicorn.protocols.http.h11_impl import H11Protocol, RequestResponseCycle

from groupsdk.clock import Clock, SystemClock
from groupsdk.errors import ConfigError
from groupsdk.http.settings import HttpSettings
from groupsdk.lazy_imports import override
from groupsdk.limits import max_open_files
from groupsdk.printable import address_text


_ACCEPT_AT_ONCE: Final = 100
"""How many connections are accepted before the first of them is looked at, and may wait to be accepted."""
_NO_DESCRIPTORS: Final = (errno.EMFILE, errno.ENFILE, errno.ENOBUFS, errno.ENOMEM)
_ANSWER_S: Final = 180.0
"""How long a whole request may take, until its answer has been sent: two hops of 60 seconds, and a margin."""
_REPEAT_MS: Final = 60_000
_READ_BYTES: Final = 16_384
"""How much is read from a connection at a time: in chunks of one byte, what asyncio reads holds the loop for 0.4 s."""


class RepeatedWarnings(logging.Filter):
    """Lets each warning through once a minute, with a count of those suppressed: clients can cause these lines."""

    def __init__(self, clock: Clock | None = None) -> None:
        super().__init__()
        self._clock = clock or SystemClock()
        self._next_ms: dict[str, int] = {}
        self._held: defaultdict[str, int] = defaultdict(int)

    @override
    def filter(self, record: logging.LogRecord) -> bool:
        if record.levelno != logging.WARNING:
            return True
        # what a program says, not what a client has put into it: so there are few
        key, now_ms = str(record.msg), self._clock.now_ms()
        if now_ms < self._next_ms.get(key, now_ms):
            self._held[key] += 1
            return False
        self._next_ms[key] = now_ms + _REPEAT_MS
        if held := self._held.pop(key, 0):
            record.msg = f"{key} ({held} more since the last such line)"
        return True


logger = logging.getLogger(__name__)
logger.addFilter(RepeatedWarnings())


class BoundedConnection(H11Protocol):
    """A connection that is closed if its client takes too long; uvicorn creates the subclasses from `bounded`."""

    most: ClassVar[int]
    request_s: ClassVar[float]

    def __init__(self, *arguments: Any, **keywords: Any) -> None:
        super().__init__(*arguments, **keywords)
        self.logger = logger
        self.since_s = 0.0
        """When it began to wait for its client, by the loop's time."""
        self._timer: asyncio.TimerHandle | None = None
        self._is_half_closed = False

    @property
    def _cycle(self) -> RequestResponseCycle | None:
        # None before the first request, though uvicorn's annotation does not say so
        return self.cycle

    @property
    def waits_for_client(self) -> bool:
        """Whether the connection waits for its client: the request is incomplete, or the response is not being read."""
        cycle = self._cycle
        if cycle is None or cycle.response_complete or cycle.more_body:
            return True
        return self.flow.write_paused

    @override
    def connection_made(self, transport: Any) -> None:
        super().connection_made(transport)
        transport.max_size = _READ_BYTES
        self._wait()
        if len(self.connections) > self.most:
            self._make_room()

    @override
    def on_response_complete(self) -> None:
        super().on_response_complete()
        self._wait()
        if self._is_half_closed and self.cycle.response_complete:
            self.transport.close()

    @override
    def eof_received(self) -> bool:  # type: ignore[override]  # uvicorn's says None, asyncio takes both
        """Keep the connection until what was asked is answered: `nc` of a health check says that it sends no more."""
        cycle = self._cycle
        # not events, which end with their page
        asked = cycle is not None and not cycle.response_started and not cycle.more_body
        self._is_half_closed = asked
        return asked

    @override
    def send_400_response(self, msg: str) -> None:
        if self.conn.our_state in (h11.IDLE, h11.SEND_RESPONSE):
            super().send_400_response(msg)
        else:
            # answered before its body was read, and that is wrong: no second answer
            self.transport.close()
        if self._cycle is not None:
            # its application may be about to answer, and has no connection any more
            self._cycle.disconnected = True

    @override
    def _unsupported_upgrade_warning(self) -> None:
        """Say nothing: Java's client asks for HTTP/2 with every request, and is answered with HTTP/1.1."""

    @override
    def connection_lost(self, exc: Exception | None) -> None:
        if self._timer is not None:
            self._timer.cancel()
        super().connection_lost(exc)

    def _wait(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
        self.since_s = self.loop.time()
        self._timer = self.loop.call_later(self.request_s, self._is_late)

    def _is_late(self) -> None:
        if not self.waits_for_client:
            self._timer = self.loop.call_later(_ANSWER_S, self.transport.abort)
            return
        if self._cycle is None or not self._cycle.response_complete:
            logger.warning(
                "a client has not sent a request, or read its answer, within %g s", self.request_s
            )
        self.transport.abort()

    def _make_room(self) -> None:
        """Close the connection that has waited longest for its client, so that slow clients cannot shut others out."""
        held = [cast(BoundedConnection, each) for each in self.connections]
        idle = [each for each in held if each is not self and each.waits_for_client]
        victim = min(idle, key=lambda each: each.since_s, default=self)
        logger.warning(
            "more than %d connections: ending the one that has been silent for longest", self.most
        )
        # not later, when the transport says so: many may come before
        self.connections.discard(victim)
        victim.transport.abort()


def bounded(settings: HttpSettings) -> type[BoundedConnection]:
    """Return the connection class for one server."""
    limits = {"most": most_connections(settings), "request_s": settings.request_timeout_s}
    return type("Connection", (BoundedConnection,), limits)


def most_connections(settings: HttpSettings) -> int:
    """Return how many connections a server holds: at most a quarter of the process's file descriptors."""
    return max(1, min(settings.max_connections, max_open_files() // 4))


_START_S: Final = 10.0
_END_S: Final = 5.0


ENDING: Final = "groupsdk.ending"
"""The key of a request's scope with an `asyncio.Event`, which is set when the server ends: for answers without end."""


class _Server(uvicorn.Server):
    """Tells endless responses that the server is stopping, before it waits for them to finish."""

    def __init__(self, config: uvicorn.Config, ending: asyncio.Event) -> None:
        super().__init__(config)
        self._ending = ending

    @override
    async def shutdown(self, sockets: list[socket.socket] | None = None) -> None:
        self._ending.set()
        await super().shutdown(sockets)


class HttpServer:
    """An HTTP server on a thread of its own, from `start` to `stop`. A context manager.

    `name` is the option or interface that it serves, for errors and the name of its thread; `beside` makes what runs on its event loop
    besides, until it ends; requests in progress may take `grace_s` when it stops.
    """

    def __init__(
        self,
        app: ASGIApp,
        settings: HttpSettings,
        *,
        name: str,
        beside: Callable[[], Coroutine[Any, Any, None]] | None = None,
        grace_s: int = 2,
    ) -> None:
        self._settings = settings
        self._name = name
        self._beside = beside
        ending = asyncio.Event()

        async def ends(scope: Scope, receive: Receive, send: Send) -> None:
            try:
                await app({**_origin_form(scope), ENDING: ending}, receive, send)
            except ClientDisconnect:
                logger.info("%s: a client hung up before its request was complete", name)

        self._server = _Server(
            uvicorn.Config(
                ends,
                host=settings.host,
                port=settings.port,
                log_config=None,
                access_log=False,
                lifespan="off",
                http=bounded(settings),
                ws="none",
                server_header=False,
                timeout_graceful_shutdown=grace_s,
                backlog=max(1, min(_ACCEPT_AT_ONCE, max_open_files() // 8)),
            ),
            ending,
        )
        self._thread = threading.Thread(target=self._run, name=f"groupsdk-{name}", daemon=True)
        self._waiting = threading.Event()

    def __enter__(self) -> Self:
        self.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.stop()

    @property
    def port(self) -> int:
        for server in self._server.servers:
            for each in server.sockets:
                return int(each.getsockname()[1])
        return self._settings.port

    @property
    def url(self) -> str:
        """The URL that the server listens on, ending with "/"."""
        return f"{self._settings.url_of(self.port)}/"

    def start(self) -> None:
        """Start listening. Raises ConfigError if the address cannot be used."""
        self._thread.start()
        waited_s = 0.0
        while not self._server.started and self._thread.is_alive() and waited_s < _START_S:
            self._waiting.wait(0.02)
            waited_s += 0.02
        if not self._server.started:
            raise ConfigError(
                f"{self._name}: cannot listen on {address_text(self._settings.host, self._settings.port)};"
                " is the port in use?"
            )
        logger.info("%s: listening at %s", self._name, self.url)
        most = most_connections(self._settings)
        if most < self._settings.max_connections:
            logger.info(
                "%s: holds %d connections, not %d, as this process may open %d files (ulimit -n)",
                self._name,
                most,
                self._settings.max_connections,
                max_open_files(),
            )

    def stop(self) -> None:
        """Stop listening. Harmless when repeated."""
        self._server.should_exit = True
        if self._thread.ident is not None:
            self._thread.join(_END_S)

    def _run(self) -> None:
        # uvicorn takes signals only on the main thread, and ends the process where it cannot listen
        with contextlib.suppress(SystemExit):
            asyncio.run(self._serve())

    async def _serve(self) -> None:
        asyncio.get_running_loop().set_exception_handler(_loop_error)
        running = None if self._beside is None else asyncio.create_task(self._beside())
        try:
            await self._server.serve()
        finally:
            if running is not None:
                running.cancel()
                with contextlib.suppress(asyncio.CancelledError):
                    await running


def _origin_form(scope: Scope) -> Scope:
    """Return the scope of a request; the host of one like `GET http://host/path` is that of the URL (RFC 9112, 3.2.2)."""
    scheme, colon, rest = scope.get("raw_path", b"").partition(b"://")
    if not colon or scheme.lower() not in (b"http", b"https"):
        return scope
    host, slash, after = rest.partition(b"/")
    path = slash + after or b"/"
    others = [each for each in scope["headers"] if each[0] != b"host"]
    return {
        **scope,
        "path": unquote(path.decode("ascii")),
        "raw_path": path,
        "headers": [(b"host", host), *others],
    }


def _loop_error(loop: asyncio.AbstractEventLoop, context: dict[str, Any]) -> None:
    """Log an error of the loop. One of `accept` comes for each waiting client: the loop pauses only after those."""
    error = context.get("exception")
    if isinstance(error, OSError) and error.errno in _NO_DESCRIPTORS:
        logger.warning("cannot accept connections, trying again: %s", error)
    else:
        loop.default_exception_handler(context)
