"""Members with heartbeat="process" on a real broker: what the child keeps up, and what it may not."""

import ctypes
import os
import signal
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from groupsdk.clock import SystemClock
from groupsdk.errors import EngineError
from groupsdk.testing import LocalKafka
from tests.support.groups import describe_group
from tests.support.workers import (
    TIMEOUT_S,
    Entry,
    RecordingMember,
    WorkerProcess,
    eventually,
)


NewWorker = Callable[..., WorkerProcess]


@pytest.fixture
def new_worker(kafka: LocalKafka, group_id: str, tmp_path: Path) -> Iterator[NewWorker]:
    """Start workers with a child process each; they are killed at the end."""
    started: list[WorkerProcess] = []

    def start(**settings: Any) -> WorkerProcess:
        defaults: dict[str, Any] = {
            "bootstrap_servers": kafka.bootstrap_servers,
            "group_id": group_id,
            "heartbeat": "process",
            "heartbeat_interval_ms": 100,
            "session_timeout_ms": 1_500,
        }
        started.append(WorkerProcess(tmp_path / f"{len(started)}", **(defaults | settings)))
        started[-1].__enter__()
        return started[-1]

    yield start
    for worker in started:
        worker.__exit__()


def _generation(worker: WorkerProcess) -> int:
    """Return the generation that the worker acted under last; 0 while it may not act."""
    ledger = worker.ledger()
    return ledger[-1].generation if ledger and ledger[-1].kind == "acting" else 0


def _await_together(one: WorkerProcess, two: WorkerProcess) -> int:
    def look() -> int:
        generation = _generation(one)
        return generation if generation == _generation(two) else 0

    return eventually(look, lambda: (one.ledger()[-3:], two.ledger()[-3:]))


def _await_later(worker: WorkerProcess, generation: int) -> int:
    return eventually(
        lambda: _generation(worker) if _generation(worker) > generation else 0,
        lambda: worker.ledger()[-3:],
    )


def _since(worker: WorkerProcess, at_ms: int) -> list[Entry]:
    return [act for act in worker.acts() if act.at_ms >= at_ms]


def test_native_code_that_holds_the_interpreter_for_longer_than_the_session_costs_nothing(
    kafka: LocalKafka, group_id: str
) -> None:
    with RecordingMember(
        bootstrap_servers=kafka.bootstrap_servers,
        group_id=group_id,
        heartbeat="process",
        session_timeout_ms=6_000,
    ) as member:
        assert member.ensure_active_group(TIMEOUT_S)
        generation = member.generation()
        callbacks = list(member.callbacks)
        # PyDLL, unlike CDLL, keeps the interpreter's lock while the function runs.
        ctypes.PyDLL(None).usleep(8_000_000)
        assert member.ensure_active_group(TIMEOUT_S)
        assert member.generation_if_stable() == generation
        assert member.callbacks == callbacks
        assert describe_group(kafka.bootstrap_servers, group_id).state == "Stable"


def test_a_pause_longer_than_the_session_and_shorter_than_the_poll_interval_costs_nothing(
    new_worker: NewWorker,
) -> None:
    one, two = new_worker(session_timeout_ms=6_000), new_worker(session_timeout_ms=6_000)
    generation = _await_together(one, two)
    one.pause()
    paused_ms = SystemClock().now_ms()
    eventually(lambda: two.acts()[-1].at_ms > paused_ms + 8_000)
    assert _generation(two) == generation
    one.resume()
    resumed_ms = SystemClock().now_ms()
    eventually(lambda: _since(one, resumed_ms))
    assert {act.generation for act in _since(one, resumed_ms)} == {generation}
    assert one.terminate() == 0
    assert two.terminate() == 0


@pytest.mark.parametrize("with_children", [False, True], ids=["caller", "caller-and-child"])
def test_paused_past_its_deadlines_it_does_not_act_on_what_it_had(
    new_worker: NewWorker, with_children: bool
) -> None:
    one = new_worker(max_poll_interval_ms=1_500)
    two = new_worker()
    _await_together(one, two)
    one.pause(with_children=with_children)
    old = one.acts()[-1].generation
    _await_later(two, old)
    resumed_ms = SystemClock().now_ms()
    one.resume()
    _await_later(one, old)
    assert all(act.generation > old for act in _since(one, resumed_ms))
    last = max(act.at_ms for act in one.acts() + two.acts() if act.generation <= old)
    first = min(act.at_ms for act in one.acts() + two.acts() if act.generation > old)
    assert last <= first
    lost = [entry for entry in one.ledger() if entry.kind == "on_join_prepare"][-1]
    assert lost.at_ms >= resumed_ms


def test_a_child_that_is_stopped_takes_the_belief_away(new_worker: NewWorker) -> None:
    one, two = new_worker(), new_worker()
    old = _await_together(one, two)
    (child,) = one.children
    os.kill(child, signal.SIGSTOP)
    _await_later(two, old)
    # The caller's loop went on all the time, and stopped to act by its own clock.
    last = max(act.at_ms for act in one.acts())
    assert last <= min(act.at_ms for act in two.acts() if act.generation > old)
    os.kill(child, signal.SIGCONT)
    _await_later(one, old)


def test_a_caller_that_is_killed_takes_its_child_along_and_leaves(
    new_worker: NewWorker, kafka: LocalKafka, group_id: str
) -> None:
    # A session that would outlast the test: only a leave hands the work over in time.
    one, two = new_worker(session_timeout_ms=60_000), new_worker()
    old = _await_together(one, two)
    (child,) = one.children
    one.kill()
    _await_later(two, old)
    eventually(lambda: not Path(f"/proc/{child}").exists())
    assert len(describe_group(kafka.bootstrap_servers, group_id).member_ids) == 1


def test_a_child_that_is_killed_is_told_to_the_caller(kafka: LocalKafka, group_id: str) -> None:
    member = RecordingMember(
        bootstrap_servers=kafka.bootstrap_servers, group_id=group_id, heartbeat="process"
    )
    with member:
        before = set(_children())
        assert member.ensure_active_group(TIMEOUT_S)
        (child,) = set(_children()) - before
        os.kill(child, signal.SIGKILL)
        with pytest.raises(EngineError, match="SIGKILL"):
            eventually(lambda: member.poll(0.05) and False)
        assert member.generation_if_stable() is None
        with pytest.raises(EngineError):
            member.ensure_active_group(TIMEOUT_S)


def _children() -> list[int]:
    tasks = Path(f"/proc/{os.getpid()}/task").glob("*/children")
    return [int(child) for task in tasks for child in task.read_text().split()]
