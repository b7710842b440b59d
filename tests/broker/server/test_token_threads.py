"""Test that tokens are validated off the loop, a few at a time, within a limit of time."""

import threading
from collections.abc import Callable
from queue import SimpleQueue
from typing import Any

from pytest_mock import MockerFixture

from groupsdk.broker.coordinator.runtime.scheduler import Scheduler
from groupsdk.broker.server.token_threads import TokenThreads, Validated
from groupsdk.clock import ManualClock


def _raise(error: Exception) -> None:
    raise error


class Loop:
    """A loop that does what comes from threads when the test asks for it; its time stands still."""

    def __init__(self) -> None:
        self.clock = ManualClock()
        self.calls: SimpleQueue[Callable[[], Any]] = SimpleQueue()
        self.scheduler = Scheduler(self.clock, _raise)
        self.threads = TokenThreads(self.scheduler, self.calls.put)
        self.outcomes: list[Validated] = []
        self.go_on = threading.Event()
        self.begun = threading.Semaphore(0)

    def start(self, name: str) -> None:
        def run() -> Validated:
            self.begun.release()
            assert self.go_on.wait(60)
            return name, None

        self.threads.start(run, self.outcomes.append)


def test_eight_tokens_are_validated_at_a_time_and_the_others_wait() -> None:
    loop = Loop()
    for number in range(9):
        loop.start(str(number))
    for _ in range(8):
        assert loop.begun.acquire(timeout=60)
    assert not loop.begun.acquire(blocking=False)
    loop.go_on.set()
    for _ in range(9):
        loop.calls.get(timeout=60)()
    assert sorted(loop.outcomes, key=str) == [(str(number), None) for number in range(9)]


def test_tokens_that_are_not_validated_in_time_are_refused_once() -> None:
    loop = Loop()
    for number in range(9):
        loop.start(str(number))
    for _ in range(8):
        assert loop.begun.acquire(timeout=60)
    loop.clock.advance(10_000)
    loop.scheduler.run_due()
    assert loop.outcomes == [None] * 9
    loop.go_on.set()
    for _ in range(8):
        loop.calls.get(timeout=60)()
    assert loop.outcomes == [None] * 9
    # the one that waited is validated no more, and the next one is
    loop.start("next")
    loop.calls.get(timeout=60)()
    assert loop.outcomes[9:] == [("next", None)]


def test_tokens_are_refused_while_the_process_has_no_more_threads(mocker: MockerFixture) -> None:
    loop = Loop()
    mocker.patch.object(threading.Thread, "start", side_effect=RuntimeError("no more threads"))
    for number in range(9):
        loop.start(str(number))
    for _ in range(9):
        loop.calls.get(timeout=60)()
    assert loop.outcomes == [None] * 9
    mocker.stopall()
    loop.go_on.set()
    loop.start("next")
    loop.calls.get(timeout=60)()
    assert loop.outcomes[9:] == [("next", None)]


def test_a_closed_loop_is_no_error() -> None:
    def closed(_: Callable[[], Any]) -> None:
        done.set()
        raise RuntimeError("Event loop is closed")

    done = threading.Event()
    TokenThreads(Loop().scheduler, closed).start(lambda: None, lambda _: None)
    assert done.wait(60)
