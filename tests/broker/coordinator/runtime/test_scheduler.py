"""Tests the heap of everything that waits."""

import random

from groupsdk.broker.coordinator.runtime.scheduler import Scheduler, Timer
from groupsdk.clock import ManualClock


class Rig:
    """A scheduler on a clock of its own."""

    def __init__(self) -> None:
        self.clock = ManualClock(100)
        self.failures: list[Exception] = []
        self.scheduler = Scheduler(self.clock, self.failures.append)
        self.made: list[object] = []

    def at(self, at_ms: int, what: object) -> Timer:
        """Notes `what` at a time."""
        return self.scheduler.at(at_ms, lambda: self.made.append(what))


def test_due_calls_run_in_the_order_of_time() -> None:
    rig = Rig()
    for at_ms in (130, 110, 120, 110):
        rig.at(at_ms, at_ms)
    assert rig.scheduler.next_ms == 110
    rig.clock.advance(20)
    assert rig.scheduler.run_due() == 3
    assert rig.made == [110, 110, 120]
    assert rig.scheduler.next_ms == 130


def test_late_call_runs_at_once_and_only_once() -> None:
    rig = Rig()
    rig.at(5, "late")
    assert rig.scheduler.run_due() == 1
    assert rig.scheduler.run_due() == 0
    assert rig.scheduler.next_ms is None


def test_cancelled_call_does_not_run() -> None:
    rig = Rig()
    timer, _ = rig.at(100, "a"), rig.at(100, "b")
    timer.cancel()
    timer.cancel()
    rig.scheduler.run_due()
    assert rig.made == ["b"]


def test_a_call_that_schedules_for_now_does_not_go_on_for_ever() -> None:
    rig = Rig()

    def again() -> None:
        rig.made.append("again")
        rig.scheduler.at(0, again)

    rig.scheduler.after(0, again)
    assert rig.scheduler.run_due() == 1
    assert rig.scheduler.run_due() == 1
    assert rig.made == ["again", "again"]


def test_one_failure_stops_no_other_call() -> None:
    rig = Rig()
    failure = ValueError("broken")

    def fail() -> None:
        raise failure

    rig.scheduler.at(90, fail)
    rig.at(95, "fine")
    assert rig.scheduler.run_due() == 2
    assert rig.made == ["fine"]
    assert rig.failures == [failure]


def test_earlier_next_call_is_reported() -> None:
    rig = Rig()
    told: list[int] = []
    rig.scheduler.on_earlier = told.append
    for at_ms in (500, 600, 400, 450):
        rig.at(at_ms, at_ms)
    assert told == [500, 400]


def test_thousands_of_cancelled_timers_take_no_room() -> None:
    rig = Rig()
    for n in range(10_000):
        rig.at(1_000 + n, n).cancel()
    rig.at(5_000, "kept")
    assert len(rig.scheduler) < 200
    rig.clock.advance(100_000)
    rig.scheduler.run_due()
    assert rig.made == ["kept"]


def test_scheduler_agrees_with_a_sorted_list() -> None:
    chance = random.Random(3)
    rig = Rig()
    model: list[tuple[int, int]] = []
    timers: dict[int, Timer] = {}
    for n in range(2_000):
        at_ms = rig.clock.now_ms() + chance.randint(1, 50)
        timers[n] = rig.at(at_ms, n)
        model.append((at_ms, n))
        if chance.random() < 0.3:
            gone = chance.choice(list(timers))
            timers.pop(gone).cancel()
            model = [each for each in model if each[1] != gone]
        if chance.random() < 0.2:
            rig.clock.advance(chance.randint(0, 20))
            rig.scheduler.run_due()
            due = sorted(each for each in model if each[0] <= rig.clock.now_ms())
            assert rig.made == [each[1] for each in due]
            rig.made.clear()
            model = [each for each in model if each not in due]
            for _, done in due:
                timers.pop(done, None)
            assert rig.scheduler.next_ms == min((each[0] for each in model), default=None)
