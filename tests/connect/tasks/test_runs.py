"""Holds single runs: how they commit, how they end, and what they may when the session is over; and their stop signals."""

import asyncio
import threading
from concurrent.futures import Future
from typing import Any, ClassVar

import pytest
from typing_extensions import override

from groupsdk.connect.errors import TaskFencedError
from groupsdk.connect.tasks.process_run import ProcessRun
from groupsdk.connect.tasks.runs import (
    AsyncStop,
    CoroutineRun,
    LeasedStop,
    LoopThread,
    Run,
    TaskJob,
    ThreadRun,
    fenced,
)
from groupsdk.connect.tasks.task import AsyncTaskContext, Task, TaskContext, TaskState
from tests.connect.workers import Acting, Counting, Failing, OneTask, Separate, Waiting, eventually


class Ends:
    """Notes commits and the end."""

    def __init__(self) -> None:
        self.states: list[TaskState] = []
        self.traces: list[str | None] = []
        self.over = threading.Event()
        self.keeps = True
        self.begun: list[Future[None]] = []

    def commit(self, state: TaskState) -> None:
        self.states.append(state)

    def begin_commit(self, state: TaskState) -> "Future[None]":
        kept: Future[None] = Future()
        self.states.append(state)
        self.begun.append(kept)
        if self.keeps:
            kept.set_result(None)
        return kept

    def ended(self, trace: str | None) -> None:
        self.traces.append(trace)
        self.over.set()

    def trace(self) -> str:
        """Wait for the end, and return the stack trace; "" for none."""
        assert self.over.wait(60)
        return self.traces[0] or ""


def job(kind: type) -> TaskJob:
    """A job of a kind of connector."""
    return TaskJob(
        connector=kind,
        name="run",
        config={},
        task=Task("only"),
        generation=7,
        state={"count": 40},
    )


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
    assert ends.over.wait(60)
    assert ends.traces == [None]


@pytest.mark.parametrize("kind", [ThreadRun, ProcessRun])
def test_exception_of_a_task_is_reported_with_its_traceback(
    kind: type[ThreadRun] | type[ProcessRun],
) -> None:
    ends = Ends()
    run: Run = kind(job(Failing), ends.commit, ends.ended)
    run.start()
    assert "this one always fails" in ends.trace()


class Yields(OneTask):
    """Has a `yield` in `run`, so that calling it runs nothing."""

    @override
    def run(self, task: Task, context: TaskContext) -> Any:
        yield task


@pytest.mark.parametrize("kind", [ThreadRun, ProcessRun])
def test_a_run_that_is_a_generator_fails(kind: type[ThreadRun] | type[ProcessRun]) -> None:
    ends = Ends()
    run: Run = kind(job(Yields), ends.commit, ends.ended)
    run.start()
    assert "Yields.run is a generator function" in ends.trace()


class AttemptsUnrun(OneTask):
    """Passes a function to `attempt` that nobody awaits."""

    @override
    def run(self, task: Task, context: TaskContext) -> None:
        async def act(record: str) -> None:
            """Nobody awaits it."""

        context.attempt("record", act)


def test_an_attempt_that_is_not_awaited_fails() -> None:
    ends = Ends()
    run = ThreadRun(job(AttemptsUnrun), ends.commit, ends.ended)
    run.start()
    assert "which nobody awaits here" in ends.trace()


def test_a_coroutine_is_cancelled_where_it_does_not_end() -> None:
    loop, ends = LoopThread(), Ends()
    run = CoroutineRun(job(Waiting), ends.begin_commit, ends.ended, loop)
    run.start()
    eventually(lambda: ends.states)
    assert run.kill()
    assert "CancelledError" in ends.trace()
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
    assert "TaskFencedError: the worker's session expired" in ends.trace()
    assert set(Acting.tokens) == {7}


class Committing(OneTask):
    """One task that commits when it is told to."""

    @override
    def run(self, task: Task, context: TaskContext) -> None:
        context.commit({"n": 1})


