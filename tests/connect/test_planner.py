"""Holds how connectors are asked for their tasks."""

import threading

from typing_extensions import override

from groupsdk.connect.errors import ConnectorConfigError
from groupsdk.connect.leader import Plan, Planner
from groupsdk.connect.task import Connector, Task, TaskContext
from tests.connect.workers import Counting, eventually


class Broken(Connector):
    """Cannot say what its tasks are."""

    @override
    def plan(self) -> list[Task]:
        raise OSError("no list today")

    @override
    def run(self, task: Task, context: TaskContext) -> None:
        raise AssertionError(task)


class Slow(Connector):
    """Answers when it is let."""

    may_answer = threading.Event()
    asked = 0

    @override
    def plan(self) -> list[Task]:
        Slow.asked += 1
        self.may_answer.wait(120)
        return []

    @override
    def run(self, task: Task, context: TaskContext) -> None:
        raise AssertionError(task)


def plans(planner: Planner, count: int) -> list[Plan]:
    """Wait for answers."""
    taken: list[Plan] = []

    def look() -> bool:
        taken.extend(planner.take())
        return len(taken) >= count

    eventually(look)
    return taken


def test_answers_come_with_the_configuration_that_was_asked_with() -> None:
    notified = threading.Event()
    planner = Planner({"Counting": Counting}, notified.set)
    config = {"connector.class": "Counting", "count": "2"}
    planner.ask("c", config)
    assert plans(planner, 1) == [Plan("c", config, (Task("t0"), Task("t1")))]
    assert notified.is_set()


def test_what_a_connector_raises_is_an_answer() -> None:
    planner = Planner({"Broken": Broken}, lambda: None)
    planner.ask("c", {"connector.class": "Broken"})
    planner.ask("d", {"connector.class": "Nowhere"})
    broken, unknown = plans(planner, 2)
    assert isinstance(broken.error, OSError)
    assert isinstance(unknown.error, ConnectorConfigError)


def test_a_question_that_waits_is_asked_once() -> None:
    Slow.asked = 0
    Slow.may_answer.clear()
    planner = Planner({"Slow": Slow}, lambda: None)
    for _ in range(5):
        planner.ask("first", {"connector.class": "Slow"})
    eventually(lambda: Slow.asked)
    for _ in range(5):
        planner.ask("second", {"connector.class": "Slow"})
    Slow.may_answer.set()
    names = [each.name for each in plans(planner, 2)]
    assert names.count("second") == 1
    planner.close()
    planner.ask("third", {"connector.class": "Slow"})
    assert planner.take() == []
