"""Tests the event loop's part in timers: the first call wakes it, and a test's clock only for what is due at once."""

import asyncio

from groupsdk.broker.runtime.scheduler import Scheduler
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
        await asyncio.wait_for(done.wait(), 10)
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
        await asyncio.wait_for(more.wait(), 10)
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