def test_a_commit_during_which_the_session_ended_is_not_acknowledged() -> None:
    """The worker was stopped inside of it: others may have the task by now."""
    ends, held = Ends(), threading.Event()
    held.set()

    def commit(state: TaskState) -> None:
        held.clear()

    run = ThreadRun(job(Committing), commit, ends.ended, held.is_set)
    run.start()
    assert "TaskFencedError: the worker's session expired" in ends.trace()


class Eager(OneTask):
    """One coroutine that begins two commits, awaits the second, and says what it has kept."""

    kept: ClassVar[list[object]] = []

    @override
    async def run(self, task: Task, context: AsyncTaskContext) -> None:
        first = context.commit({"n": 1})
        second = context.commit({"n": 2})
        await second
        self.kept.append(context.state)
        await first


def test_a_commit_that_takes_long_holds_up_no_other_coroutine() -> None:
    loop, slow, other = LoopThread(), Ends(), Ends()
    Eager.kept.clear()
    slow.keeps = False
    run = CoroutineRun(job(Eager), slow.begin_commit, slow.ended, loop)
    run.start()
    eventually(lambda: len(slow.begun) == 2)
    # the loop is free while Kafka has not answered
    second = CoroutineRun(job(Waiting), other.begin_commit, other.ended, loop)
    second.start()
    eventually(lambda: other.states)
    second.stop()
    assert other.over.wait(60)
    assert not slow.over.is_set()
    slow.begun[0].set_result(None)
    slow.begun[1].set_result(None)
    assert slow.over.wait(60)
    assert (slow.traces, other.traces) == ([None], [None])
    assert slow.states == [{"n": 1}, {"n": 2}]
    assert Eager.kept == [{"n": 2}]
    loop.close()


def test_a_coroutine_is_told_of_a_commit_that_was_refused() -> None:
    loop, ends = LoopThread(), Ends()
    ends.keeps = False
    run = CoroutineRun(job(Waiting), ends.begin_commit, ends.ended, loop)
    run.start()
    eventually(lambda: ends.begun)
    ends.begun[0].set_exception(TaskFencedError("it is another's"))
    assert "TaskFencedError: it is another's" in ends.trace()
    loop.close()


class Exiting(OneTask):
    """A coroutine whose own task ends the program."""

    @override
    async def run(self, task: Task, context: AsyncTaskContext) -> None:
        own = asyncio.ensure_future(self._exit())
        await asyncio.wait([own])
        assert isinstance(own.exception(), SystemExit)

    async def _exit(self) -> None:
        raise SystemExit(3)


def test_a_coroutine_whose_own_task_exits_does_not_end_the_others() -> None:
    loop, exiting, waiting = LoopThread(), Ends(), Ends()
    CoroutineRun(job(Exiting), exiting.begin_commit, exiting.ended, loop).start()
    run = CoroutineRun(job(Waiting), waiting.begin_commit, waiting.ended, loop)
    run.start()
    assert exiting.over.wait(60)
    eventually(lambda: waiting.states)
    run.stop()
    assert waiting.over.wait(60)
    assert waiting.traces == [None]
    loop.close()


def test_one_of_coroutines_waits_as_long_as_it_is_told() -> None:
    async def look() -> tuple[bool, bool]:
        stop = AsyncStop()
        before = await stop.wait(0.001)
        stop.set()
        return before, await stop.wait()

    assert asyncio.run(look()) == (False, True)


def test_leased_stop_looks_at_the_clock() -> None:
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


def test_lapsed_lease_stays_lapsed() -> None:
    held = [True, False, True]
    stop = LeasedStop(lambda: held.pop(0))
    assert [stop.holds(), stop.holds(), stop.holds()] == [True, False, False]
    assert held == [True]
    # told to end in good order, the worker still holds
    other = LeasedStop()
    other.set()
    assert (other.is_set(), other.holds()) == (True, True)
