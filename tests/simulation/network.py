"""Carry requests and answers between members and brokers, late, torn or not at all."""

from collections import deque
from collections.abc import Callable
from functools import partial
from random import Random

from groupsdk.error_code import ErrorCode
from groupsdk.wire.messages.leave_group import LeaveGroupRequest
from groupsdk.wire.schema import Response
from tests.simulation.coordinator import GroupModel, GroupRequest
from tests.simulation.group import Reply
from tests.simulation.timeline import Timeline


class Broker:
    """One node. It coordinates the group, or it says that it does not."""

    def __init__(self, node_id: int) -> None:
        self.node_id = node_id
        self.group: GroupModel | None = None
        self.alive = True

    def handle(self, request: GroupRequest, reply: Reply) -> None:
        if self.group is not None:
            self.group.handle(request, reply)
        else:
            response_class = request.response_class
            reply(response_class(error_code=ErrorCode.NOT_COORDINATOR))  # type: ignore[call-arg]  # all four have it


class Connection:
    """One connection of one member: requests and answers keep their order on it.

    Like Kafka's, the broker reads no further request while it holds an answer back.
    """

    def __init__(
        self,
        timeline: Timeline,
        random: Random,
        broker: Broker,
        on_response: Callable[[int, Response], None],
        on_broken: Callable[[], None],
        *,
        harsh: bool,
    ) -> None:
        self.broker = broker
        self.open = True
        self.blackhole = False
        """Whether what is sent vanishes, without a sign."""
        self._timeline = timeline
        self._random = random
        self._on_response = on_response
        self._on_broken = on_broken
        self._harsh = harsh
        self._arrives_ms = 0
        self._answers_ms = 0
        self._held = False
        self._unread: deque[tuple[int, GroupRequest]] = deque()
        self._travelling: dict[int, GroupRequest] = {}

    def send(self, request_id: int, request: GroupRequest) -> None:
        if self.blackhole:
            return
        self._travelling[request_id] = request
        self._arrives_ms = max(self._arrives_ms, self._timeline.now_ms + self._latency_ms())
        self._timeline.at(self._arrives_ms, lambda: self._arrive(request_id))

    def close(self) -> None:
        """Close it from the member's side: what is on its way may still be read, or not."""
        if not self.open:
            return
        self.open = False
        # In a harsh world also a join is read after the member has long sent another one elsewhere.
        for request in (*self._travelling.values(), *(each for _, each in self._unread)):
            if self._random.random() < 0.5 and (
                self._harsh or isinstance(request, LeaveGroupRequest)
            ):
                self._timeline.after(
                    self._random.randrange(1, 3_000 if self._harsh else 50), self._late(request)
                )
        self._travelling.clear()
        self._unread.clear()

    def break_off(self) -> None:
        """Break in the middle: what is on its way was processed, or not, and has no answer."""
        if not self.open:
            return
        for request in list(self._travelling.values()):
            if self.broker.alive and self._random.random() < 0.5:
                self.broker.handle(request, _nobody)
        self._travelling.clear()
        self._unread.clear()
        self.open = False
        self._timeline.after(self._latency_ms(), self._on_broken)

    def _late(self, request: GroupRequest) -> Callable[[], None]:
        return lambda: self.broker.handle(request, _nobody) if self.broker.alive else None

    def _latency_ms(self) -> int:
        return self._random.choice((1, 1, 2, 3, 10, 40))

    def _arrive(self, request_id: int) -> None:
        request = self._travelling.pop(request_id, None)
        if request is None or not self.open or not self.broker.alive:
            return
        self._unread.append((request_id, request))
        self._read()

    def _read(self) -> None:
        while self._unread and not self._held and self.open:
            request_id, request = self._unread.popleft()
            self._held = True
            self.broker.handle(request, partial(self._answer, request_id))

    def _answer(self, request_id: int, response: Response) -> None:
        self._held = False
        if self.open and not self.blackhole:
            self._answers_ms = max(self._answers_ms, self._timeline.now_ms + self._latency_ms())
            self._timeline.at(self._answers_ms, lambda: self._deliver(request_id, response))
        self._timeline.after(0, self._read)

    def _deliver(self, request_id: int, response: Response) -> None:
        if self.open and not self.blackhole:
            self._on_response(request_id, response)


def _nobody(_: Response) -> None: ...
