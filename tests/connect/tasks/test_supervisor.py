"""Holds how tasks are started, restarted, paused, ended and fenced."""

import threading
from collections.abc import Callable, Iterator
from random import Random

import pytest

from groupsdk.clock import SystemClock
from groupsdk.connect.group.work import Work
from groupsdk.connect.store.config_backing_store import (
    ClusterConfigState,
    RestartRequest,
    TargetState,
    connector_records,
    target_state_record,
    task_records,
)
from groupsdk.connect.store.file_store import FileStore
from groupsdk.connect.store.status_backing_store import State
from groupsdk.connect.tasks.supervisor import Supervisor
from groupsdk.connect.tasks.task import Task
from groupsdk.connect.tasks.tolerance import RestartPolicy
from groupsdk.wire.connect_protocol import ConnectorTaskId
from tests.connect.workers import ALL, Counting, Failing, Stubborn, applied, eventually


TASK = ConnectorTaskId("c", 0)
WORK = Work(("c",), (TASK,))


def configs(
    kind: str, target: TargetState = TargetState.STARTED, **config: str
) -> ClusterConfigState:
    """One connector with one task."""
    return applied(
        *connector_records("c", {"connector.class": kind, **config}),
        *task_records("c", [Task("only").config()]),
        target_state_record("c", target),
    ).snapshot()


class Rig:
    """A supervisor and its store."""

    def __init__(self, policy: RestartPolicy | None = None, grace_ms: int = 5_000) -> None:
        self.store = FileStore()
        self.store.write_configs(connector_records("c", {"connector.class": "Counting"}))
        self.store.write_configs(task_records("c", [{}]))
        self.supervisor = Supervisor(
            self.store,
            {kind.__name__: kind for kind in ALL},
            "w1",
            policy or RestartPolicy(backoff_ms=5, backoff_max_ms=10),
            grace_ms,
            SystemClock(),
            lambda: None,
            Random(1),
        )

    def run(self, kind: str, **config: str) -> ClusterConfigState:
        """Have the task run."""
        given = configs(kind, TargetState.STARTED, **config)
        self.supervisor.reconcile(WORK, given, 7)
        return given

    def under(self, holds: Callable[[], bool]) -> Supervisor:
        """Another supervisor of the same store, whose tasks may go on while `holds` says so."""
        policy, classes = RestartPolicy(), {kind.__name__: kind for kind in ALL}
        return Supervisor(
            self.store, classes, "w1", policy, 5_000, SystemClock(), lambda: None, holds=holds
        )

    def state(self) -> State | None:
        """What is said of the task."""
        status = self.store.statuses().get("status-task-c-0")
        return None if status is None else status.state

    def reaches(self, state: State, given: ClusterConfigState) -> None:
        def look() -> bool:
            self.supervisor.tick(given)
            return self.state() is state

        eventually(look, lambda: self.store.statuses())


@pytest.fixture
def rig() -> Iterator[Rig]:
    """A supervisor with nothing to do yet."""
    made = Rig()
    yield made
    made.supervisor.close()


def test_assigned_work_runs_and_the_rest_stops(rig: Rig) -> None:
    given = rig.run("Counting", count="1")
    assert rig.supervisor.owned() == WORK
    rig.reaches(State.RUNNING, given)
    connector = rig.store.statuses()["status-connector-c"]
    assert (connector.state, connector.version) == (State.RUNNING, "2.1")
    assert rig.store.statuses()["status-task-c-0"].version == "2.1"
    assert rig.store.statuses()["status-task-c-0"].generation == 7
    rig.supervisor.reconcile(Work(), given, 8)
    assert not rig.supervisor.owned()
    assert rig.state() is State.UNASSIGNED
    assert Counting.running["c", "only"] == 0


def test_work_that_keeps_its_owner_keeps_its_token(rig: Rig) -> None:
    given = rig.run("Counting", count="1")
    rig.supervisor.reconcile(WORK, given, 8)
    assert rig.store.last_token() == 7


def test_work_without_a_configuration_is_not_run(rig: Rig) -> None:
    rig.supervisor.reconcile(WORK, ClusterConfigState(), 7)
    assert not rig.supervisor.owned()


def test_the_state_of_the_former_owner_is_handed_over(rig: Rig) -> None:
    rig.store.fence([("c", "only")], 5, 1)
    rig.store.commit(("c", "only"), 5, {"count": 1_000})
    rig.run("Counting", count="1")

    def kept() -> int:
        state = rig.store.state(("c", "only")) or {}
        return int(state["count"])

    eventually(lambda: kept() > 1_000)


def test_a_task_that_raises_at_once_is_restarted_with_its_trace_and_does_not_spin() -> None:
    rig = Rig(RestartPolicy(max_restarts=3, backoff_ms=5, backoff_max_ms=10))
    Failing.runs.clear()
    given = rig.run("Failing")
    rig.reaches(State.FAILED, given)
    assert Failing.runs == [7, 7, 7, 7]
    status = rig.store.statuses()["status-task-c-0"]
    assert status.trace is not None
    assert "ValueError: this one always fails" in status.trace
    assert rig.supervisor.tick(given) is None
    rig.supervisor.restart(RestartRequest("c", include_tasks=True, only_failed=True), given)
    rig.reaches(State.FAILED, given)
    assert len(Failing.runs) == 8
    rig.supervisor.close()


