"""Holds single runs: how they commit, how they end, and what they may when the session is over."""

import threading

import pytest

from groupsdk.connect.errors import TaskFencedError
from groupsdk.connect.process_run import ProcessRun
from groupsdk.connect.runs import (
    CoroutineRun,
    LoopThread,
    Run,
    TaskJob,
    ThreadRun,
    fenced,
)
from groupsdk.connect.task import Task, TaskState
from tests.connect.workers import Acting, Counting, Failing, Separate, Waiting, eventually


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


def test_a_fenced_task_keeps_nothing() -> None:
    with pytest.raises(TaskFencedError):
        fenced({})


def test_the_token_is_refused_once_the_session_is_over() -> None:
    ends, held = Ends(), threading.Event()
    held.set()
    Acting.tokens.clear()
    run = ThreadRun(job(Acting), ends.commit, ends.ended, held.is_set)
    run.start()
    eventually(lambda: len(Acting.tokens) > 2)
    held.clear()
    assert ends.over.wait(20)
    assert ends.traces[0] is not None
    assert "TaskFencedError: the worker's session is over" in ends.traces[0]
    assert set(Acting.tokens) == {7}
