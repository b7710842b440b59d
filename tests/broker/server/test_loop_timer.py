"""Tests the event loop's part in timers: the first call wakes it, and a test's clock only for what is due at once."""

import asyncio
from collections import deque
from collections.abc import Callable
from typing import Any, cast

from groupsdk.broker.coordinator.runtime.scheduler import Scheduler
from groupsdk.broker.server.broker import LoopTimer
from groupsdk.clock import ManualClock, SystemClock


def failed(error: Exception) -> None:
    """Ends the test: no call here is to fail."""
    raise error


def test_calls_are_made_in_their_order_whenever_they_were_put_in() -> None:
    async def run() -> list[str]:
        done = asyncio.Event()
        calls: list[str] = []
        scheduler = Scheduler(SystemClock(), failed)

        def last() -> None:
            calls.append("last")
            done.set()

        scheduler.after(2, lambda: calls.append("before the timer"))
        timer = LoopTimer(asyncio.get_running_loop(), scheduler)
        scheduler.after(4, last)
        scheduler.after(0, lambda: calls.append("at once"))
        await asyncio.wait_for(done.wait(), 60)
        timer.close()
        return calls

    assert asyncio.run(run()) == ["at once", "before the timer", "last"]


def test_with_a_clock_of_the_tests_what_is_due_at_once_is_called_and_nothing_else() -> None:
    async def run() -> list[str]:
        calls: list[str] = []
        scheduler = Scheduler(ManualClock(1_000), failed)
        timer = LoopTimer(asyncio.get_running_loop(), scheduler, waits=False)
        more = asyncio.Event()

        def second() -> None:
            calls.append("what it put in")
            more.set()

        def first() -> None:
            calls.append("first")
            scheduler.after(0, second)

        scheduler.after(1, lambda: calls.append("never"))
        scheduler.after(0, first)
        await asyncio.wait_for(more.wait(), 60)
        timer.close()
        return calls

    assert asyncio.run(run()) == ["first", "what it put in"]


def test_nothing_is_called_after_the_end() -> None:
    async def run() -> list[str]:
        calls: list[str] = []
        scheduler = Scheduler(SystemClock(), failed)
        timer = LoopTimer(asyncio.get_running_loop(), scheduler)
        scheduler.after(0, timer.close)
        scheduler.after(0, lambda: scheduler.after(0, lambda: calls.append("too late")))
        for _ in range(20):
            await asyncio.sleep(0)
        return calls

    assert asyncio.run(run()) == []


class StalledLoop:
    """An event loop as asyncio's in virtual time: calls, then what was polled, then timers; sockets can hold data."""

    def __init__(self, clock: ManualClock) -> None:
        self.clock = clock
        self.ready: deque[Callable[[], Any]] = deque()
        self.timers: list[tuple[int, Callable[[], Any]]] = []
        self.received: list[Callable[[], Any]] = []

    def call_soon(self, call: Callable[..., Any], *arguments: Any) -> asyncio.Handle:
        """Adds a call to the next iteration."""
        self.ready.append(lambda: call(*arguments))
        return cast("asyncio.Handle", self)

    def call_later(self, delay_s: float, call: Callable[[], Any]) -> asyncio.Handle:
        self.timers.append((self.clock.now_ms() + int(delay_s * 1000), call))
        return cast("asyncio.Handle", self)

    def cancel(self) -> None:
        """Is a handle, too; no test needs one cancelled."""

    def run_once(self) -> None:
        """Polls, and makes the calls of one iteration."""
        self.ready.extend(self.received)
        self.received.clear()
        now_ms = self.clock.now_ms()
        self.ready.extend(call for at_ms, call in self.timers if at_ms <= now_ms)
        self.timers = [each for each in self.timers if each[0] > now_ms]
        for _ in range(len(self.ready)):
            self.ready.popleft()()


class Session:
    """A member's session of 6 s, which expires by a timer; as in a coordinator, the timer may come too early."""

    def __init__(self) -> None:
        self.clock = ManualClock(1_000)
        self.loop = StalledLoop(self.clock)
        self.scheduler = Scheduler(self.clock, failed)
        self.waiting: list[Callable[[], Any]] = []
        """The requests that wait in the broker."""
        loop = cast("asyncio.AbstractEventLoop", self.loop)
        self.timer = LoopTimer(loop, self.scheduler, self.after_requests)
        self.expired_at: list[int] = []
        self.heartbeat()

    def heartbeat(self) -> None:
        """Renews the session."""
        self.deadline_ms = self.clock.now_ms() + 6_000
        self.scheduler.at(self.deadline_ms, self.expire)

    def expire(self) -> None:
        """Ends the session if it was not renewed."""
        if self.deadline_ms <= self.scheduler.due_ms():
            self.expired_at.append(self.clock.now_ms())

    def after_requests(self, call: Callable[[], Any]) -> None:
        """Makes a call after the requests that wait; the loop takes another iteration for them."""
        waiting, self.waiting = self.waiting, []
        if not waiting:
            call()
            return
        for each in waiting:
            self.loop.call_soon(each)
        self.loop.call_soon(call)

    def stall(self, duration_ms: int, heartbeat_after_ms: int) -> Callable[[], None]:
        """Returns a call that holds the loop, while a heartbeat arrives."""

        def hold() -> None:
            self.clock.advance(heartbeat_after_ms)
            self.loop.received.append(self.heartbeat)
            self.clock.advance(duration_ms - heartbeat_after_ms)

        return hold


def test_a_heartbeat_received_during_a_stall_is_read_before_the_session_expires() -> None:
    session = Session()
    session.clock.advance(5_999)
    # the timer is found due after the poll, and the process is stopped before it is called
    session.loop.ready.append(session.stall(5_000, 0))
    session.loop.timers = [(0, call) for _, call in session.loop.timers]
    for _ in range(6):
        session.loop.run_once()
    assert session.expired_at == []
    assert session.deadline_ms == 1_000 + 5_999 + 5_000 + 6_000


def test_a_connection_accepted_after_a_stall_is_read_before_the_session_expires() -> None:
    session = Session()
    session.clock.advance(10_000)
    # the first iteration accepts it, and the next one can read
    session.loop.received.append(lambda: session.loop.received.append(session.heartbeat))
    for _ in range(6):
        session.loop.run_once()
    assert session.expired_at == []


def test_a_session_without_a_heartbeat_expires_after_a_stall() -> None:
    session = Session()
    session.clock.advance(10_000)
    for _ in range(6):
        session.loop.run_once()
    assert session.expired_at == [11_000]


def test_a_stall_while_sockets_are_read_does_not_count_against_sessions() -> None:
    session = Session()
    session.clock.advance(5_500)
    session.loop.ready.append(session.stall(400, 0))
    session.loop.run_once()
    session.clock.advance(100)  # 6,000 ms: the timer is due, and the heartbeat is read first
    for _ in range(6):
        session.loop.run_once()
    assert session.expired_at == []


def test_without_a_stall_timers_run_at_once() -> None:
    session = Session()
    session.clock.advance(6_050)
    session.loop.run_once()
    assert session.expired_at == [7_050]


def test_a_heartbeat_that_waits_in_the_broker_comes_before_the_session_expires() -> None:
    session = Session()
    session.clock.advance(5_999)
    session.waiting.append(session.heartbeat)
    session.clock.advance(1)
    for _ in range(3):
        session.loop.run_once()
    assert session.expired_at == []
    session.clock.advance(6_000)
    for _ in range(3):
        session.loop.run_once()
    assert session.expired_at == [session.clock.now_ms()]
