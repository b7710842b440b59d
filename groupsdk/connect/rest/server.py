"""Listen for HTTP on a thread of its own, with bounded connections."""

import asyncio
import contextlib
import logging
import threading
from collections import defaultdict
from typing import Any, ClassVar, Final, cast

import uvicorn
from typing_extensions import override
from uvicorn.protocols.http.h11_impl import H11Protocol, RequestResponseCycle

from groupsdk.clock import Clock, SystemClock
from groupsdk.connect.admin import ConnectorAdmin
from groupsdk.connect.rest.api import RestApi
from groupsdk.connect.rest.settings import RestSettings
from groupsdk.errors import ConfigError


_ANSWER_S: Final = 180.0
"""How long a whole request may take, until its answer has been sent: two hops of 60 seconds, and a margin."""
_REPEAT_MS: Final = 60_000


class RepeatedWarnings(logging.Filter):
    """Lets each warning through once a minute, with how often it was held back: clients write these lines.

    Args:
        clock: the time.
    """

    def __init__(self, clock: Clock | None = None) -> None:
        super().__init__()
        self._clock = clock or SystemClock()
        self._next_ms: dict[str, int] = {}
        self._held: defaultdict[str, int] = defaultdict(int)

    @override
    def filter(self, record: logging.LogRecord) -> bool:
        """Return whether a record is to be written."""
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
    """One connection, which is ended where its client takes too long. Subclasses of `bounded` are given to uvicorn."""

    most: ClassVar[int]
    request_s: ClassVar[float]

    def __init__(self, *arguments: Any, **keywords: Any) -> None:
        super().__init__(*arguments, **keywords)
        self.logger = logger
        self.since_s = 0.0
        """When it began to wait for its client, by the loop's time."""
        self._timer: asyncio.TimerHandle | None = None

    @property
    def _cycle(self) -> RequestResponseCycle | None:
        # None before the first request, though uvicorn's annotation does not say so
        return self.cycle

    @property
    def waits_for_client(self) -> bool:
        """Whether the client has to go on: there is no whole request, or it does not read the answer."""
        cycle = self._cycle
        if cycle is None or cycle.response_complete or cycle.more_body:
            return True
        return self.flow.write_paused

    @override
    def connection_made(self, transport: Any) -> None:
        super().connection_made(transport)
        self._wait()
        if len(self.connections) > self.most:
            self._make_room()

    @override
    def on_response_complete(self) -> None:
        super().on_response_complete()
        self._wait()

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
        """End the connection that has kept this worker waiting for longest: slow ones cannot shut others out."""
        held = [cast(BoundedConnection, each) for each in self.connections]
        idle = [each for each in held if each is not self and each.waits_for_client]
        victim = min(idle, key=lambda each: each.since_s, default=self)
        logger.warning("more than %d connections: one that sends nothing is ended", self.most)
        # not later, when the transport says so: many may come before
        self.connections.discard(victim)
        victim.transport.abort()


def bounded(settings: RestSettings) -> type[BoundedConnection]:
    """Return the class of a server's connections."""
    limits = {"most": settings.max_connections, "request_s": settings.request_timeout_s}
    return type("Connection", (BoundedConnection,), limits)


_START_S: Final = 10.0


class RestServer:
    """Answers for one worker.

    Args:
        worker: who is asked.
        settings: where to listen, and who may ask.
    """

    def __init__(self, worker: ConnectorAdmin, settings: RestSettings) -> None:
        self._settings = settings
        self._server = uvicorn.Server(
            uvicorn.Config(
                RestApi(worker, settings).app(),
                host=settings.host,
                port=settings.port,
                log_config=None,
                access_log=False,
                lifespan="off",
                http=bounded(settings),
                ws="none",
                server_header=False,
                timeout_graceful_shutdown=2,
            )
        )
        self._thread = threading.Thread(target=self._run, name="groupsdk-rest", daemon=True)
        self._ready = threading.Event()

    def start(self) -> None:
        """Begin to listen.

        Raises:
            ConfigError: the address cannot be used.
        """
        self._thread.start()
        waited = 0.0
        while not self._server.started and self._thread.is_alive() and waited < _START_S:
            self._ready.wait(0.02)
            waited += 0.02
        if not self._server.started:
            raise ConfigError(
                f"rest: cannot listen on {self._settings.host}:{self._settings.port}; is it in use?"
            )
        logger.info("answers to HTTP at http://%s:%d", self._settings.host, self.port)

    @property
    def port(self) -> int:
        """The port it listens on."""
        for server in self._server.servers:
            for each in server.sockets:
                return int(each.getsockname()[1])
        return self._settings.port

    def stop(self) -> None:
        """End. Harmless when repeated."""
        self._server.should_exit = True
        if self._thread.ident is not None:
            self._thread.join(5)

    def _run(self) -> None:
        # uvicorn takes signals only on the main thread, and ends the process where it cannot listen
        with contextlib.suppress(SystemExit):
            self._server.run()
