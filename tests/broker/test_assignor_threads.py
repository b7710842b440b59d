"""Test that assignors run off the loop, one call at a time for each, within a limit of time."""

import sys
import threading
import time
from asyncio import CancelledError
from collections.abc import Callable, Mapping
from queue import SimpleQueue
from typing import Any

import pytest
from pytest_mock import MockerFixture
from typing_extensions import override

from groupsdk.broker.assignor_threads import AssignorThreads
from groupsdk.broker.coordinator.consumer.assignment_jobs import AssignmentJob, Outcome
from groupsdk.broker.coordinator.consumer.assignors import AssignorError, GroupSpec
from groupsdk.broker.coordinator.consumer.topics import Partitions
from groupsdk.broker.coordinator.runtime.scheduler import Scheduler
from groupsdk.clock import ManualClock
from tests.support.cases import each_case


NOBODY = GroupSpec(members={}, topics={}, is_homogeneous=True)


class Held:
    """An assignor whose calls return when the test says so."""

    def __init__(self, name: str = "held") -> None:
        self.name = name
        self.threads: list[str] = []
        self.begun = threading.Semaphore(0)
        self.go_on = threading.Semaphore(0)

    def assign(self, group: GroupSpec) -> Mapping[str, Partitions]:
        self.threads.append(threading.current_thread().name)
        self.begun.release()
        assert self.go_on.acquire(timeout=60)
        return {}


class Computes(Held):
    """One that takes CPU time, and then waits."""

    def __init__(self, cpu_s: float) -> None:
        super().__init__()
        self._cpu_s = cpu_s

    @override
    def assign(self, group: GroupSpec) -> Mapping[str, Partitions]:
        while time.thread_time() < self._cpu_s:
            pass
        return super().assign(group)


class Raises:
    """An assignor that raises."""

    name = "raises"

    def __init__(self, error: BaseException) -> None:
        self.error = error

    def assign(self, group: GroupSpec) -> Mapping[str, Partitions]:
        raise self.error


class _MuteError(Exception):
    """An error that cannot be shown."""

    @override
    def __str__(self) -> str:
        raise RuntimeError


class Loop:
    """A loop that does what comes from threads when the test asks for it; its time stands still."""

    def __init__(self, limit_ms: int = 1_000) -> None:
        self.clock = ManualClock()
        self.calls: SimpleQueue[Callable[[], Any]] = SimpleQueue()
        self.scheduler = Scheduler(self.clock, _raise)
        self.threads = AssignorThreads(self.scheduler, self.calls.put, lambda: limit_ms)
        self.outcomes: dict[str, Outcome] = {}

    def waits(self) -> bool:
        return self.threads.is_busy

    def start(self, assignor: Any, group_id: str) -> None:
        job = AssignmentJob(group_id, 2, assignor.name, assignor, NOBODY)
        self.threads.start(job, lambda outcome: self.outcomes.update({group_id: outcome}))

    def do_one(self) -> None:
        self.calls.get(timeout=60)()

    def pass_time(self, delta_ms: int) -> None:
        self.clock.advance(delta_ms)
        self.scheduler.run_due()


def _raise(error: Exception) -> None:
    raise error


def test_calls_of_one_assignor_come_one_after_the_other() -> None:
    loop, held, other = Loop(), Held(), Held("other")
    for group_id in ("a", "b"):
        loop.start(held, group_id)
    loop.start(other, "c")
    assert held.begun.acquire(timeout=60)
    assert other.begun.acquire(timeout=60)
    assert loop.outcomes == {}
    assert loop.waits()
    assert held.threads == ["groupsdk-assignor-held"]
    for assignor, group_id in ((held, "a"), (held, "b"), (other, "c")):
        assignor.go_on.release()
        loop.do_one()
        assert loop.outcomes[group_id] == {}
    assert not loop.waits()
    loop.pass_time(5_000)
    assert set(loop.outcomes) == {"a", "b", "c"}


