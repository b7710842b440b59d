"""Carry requests and answers between clients and brokers, late, torn or not at all."""

from collections import deque
from collections.abc import Callable
from functools import partial
from itertools import takewhile
from random import Random
from typing import Any

from groupsdk.testing.simulation.broker_process import BrokerProcess
from groupsdk.testing.simulation.timeline import Timeline
from groupsdk.wire.messages.groups import LeaveGroupRequest
from groupsdk.wire.schema import Request, Response


_LATENCIES_MS = (1, 1, 2, 3, 10, 40)
_STALLS_MS = (0, 50, 500, 2_000)
_READ_LATE = 0.6
"""How probable it is that one more request of a closed connection is read."""


class Connection:
    """One connection of one client: requests and answers keep their order on it.

    Like Kafka's, the broker reads no further request while it holds an answer back. As TCP does, it loses
    nothing in the middle: either all up to a point arrives, or it breaks.
    """

    def __init__(
        self,
        timeline: Timeline,
        random: Random,
        process: BrokerProcess,
        node_id: int,
        client_id: str,
        on_response: Callable[[int, Response], None],
        on_broken: Callable[[], None],
        *,
        number: int,
        harsh: bool,
    ) -> None:
        self.node_id = node_id
        self.number = number
        self.open = True
        self.blackhole = False
        """Whether what is sent vanishes, without a sign."""
        self._process = process
        self._client_id = client_id
        self._timeline = timeline
        self._random = random
        self._on_response = on_response
        self._on_broken = on_broken
        self._harsh = harsh
        self._arrives_ms = 0
        self._answers_ms = 0
        self._held = False
        self._stalled = False
        self._unread: deque[tuple[int, Request[Any]]] = deque()
        self._travelling: dict[int, Request[Any]] = {}
        self._late: deque[Request[Any]] = deque()
        """Requests that the broker reads after the close."""

    def send(self, request_id: int, request: Request[Any]) -> None:
        if self.blackhole:
            return
        self._travelling[request_id] = request
        self._arrives_ms = max(self._arrives_ms, self._timeline.now_ms() + self._latency_ms())
        self._timeline.at(self._arrives_ms, lambda: self._arrive(request_id))

    def close(self) -> None:
        """Close it from the client's side: what is on its way may still be read, or not."""
        if not self.open:
            return
        self.open = False
        if self._harsh:
            self._leave_behind()
        else:
            for request in (*self._travelling.values(), *(each for _, each in self._unread)):
                if self._random.random() < 0.5 and isinstance(request, LeaveGroupRequest):
                    self._late.append(request)
                    self._timeline.after(self._random.randrange(1, 50), self._read_late)
        self._travelling.clear()
        self._unread.clear()

    def break_off(self) -> None:
        """Break in the middle: what is on its way was processed, or not, and has no answer."""
        if self._harsh:
            # for a while, what is sent gets no further
            self._stalled = True
            self._timeline.after(self._random.choice(_STALLS_MS), self._break)
        else:
            self._break()

    def _break(self) -> None:
        if not self.open:
            return
        self.open = False
        if self._harsh:
            self._leave_behind()
        else:
            arrives = [self._random.random() < 0.5 for _ in self._travelling]
            # what was sent behind one that is lost is lost as well
            count = 0 if self._held else [*arrives, False].index(False)
            for request in list(self._travelling.values())[:count]:
                self._handle(request, _nobody)
        self._travelling.clear()
        self._unread.clear()
        self._timeline.after(self._latency_ms(), self._on_broken)

    def _leave_behind(self) -> None:
        """Let the broker read what was sent up to a point, after the member has long sent more elsewhere."""
        sent = [*(each for _, each in self._unread), *self._travelling.values()]
        self._late.extend(takewhile(lambda _: self._random.random() < _READ_LATE, sent))
        self._timeline.after(self._random.randrange(1, 3_000), self._read_late)

    def _read_late(self) -> None:
        """Read on after the close, in the order in which it was sent; the client hears of no answer."""
        if self._late and not self._held:
            self._held = True
            self._handle(self._late.popleft(), self._answered_late)

    def _answered_late(self, _: Response) -> None:
        self._held = False
        self._timeline.after(0, self._read_late)

    def _handle(self, request: Request[Any], reply: Callable[[Response], None]) -> None:
        self._process.handle(self.node_id, request, reply, self._client_id)

    def _latency_ms(self) -> int:
        return self._random.choice(_LATENCIES_MS)

    def _arrive(self, request_id: int) -> None:
        if self._stalled:
            return
        request = self._travelling.pop(request_id, None)
        if request is None or not self.open:
            return
        self._unread.append((request_id, request))
        self._read()

    def _read(self) -> None:
        while self._unread and not self._held and self.open:
            request_id, request = self._unread.popleft()
            self._held = True
            self._handle(request, partial(self._answer, request_id))

    def _answer(self, request_id: int, response: Response) -> None:
        self._held = False
        if self.open and not self.blackhole:
            self._answers_ms = max(self._answers_ms, self._timeline.now_ms() + self._latency_ms())
            self._timeline.at(self._answers_ms, lambda: self._deliver(request_id, response))
        if self._unread:
            self._timeline.after(0, self._read)
        elif self._late:
            self._timeline.after(0, self._read_late)

    def _deliver(self, request_id: int, response: Response) -> None:
        if self.open and not self.blackhole:
            self._on_response(request_id, response)


def _nobody(_: Response) -> None: ...
