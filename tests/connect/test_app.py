"""Holds both forms of a program."""

import asyncio
import threading
from collections.abc import Awaitable
from pathlib import Path

import pytest

from groupsdk.connect.app import FunctionConnector, StandbyFunction, Worker
from groupsdk.connect.errors import ConnectError, ConnectorConfigError
from groupsdk.connect.tasks.runs import NO_LINKS, StandbyJob, fenced
from groupsdk.connect.tasks.task import (
    AsyncStandbyContext,
    AsyncTaskContext,
    StandbyContext,
    Task,
    TaskContext,
    is_async,
)
from groupsdk.errors import ConfigError
from tests.connect.workers import Counting, eventually, states


SITES = ["a", "b"]


def plan() -> list[Task]:
    return [Task(site, {"url": site}) for site in SITES]


def crawl(task: Task, context: TaskContext) -> None:
    while not context.stop.wait(0.01):
        context.commit({"url": task.payload["url"], "token": context.generation})


async def crawl_slowly(task: Task, context: AsyncTaskContext) -> None:
    while not await context.stop.wait(0.01):
        await context.commit({"url": task.payload["url"], "token": context.generation})


@pytest.mark.parametrize("function", [crawl, crawl_slowly, "process"])
def test_two_functions_are_a_program(function: object) -> None:
    app = Worker("crawlers")
    app.tasks(plan)
    if callable(function):
        app.task(function)
    else:
        app.task(host="process")(crawl)
    worker = app.start_standalone(None)
    eventually(
        lambda: (
            {task: state["url"] for task, state in worker._store.states("tasks").items()}
            == {"a": "a", "b": "b"}
        ),
        worker.admin.statuses,
    )
    app.stop()


def test_other_tasks_come_with_reconfigure() -> None:
    app = Worker("crawlers")
    sites = ["a"]

    @app.tasks
    def some() -> list[Task]:
        return [Task(site, {"url": site}) for site in sites]

    app.task(crawl)
    with app:
        worker = app.start_standalone(None)
        eventually(lambda: states(worker).get("status-task-tasks-0") == "RUNNING")
        sites.append("b")
        app.reconfigure()
        eventually(lambda: states(worker).get("status-task-tasks-1") == "RUNNING")


def test_classes_are_registered_and_connectors_always_there(tmp_path: Path) -> None:
    app = Worker("crawlers")
    app.add("c", Counting, count="2")
    with app:
        worker = app.start_standalone(tmp_path / "store")
        eventually(lambda: len(worker.owned.tasks) == 2)
    with pytest.raises(ConnectorConfigError, match="count: is missing"):
        app.add("d", Counting)
    with pytest.raises(ConfigError, match="two connectors are named Counting"):
        app.connector(Counting)


def test_half_a_program_is_refused() -> None:
    app = Worker("crawlers")
    with pytest.raises(ConfigError, match="the worker has no connectors"):
        app.start_standalone(None)
    app.tasks(plan)
    with pytest.raises(ConfigError, match=r"@app\.task \(how\) is missing"):
        app.start_standalone(None)
    with pytest.raises(ConnectError, match="not been started"):
        app.reconfigure()
    assert app.stop()


def test_settings_are_checked_before_anything_starts() -> None:
    app = Worker(group="g", bootstrap_servers="x", sesion_timeout_ms=1)
    app.tasks(plan)
    app.task(crawl)
    with pytest.raises(ConfigError, match=r"did you mean session\.timeout\.ms"):
        app.start()


def test_a_standby_is_a_third_function() -> None:
    app = Worker("crawlers")
    app.tasks(plan)
    app.task(crawl)

    @app.standby(replicas=2)
    def prepare(task: Task, context: StandbyContext) -> None:
        context.keep(task.id)

    with app:
        worker = app.start_standalone(None)
        eventually(lambda: states(worker).get("status-task-tasks-1") == "RUNNING")
        assert worker.admin.configs().connectors["tasks"]["standby.replicas"] == "2"
        assert worker.admin.configs().replicas() == {"tasks": 2}
        # nobody else is there to keep anything warm
        assert (worker.admin.standbys(), worker.kept_warm) == ({}, [])


@pytest.mark.parametrize("asynchronous", [False, True])
def test_state_kept_by_the_standby_function_is_kept(asynchronous: bool) -> None:
    def prepare(task: Task, context: StandbyContext) -> None:
        context.keep(task.id)

    async def prepare_slowly(task: Task, context: AsyncStandbyContext) -> None:
        context.keep(task.id)

    kept: list[object] = []
    function: StandbyFunction = prepare_slowly if asynchronous else prepare
    kind = FunctionConnector.made_of(plan, crawl, "thread", function)
    assert is_async(kind.standby) == asynchronous
    job = StandbyJob(
        connector=kind,
        name="tasks",
        config={},
        task=Task("a"),
        read=lambda: None,
        keep=kept.append,
    )
    awaitable = job.begin(threading.Event(), fenced, NO_LINKS)
    if asynchronous:
        assert awaitable is not None
        asyncio.run(_finished(awaitable))
    assert kept == ["a"]


async def _finished(awaitable: Awaitable[None]) -> None:
    await awaitable


def test_standbys_that_cannot_be_are_refused() -> None:
    def prepare(task: Task, context: StandbyContext) -> None: ...

    app = Worker("crawlers")
    app.tasks(plan)
    app.task(crawl)
    app.standby(replicas=11)(prepare)
    with pytest.raises(ConnectorConfigError, match=r"standby\.replicas: must be an integer"):
        app.start_standalone(None)
    apart = Worker("crawlers")
    apart.tasks(plan)
    apart.task(host="process")(crawl)
    apart.standby()(prepare)
    with pytest.raises(ConnectorConfigError, match="cannot be passed to the process"):
        apart.start_standalone(None)
    with pytest.raises(ConnectorConfigError, match="Counting has no standby method"):
        apart.add("c", Counting, count="1", standby_replicas="1")
    with pytest.raises(ConnectorConfigError, match=r"task\.weight: must be a number"):
        Worker("x").add("c", Counting, count="1", task_weight="-1")


def test_settings_hold_without_a_broker_as_well() -> None:
    app = Worker(task_restart_max=0, worker_id="lone")

    @app.tasks
    def plan() -> list[Task]:
        return [Task("only")]

    @app.task
    def run(task: Task, context: TaskContext) -> None:
        raise ValueError("it fails")

    worker = app.start_standalone(None)
    eventually(lambda: states(worker).get("status-task-tasks-0") == "FAILED")
    assert worker.worker_id == "lone"
    worker.stop()
    worker = app.start_standalone(None, {"worker.id": "other"}, task_restart_max=1)
    assert worker.worker_id == "other"
    worker.stop()
    with pytest.raises(ConfigError, match=r"did you mean task\.restart\.max "):
        app.start_standalone(None, task_restart_mux=1)
