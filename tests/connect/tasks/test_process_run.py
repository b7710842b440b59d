"""Holds tasks in processes: what ends them, also when their worker is suspended or killed."""

import multiprocessing
import signal
import subprocess
import sys
import threading
from pathlib import Path
from typing import Any

import pytest
from typing_extensions import override

from groupsdk.broker.embedded import EmbeddedBroker
from groupsdk.clock import ManualClock
from groupsdk.connect.tasks.process_run import ProcessRun, SharedLease
from groupsdk.connect.tasks.runs import fenced
from groupsdk.connect.tasks.task import Task, TaskContext, TaskState
from tests.connect.crew import Crew
from tests.connect.tasks.test_runs import Ends, job
from tests.connect.workers import ActingApart, DeafApart, Separate, eventually


ROOT = Path(__file__).resolve().parents[3]
_NEVER_MS = 2**62


class Leased:
    """A run under a lease."""

    def __init__(self, kind: type) -> None:
        self.lease = SharedLease()
        self.lapsed = threading.Event()
        self.ends = Ends()
        self.run = ProcessRun(job(kind), self.commit, self.ends.ended, self.lease, self.lapsed.set)
        self.run.start()

    def commit(self, state: TaskState) -> None:
        self.ends.commit(state)


def test_a_process_is_ended_by_force_and_its_fenced_commits_are_refused() -> None:
    ends = Ends()
    run = ProcessRun(job(Separate), fenced, ends.ended)
    run.start()
    assert "TaskFencedError" in ends.trace()
    other = Ends()
    killed = ProcessRun(job(Separate), other.commit, other.ended)
    killed.start()
    eventually(lambda: other.states)
    assert killed.kill()
    assert other.traces == ["the process of the task exited with status -9"]


class _Unreadable:
    """An object that can be sent, and not read."""

    @override
    def __reduce__(self) -> tuple[type, tuple[str]]:
        return int, ("not a number",)


class SendsUnreadable(Separate):
    """Commits a state that its worker cannot read."""

    @override
    def run(self, task: Task, context: TaskContext) -> None:
        context.commit({"state": _Unreadable()})


def test_a_state_that_cannot_be_read_fails_the_task() -> None:
    ends = Ends()
    ProcessRun(job(SendsUnreadable), ends.commit, ends.ended).start()
    assert "sent an object that cannot be read here: ValueError" in ends.trace()


def test_its_task_is_told_to_end_when_the_lease_does_not_hold() -> None:
    leased = Leased(Separate)
    eventually(lambda: len(leased.ends.states) > 2)
    assert not leased.lapsed.is_set()
    leased.lease.renew(0, _NEVER_MS)
    assert leased.ends.over.wait(60)
    assert leased.lapsed.is_set()


def test_its_token_is_refused_when_the_lease_does_not_hold() -> None:
    leased = Leased(ActingApart)
    leased.lease.renew(0, _NEVER_MS)
    assert "the worker's session expired: another worker may run" in leased.ends.trace()
    assert leased.lapsed.is_set()


def test_process_run_ends_when_its_lease_is_over() -> None:
    leased = Leased(DeafApart)
    eventually(lambda: leased.ends.states)
    leased.lease.renew(0, 0)
    assert leased.ends.trace() == "the process of the task exited with status 71"
    assert leased.lapsed.is_set()


class Suspended(Leased):
    """A run whose worker does not answer."""

    def __init__(self) -> None:
        self.asked, self.goes_on = threading.Event(), threading.Event()
        super().__init__(Separate)

    @override
    def commit(self, state: TaskState) -> None:
        self.asked.set()
        self.goes_on.wait(120)


def test_a_commit_to_a_worker_that_does_not_answer_is_refused_with_the_lease() -> None:
    leased = Suspended()
    assert leased.asked.wait(60)
    leased.lease.renew(0, _NEVER_MS)
    process = leased.run._process
    assert process is not None
    eventually(lambda: not process.is_alive())
    leased.goes_on.set()
    assert "the state is discarded" in leased.ends.trace()
    assert leased.lapsed.is_set()


_ORPHAN = """
import sys, time
from pathlib import Path
from groupsdk.connect.tasks.process_run import ProcessRun
from groupsdk.connect.tasks.runs import TaskJob
from groupsdk.connect.tasks.task import Task
from tests.connect.workers import DeafApart
if __name__ == "__main__":
    path = Path(sys.argv[1])
    run = ProcessRun(
        TaskJob(
            connector=DeafApart, name="run", config={}, task=Task("only"), generation=7, state=None
        ),
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
        eventually(lambda: _is_dead(child))
    finally:
        worker.kill()
        worker.wait()


def _is_dead(pid: int) -> bool:
    try:
        return "\nState:\tZ" in Path(f"/proc/{pid}/status").read_text()
    except (FileNotFoundError, ProcessLookupError):
        return True


def _children(pid: int) -> list[int]:
    """The processes of a worker's tasks that are alive; multiprocessing has one more, which tracks resources."""
    found = {each for task in Path(f"/proc/{pid}/task").iterdir() for each in _listed(task)}
    return [each for each in found if _runs_a_task(each)]


def _listed(task: Path) -> list[int]:
    return [int(each) for each in (task / "children").read_text().split()]


def _runs_a_task(pid: int) -> bool:
    try:
        return b"spawn_main" in Path(f"/proc/{pid}/cmdline").read_bytes() and not _is_dead(pid)
    except FileNotFoundError:
        return False


@pytest.mark.timeout(300)
def test_process_runs_of_a_suspended_worker_end_before_others_begin(
    tmp_path: Path,
) -> None:
    with (
        EmbeddedBroker() as broker,
        Crew(broker.bootstrap_servers, tmp_path, 4, HOST="process") as crew,
    ):
        paused = crew.start("a")
        crew.start("b")
        crew.settled(by=2)
        assert _children(paused.pid)
        paused.send_signal(signal.SIGSTOP)
        crew.settled(by=1)
        # although it can tell them nothing
        assert not _children(paused.pid)
        paused.send_signal(signal.SIGCONT)
        crew.settled(by=2)
        written = [entry for task in crew.ledger.tasks() for entry in crew.ledger.entries(task)]
        assert {entry.worker for entry in written} == {"a", "b"}
        assert [entry for entry in written if entry.refused] == []


def test_lease_holds_until_the_time_of_the_last_renewal() -> None:
    clock = ManualClock(1_000)
    lease = SharedLease(clock)
    assert (lease.holds(), lease.is_over()) == (True, False)
    lease.renew(1_500, 2_000)
    clock.advance(499)
    assert (lease.holds(), lease.is_over()) == (True, False)
    clock.advance(1)
    assert (lease.holds(), lease.is_over()) == (False, False)
    clock.advance(500)
    assert (lease.holds(), lease.is_over()) == (False, True)
    lease.renew(2_500, 3_000)
    assert (lease.holds(), lease.is_over()) == (True, False)


def _tell(lease: SharedLease, pipe: Any) -> None:
    while pipe.recv():
        pipe.send((lease.holds(), lease.is_over()))


def test_lease_renewal_is_seen_by_another_process() -> None:
    spawn = multiprocessing.get_context("spawn")
    here, there = spawn.Pipe()
    lease = SharedLease()
    process = spawn.Process(target=_tell, args=(lease, there), daemon=True)
    process.start()
    said = []
    for times in ((2**62, 2**62), (0, 2**62), (0, 0)):
        lease.renew(*times)
        here.send(True)
        said.append(here.recv())
    here.send(False)
    process.join(60)
    assert said == [(True, False), (False, False), (False, True)]
