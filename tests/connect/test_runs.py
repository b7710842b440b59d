"""Holds single runs: how they end, and what a process does when its worker dies."""

import asyncio
import signal
import subprocess
import sys
import threading
import time
from pathlib import Path

import pytest

from groupsdk.connect.errors import TaskFencedError
from groupsdk.connect.runs import (
    AsyncStop,
    CoroutineRun,
    LeasedStop,
    LoopThread,
    ProcessRun,
    Run,
    TaskJob,
    ThreadRun,
    fenced,
)
from groupsdk.connect.task import Task, TaskState
from tests.connect.workers import Counting, Failing, Separate, Waiting, eventually


ROOT = Path(__file__).resolve().parents[2]


class Ends:
    """Notes commits and the end."""

    def __init__(self) -> None:
        self.states: list[TaskState] = []
        self.traces: list[str | None] = []
        self.over = threading.Event()

    def commit(self, state: TaskState) -> None:
        self.states.append(state)

    def ended(self, trace: str | None) -> None:
        self.traces.append(trace)
        self.over.set()


def job(kind: type) -> TaskJob:
    """A job of a kind of connector."""
    return TaskJob(kind, "run", {}, Task("only"), 7, {"count": 40})


@pytest.mark.parametrize("kind", [ThreadRun, ProcessRun])
def test_a_run_commits_from_its_state_on_and_ends_when_told(
    kind: type[ThreadRun] | type[ProcessRun],
) -> None:
    ends = Ends()
    run = kind(job(Counting if kind is ThreadRun else Separate), ends.commit, ends.ended)
    run.start()
    eventually(lambda: len(ends.states) > 2)
    assert ends.states[0] == {"count": 41}
    assert not run.wait(0)
    run.stop()
    assert run.wait(20)
    assert ends.over.wait(20)
    assert ends.traces == [None]


@pytest.mark.parametrize("kind", [ThreadRun, ProcessRun])
def test_what_it_raises_is_told_with_its_trace(kind: type[ThreadRun] | type[ProcessRun]) -> None:
    ends = Ends()
    run: Run = kind(job(Failing), ends.commit, ends.ended)
    run.start()
    assert ends.over.wait(20)
    assert ends.traces[0] is not None
    assert "this one always fails" in ends.traces[0]


def test_a_coroutine_is_cancelled_where_it_does_not_end() -> None:
    loop, ends = LoopThread(), Ends()
    run = CoroutineRun(job(Waiting), ends.commit, ends.ended, loop)
    run.start()
    eventually(lambda: ends.states)
    assert run.kill()
    assert ends.traces[0] is not None
    assert "CancelledError" in ends.traces[0]
    loop.close()


def test_a_process_is_ended_by_force_and_its_fenced_commits_are_refused() -> None:
    ends = Ends()
    run = ProcessRun(job(Separate), fenced, ends.ended)
    run.start()
    assert ends.over.wait(30)
    assert ends.traces[0] is not None
    assert "TaskFencedError" in ends.traces[0]
    other = Ends()
    killed = ProcessRun(job(Separate), other.commit, other.ended)
    killed.start()
    eventually(lambda: other.states)
    assert killed.kill()
    assert other.traces == ["the process of the task ended with status -9"]


def test_a_fenced_task_keeps_nothing() -> None:
    with pytest.raises(TaskFencedError):
        fenced({})


def test_a_stop_signal_of_coroutines_waits_as_long_as_it_is_told() -> None:
    async def look() -> tuple[bool, bool]:
        stop = AsyncStop()
        before = await stop.wait(0.001)
        stop.set()
        return before, await stop.wait()

    assert asyncio.run(look()) == (False, True)


def test_a_stop_signal_looks_at_the_clock_itself() -> None:
    held = [True, True, False, True]
    stop = LeasedStop(lambda: held.pop(0))
    assert not stop.is_set()
    assert not stop.wait(0.001)
    assert stop.wait(0.001)
    # once set it stays so
    assert stop.is_set()
    assert held == [True]

    async def look() -> list[bool]:
        again = [True, False]
        signal = AsyncStop(lambda: again.pop(0))
        return [await signal.wait(0.001), await signal.wait(0.001), signal.is_set()]

    assert asyncio.run(look()) == [False, True, True]


_ORPHAN = """
import sys, time
from pathlib import Path
from groupsdk.connect.runs import ProcessRun, TaskJob
from groupsdk.connect.task import Task
from tests.connect.workers import Separate
if __name__ == "__main__":
    path = Path(sys.argv[1])
    run = ProcessRun(
        TaskJob(Separate, "run", {}, Task("only"), 7, None),
        lambda state: path.write_text(str(run._process.pid)),
        lambda trace: None,
    )
    run.start()
    time.sleep(60)
"""


def test_when_the_worker_is_killed_its_processes_end_at_once(tmp_path: Path) -> None:
    script, said = tmp_path / "orphan.py", tmp_path / "pid"
    script.write_text(_ORPHAN)
    worker = subprocess.Popen(
        [sys.executable, str(script), str(said)], env={"PYTHONPATH": str(ROOT)}, cwd=ROOT
    )
    try:
        child = int(eventually(lambda: said.exists() and said.read_text()))
        worker.send_signal(signal.SIGKILL)
        worker.wait()
        before = time.monotonic_ns()
        eventually(lambda: not Path(f"/proc/{child}/cmdline").exists() or _is_dead(child))
        assert time.monotonic_ns() - before < 10_000_000_000
    finally:
        worker.kill()
        worker.wait()


def _is_dead(pid: int) -> bool:
    try:
        return "\nState:\tZ" in Path(f"/proc/{pid}/status").read_text()
    except FileNotFoundError:
        return True