def test_the_loop_waits_half_a_millisecond_for_the_interpreter_while_assignors_run() -> None:
    loop, held, other = Loop(), Held(), Held("other")
    usual_s = sys.getswitchinterval()
    for assignor, group_id in ((held, "a"), (other, "b")):
        loop.start(assignor, group_id)
        assert assignor.begun.acquire(timeout=60)
    assert sys.getswitchinterval() <= 0.000_5 < usual_s
    held.go_on.release()
    loop.do_one()
    assert sys.getswitchinterval() <= 0.000_5
    other.go_on.release()
    loop.do_one()
    assert sys.getswitchinterval() == usual_s


def test_a_slow_one_is_given_up_and_not_called_again_while_it_is_at_work() -> None:
    loop, held = Loop(), Held()
    for group_id in ("a", "b"):
        loop.start(held, group_id)
    assert held.begun.acquire(timeout=60)
    loop.pass_time(1_000)
    for group_id in ("a", "b"):
        assert "group.consumer.assignor.timeout.ms=1000" in str(loop.outcomes[group_id])
    loop.start(held, "c")
    loop.do_one()
    assert "has been running for 1000 ms for the group a" in str(loop.outcomes["c"])
    # what it says in the end is too late for everybody, and then it may be called again
    held.go_on.release()
    loop.do_one()
    assert isinstance(loop.outcomes["a"], AssignorError)
    loop.start(held, "d")
    held.go_on.release()
    loop.do_one()
    assert loop.outcomes["d"] == {}
    assert len(held.threads) == 2


def test_one_that_computes_has_its_limit_in_cpu_time_and_one_that_hangs_then_not() -> None:
    loop, assignor = Loop(), Computes(0.1)
    loop.start(assignor, "a")
    assert assignor.begun.acquire(timeout=60)
    loop.pass_time(1_000)
    assert loop.outcomes == {}
    loop.pass_time(1_000)
    assert "timeout.ms=1000" in str(loop.outcomes["a"])
    assignor.go_on.release()
    loop.do_one()


def test_one_that_took_its_limit_of_cpu_time_is_given_up() -> None:
    loop, assignor = Loop(limit_ms=100), Computes(0.2)
    loop.start(assignor, "a")
    assert assignor.begun.acquire(timeout=60)
    loop.pass_time(100)
    assert "timeout.ms=100" in str(loop.outcomes["a"])
    assignor.go_on.release()
    loop.do_one()


def test_an_assignor_is_called_again_once_the_process_has_threads_again(
    mocker: MockerFixture,
) -> None:
    loop, held = Loop(), Held()
    mocker.patch.object(threading.Thread, "start", side_effect=RuntimeError("no more threads"))
    loop.start(held, "a")
    assert loop.threads.is_busy
    loop.do_one()
    assert "cannot run: no more threads" in str(loop.outcomes["a"])
    mocker.stopall()
    held.go_on.release()
    loop.start(held, "b")
    loop.do_one()
    assert loop.outcomes["b"] == {}


def test_a_failure_is_an_outcome_and_a_closed_loop_no_error() -> None:
    broken = Raises(LookupError("no"))
    loop = Loop()
    loop.start(broken, "a")
    loop.do_one()
    assert str(loop.outcomes["a"]) == "assignor 'raises' raised LookupError: no"

    def closed(_: Callable[[], Any]) -> None:
        done.set()
        raise RuntimeError("Event loop is closed")

    done = threading.Event()
    threads = AssignorThreads(loop.scheduler, closed, lambda: 1_000)
    threads.start(AssignmentJob("a", 2, "raises", broken, NOBODY), lambda _: None)
    assert done.wait(60)


@each_case(
    "error",
    (
        SystemExit(3),
        KeyboardInterrupt(),
        GeneratorExit(),
        CancelledError(),
        pytest.fail.Exception("no"),
        _MuteError(),
    ),
)
def test_an_assignor_that_raises_anything_at_all_is_called_again(error: BaseException) -> None:
    loop, broken = Loop(), Raises(error)
    for group_id in ("a", "b"):
        loop.start(broken, group_id)
    for group_id in ("a", "b"):
        loop.do_one()
        assert type(error).__name__ in str(loop.outcomes[group_id])
        assert isinstance(loop.outcomes[group_id], AssignorError)
    assert not loop.waits()