def test_the_whole_trace_of_a_failed_task_is_logged(
    rig: Rig, caplog: pytest.LogCaptureFixture
) -> None:
    rig.supervisor.reconcile(WORK, configs("Failing"), 7)
    rig.reaches(State.RESTARTING, configs("Failing"))
    (said,) = [
        each.getMessage() for each in caplog.records if "failed, restarting" in each.getMessage()
    ][:1]
    assert said.startswith("task c-0 failed, restarting in ")
    assert "ValueError: this one always fails\nTraceback (most recent call last):" in said
    assert "in run\n    raise ValueError" in said


def test_exception_of_a_halted_task_is_not_a_failure(rig: Rig) -> None:
    """The group decides what becomes of it: nothing restarts it meanwhile."""
    given = configs("Acting")
    held = threading.Event()
    held.set()

    def holds() -> bool:
        if not held.is_set():
            supervisor.halt()
        return held.is_set()

    supervisor = rig.under(holds)
    supervisor.reconcile(WORK, given, 7)
    held.clear()

    def given_up() -> bool:
        due_ms = supervisor.tick(given)
        return rig.state() is State.UNASSIGNED and due_ms is None

    eventually(given_up, rig.store.statuses)
    supervisor.close()


def test_between_two_runs_it_waits() -> None:
    rig = Rig(RestartPolicy(backoff_ms=50_000, backoff_max_ms=60_000))
    Failing.runs.clear()
    given = rig.run("Failing")
    rig.reaches(State.RESTARTING, given)
    due_ms = rig.supervisor.tick(given)
    assert due_ms is not None
    assert due_ms - SystemClock().now_ms() > 30_000
    assert len(Failing.runs) == 1
    rig.supervisor.close()


def test_paused_it_keeps_its_owner_and_does_nothing(rig: Rig) -> None:
    given = rig.run("Counting", count="1")
    paused = configs("Counting", TargetState.PAUSED, count="1")
    rig.supervisor.retarget(["c"], paused)
    assert rig.state() is State.PAUSED
    assert Counting.running["c", "only"] == 0
    assert rig.supervisor.owned() == WORK
    rig.supervisor.restart(RestartRequest("c", include_tasks=True), paused)
    assert rig.state() is State.PAUSED
    rig.supervisor.retarget(["c"], given)
    rig.reaches(State.RUNNING, given)


def test_halted_it_ends_and_keeps_nothing_more(rig: Rig) -> None:
    given = rig.run("Counting", count="1")
    eventually(lambda: rig.store.state(("c", "only")))
    rig.supervisor.halt()
    eventually(lambda: Counting.running["c", "only"] == 0)
    rig.reaches(State.UNASSIGNED, given)


def test_a_task_that_finds_that_it_may_not_go_on_ends_as_one_that_was_halted() -> None:
    """As in a process that was suspended: the task is the first to look at the clock."""
    may_go_on = True

    def holds() -> bool:
        if not may_go_on:
            supervisor.halt()
        return may_go_on

    rig = Rig()
    rig.supervisor = supervisor = rig.under(holds)
    given = configs("Counting", count="1")
    supervisor.reconcile(WORK, given, 7)
    eventually(lambda: rig.store.state(("c", "only")))
    may_go_on = False
    rig.reaches(State.UNASSIGNED, given)
    assert Counting.running["c", "only"] == 0
    supervisor.close()


def test_a_task_that_does_not_end_is_fenced() -> None:
    rig = Rig(grace_ms=20)
    Stubborn.let_go.clear()
    Stubborn.refused.clear()
    rig.run("Stubborn")
    rig.supervisor.stop(WORK)
    assert not rig.supervisor.owned()
    Stubborn.let_go.set()
    eventually(lambda: Stubborn.refused == ["TaskFencedError"])
    assert (rig.store.last_token(), rig.store.state(("c", "only"))) == (7, None)
    rig.supervisor.close()


def test_a_class_that_is_not_known_here_is_said(rig: Rig) -> None:
    rig.supervisor.reconcile(WORK, configs("Nowhere"), 7)
    status = rig.store.statuses()["status-task-c-0"]
    assert status.state is State.FAILED
    assert status.trace is not None
    assert "'Nowhere'" in status.trace
    assert "Counting" in status.trace


def test_processes_run_commit_and_end(rig: Rig) -> None:
    rig.run("Separate", count="1")
    eventually(lambda: rig.store.state(("c", "only")))
    rig.supervisor.stop(WORK)
    assert rig.state() is State.UNASSIGNED


def test_coroutines_run_commit_and_end(rig: Rig) -> None:
    rig.run("Waiting")
    eventually(lambda: rig.store.state(("c", "only")) == {"begun": True})
    rig.supervisor.stop(WORK)
    assert rig.state() is State.UNASSIGNED


def test_an_owner_says_that_it_does_not_know_a_connectors_class() -> None:
    rig = Rig()
    rig.supervisor.reconcile(Work(("c",), ()), configs("Elsewhere"), 1)
    status = rig.store.statuses()["status-connector-c"]
    assert status.state is State.FAILED
    assert "this worker does not have the class 'Elsewhere', only: " in str(status.trace)
    # another configuration
    rig.supervisor.restart(RestartRequest("c"), configs("Counting", count="1"))
    assert rig.store.statuses()["status-connector-c"].state is State.RUNNING
    rig.supervisor.close()
