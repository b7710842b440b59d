"""Tests the share of the loop's time that long tasks have, by a clock that only the tests move."""

from collections import deque
from collections.abc import Callable
from typing import Any

import pytest

from groupsdk.broker.coordinator.runtime.loop_share import SLICE_NS, Activity, Lane, Share


REQUEST_NS = 100_000
STEP_NS = 200_000


class Loop:
    """An event loop in virtual time: it polls sockets, and then makes the calls that are due, as asyncio does."""

    def __init__(self, *, percent: int = 10, is_for_clients: bool = False) -> None:
        self.now_ns = 0
        self.activity = Activity()
        self.ready: deque[Callable[[], Any]] = deque()
        self.timers: list[tuple[float, Callable[[], Any]]] = []
        self.requests_per_poll = 0
        self.served = 0
        self.history: list[str] = []
        self.lane = Lane(
            Share(percent),
            self.activity,
            lambda call: self.ready.append(lambda: self.ready.append(call)),
            lambda delay_s, call: self.timers.append((self.now_ns + delay_s * 1e9, call)),
            is_for_clients=is_for_clients,
            clock_ns=lambda: self.now_ns,
        )

    def serve(self) -> None:
        self.now_ns += REQUEST_NS
        self.activity.short += 1
        self.served += 1
        self.history.append("request")

    def step(self) -> None:
        """Does one step of a task that never ends."""
        self.now_ns += STEP_NS
        self.history.append("step")
        self.lane.add(self.step)

    def run_once(self) -> None:
        """Runs one iteration; if there is nothing to do, time passes until there is."""
        if not self.ready and not self.requests_per_poll and self.timers:
            self.now_ns = max(self.now_ns, int(min(self.timers)[0]))
        self.ready.extend([self.serve] * self.requests_per_poll)
        due = [each for each in self.timers if each[0] <= self.now_ns]
        self.timers = [each for each in self.timers if each[0] > self.now_ns]
        self.ready.extend(call for _, call in due)
        for _ in range(len(self.ready)):
            self.ready.popleft()()

    def share_of_steps(self, duration_ns: int) -> float:
        """Runs it for so long. Returns the steps' part of the time."""
        start_ns, before = self.now_ns, self.history.count("step")
        while self.now_ns < start_ns + duration_ns:
            self.run_once()
        steps = self.history.count("step") - before
        return steps * STEP_NS / (self.now_ns - start_ns)


@pytest.mark.parametrize("percent", [10, 50])
def test_a_task_beside_a_busy_client_has_its_share_of_the_time(percent: int) -> None:
    loop = Loop(percent=percent)
    loop.requests_per_poll = 1
    loop.lane.add(loop.step)
    assert percent * 0.8 < 100 * loop.share_of_steps(1_000_000_000) < percent * 1.2


def test_a_task_beside_a_busy_client_runs_in_slices_and_not_between_any_two_requests() -> None:
    loop = Loop()
    loop.requests_per_poll = 1
    loop.lane.add(loop.step)
    loop.share_of_steps(100_000_000)
    runs = "".join(each[0] for each in loop.history).split("r")
    slices = [each for each in runs if each]
    assert max(map(len, slices)) <= SLICE_NS // STEP_NS + 1
    assert len(slices) < len(runs) / 10


def test_a_task_without_clients_has_all_the_time_and_the_loop_polls_after_each_slice() -> None:
    loop = Loop()
    loop.lane.add(loop.step)
    assert loop.share_of_steps(100_000_000) == pytest.approx(1)
    loop.history.clear()
    loop.requests_per_poll = 1
    for _ in range(3):
        loop.run_once()
    assert loop.history.index("request") <= SLICE_NS // STEP_NS


def test_a_task_on_an_overloaded_loop_does_not_starve() -> None:
    loop = Loop()
    loop.requests_per_poll = 400  # an iteration takes 40 ms
    loop.lane.add(loop.step)
    assert 0.05 < loop.share_of_steps(4_000_000_000) < 0.12


