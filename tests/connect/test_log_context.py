"""Holds what log records say of the connector and task that they are about."""

import logging
from collections.abc import Iterable, Iterator
from typing import Any, ClassVar

import pytest
from typing_extensions import override

from groupsdk.connect.loggers import FIELD, ConnectorContextFilter, connector_context
from groupsdk.connect.tasks.task import AsyncTaskContext, Connector, Task, TaskContext
from tests.connect.workers import app, eventually


logger = logging.getLogger("tests.connect.log_context")


class Logging(Connector):
    """Logs in its plan and its run."""

    @override
    def plan(self) -> Iterable[Task]:
        logger.info("plans")
        return [Task("a"), Task("b")]

    @override
    def run(self, task: Task, context: TaskContext) -> None:
        logger.info("runs %s", task.id)


class LoggingSlowly(Logging):
    """The same, as coroutines that run at the same time on one thread."""

    waiting: ClassVar[list[str]] = []

    @override
    async def run(self, task: Task, context: AsyncTaskContext) -> None:  # type: ignore[override]  # either form
        self.waiting.append(task.id)
        while len(self.waiting) < 2:
            await context.stop.wait(0.01)
        logger.info("runs %s", task.id)


class Kept(logging.Handler):
    """Keeps what it is given, as its format shows it."""

    def __init__(self) -> None:
        super().__init__()
        self.lines: list[str] = []
        self.setFormatter(logging.Formatter(f"%({FIELD})s%(message)s"))
        self.addFilter(ConnectorContextFilter())

    @override
    def emit(self, record: logging.LogRecord) -> None:
        self.lines.append(self.format(record))


@pytest.fixture
def kept() -> Iterator[Kept]:
    """A handler like the command's."""
    handler = Kept()
    logger.addHandler(handler)
    logger.setLevel(logging.INFO)
    yield handler
    logger.removeHandler(handler)
    logger.setLevel(logging.NOTSET)


def test_contexts_nest_and_end(kept: Kept) -> None:
    logger.info("before")
    with connector_context("a"):
        logger.info("of the connector")
        with connector_context("a", 3, "standby"):
            logger.info("of its task")
        logger.info("of the connector again")
    logger.info("after")
    assert kept.lines == [
        "before",
        "[a|worker] of the connector",
        "[a|task-3|standby] of its task",
        "[a|worker] of the connector again",
        "after",
    ]


@pytest.mark.parametrize("kind", [Logging, LoggingSlowly])
def test_tasks_log_under_their_names(kept: Kept, kind: Any) -> None:
    made = app()
    made.connector(kind)
    with made:
        worker = made.start_standalone(None)
        worker.admin.put_connector("c", {"connector.class": kind.__name__}).result(60)
        eventually(lambda: len(kept.lines) >= 3, lambda: kept.lines)
    wanted = {"[c|worker] plans", "[c|task-0] runs a", "[c|task-1] runs b"}
    assert set(kept.lines) == wanted
