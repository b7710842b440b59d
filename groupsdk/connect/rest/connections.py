"""Bound how many connections a server holds, and for how long it waits for what clients send and read.

uvicorn's own limits hold from the first whole request on: a connection that never sends one is kept for ever, and
`limit_concurrency` then refuses everybody else.
"""

import asyncio
import logging
from collections import defaultdict
from typing import Any, ClassVar, Final, cast

from typing_extensions import override
from uvicorn.protocols.http.h11_impl import H11Protocol, RequestResponseCycle

from groupsdk.clock import Clock, SystemClock
from groupsdk.connect.rest.settings import RestSettings


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