def test_a_stall_within_a_slice_does_not_hold_the_task_for_long() -> None:
    share = Share(10)
    share.spent(0, 3_600_000_000_000, served=1)
    assert share.wait_ns(3_600_000_000_000, served=2) == 1_000_000_000


def test_the_steps_of_several_tasks_alternate() -> None:
    loop = Loop()
    done: list[str] = []

    def task(name: str, left: int) -> None:
        done.append(name)
        if left:
            loop.lane.add(lambda: task(name, left - 1))

    loop.lane.add(lambda: task("a", 2))
    loop.lane.add(lambda: task("b", 2))
    while loop.ready:
        loop.run_once()
    assert "".join(done) == "ababab"


def test_a_step_that_raises_does_not_stop_the_other_tasks(caplog: pytest.LogCaptureFixture) -> None:
    loop = Loop()
    done: list[str] = []

    def fail() -> None:
        raise RuntimeError("a bug")

    loop.lane.add(fail)
    loop.lane.add(lambda: done.append("other"))
    while loop.ready:
        loop.run_once()
    assert done == ["other"]
    assert "a step of a long task failed" in caplog.text


def test_upkeep_waits_for_long_requests_and_these_only_for_short_ones() -> None:
    loop = Loop(percent=50, is_for_clients=True)
    upkeep: list[int] = []

    def clean() -> None:
        upkeep.append(loop.history.count("step"))
        loop.now_ns += STEP_NS
        lane.add(clean)

    lane = Lane(
        Share(10),
        loop.activity,
        lambda call: loop.ready.append(lambda: loop.ready.append(call)),
        lambda delay_s, call: loop.timers.append((loop.now_ns + delay_s * 1e9, call)),
        is_for_clients=False,
        clock_ns=lambda: loop.now_ns,
    )
    loop.lane.add(loop.step)
    lane.add(clean)
    assert loop.share_of_steps(1_000_000_000) > 0.85
    assert upkeep, "upkeep starves"


def test_a_call_after_what_waits_is_made_at_once_only_if_nothing_does() -> None:
    loop = Loop(is_for_clients=True)
    loop.lane.after_waiting(lambda: loop.history.append("alone"))
    assert loop.history == ["alone"]
    loop.lane.add(lambda: loop.history.append("first"))
    loop.lane.after_waiting(lambda: loop.history.append("call"))
    loop.lane.add(lambda: loop.history.append("second"))
    assert loop.history == ["alone"]
    for _ in range(3):
        loop.run_once()
    assert loop.history == ["alone", "first", "call", "second"]


def test_steps_of_a_group_wait_until_the_last_was_called() -> None:
    loop = Loop(is_for_clients=True)
    for _ in range(2):
        loop.lane.add(loop.serve, "forming")
    assert loop.lane.has_waiting("forming")
    assert not loop.lane.has_waiting("other")
    while loop.served < 2:
        assert loop.lane.has_waiting("forming")
        loop.run_once()
    assert not loop.lane.has_waiting("forming")


def test_steps_of_one_group_do_not_hold_up_those_of_another() -> None:
    loop = Loop(percent=50, is_for_clients=True)
    called: list[str] = []

    def add(name: str, group: str) -> None:
        loop.lane.add(lambda: called.append(name), group)

    for number in range(1_000):
        add(f"forming {number}", "forming")
    add("join", "other")
    add("commit", "")
    loop.lane.after_waiting(lambda: called.append("timer"))
    add("later", "other")
    for _ in range(2_000):
        loop.run_once()
    assert called[:6] == ["forming 0", "join", "commit", "forming 1", "forming 2", "later"]
    assert [each for each in called if each.startswith("forming")] == [
        f"forming {number}" for number in range(1_000)
    ]
    assert called[-1] == "timer"
    assert len(called) == 1_004
