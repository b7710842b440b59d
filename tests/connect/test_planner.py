"""Holds how connectors are asked for their tasks."""

import sys
import threading
from typing import Any

import pytest
from typing_extensions import override

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
    assert "OSError" in (broken.trace or "")
    assert "does not have the class 'Nowhere'" in (unknown.trace or "")


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


class Odd(Connector):
    """Returns what is no list of tasks, or ends the program."""

    @override
    def plan(self) -> Any:
        match self.config["what"]:
            case "nothing":
                return None
            case "string":
                return "abc"
            case "numbers":
                return [1]
            case "list as id":
                return [Task(["a"])]  # type: ignore[arg-type]  # that is the case
            case "exit":
                sys.exit(3)
            case _:
                return []

    @override
    def run(self, task: Task, context: TaskContext) -> None:
        raise AssertionError(task)


def test_what_is_no_list_of_tasks_is_an_error_and_the_next_connector_is_planned() -> None:
    planner = Planner({"Odd": Odd}, lambda: None)
    odd = ("nothing", "string", "numbers", "list as id", "exit")
    for what in (*odd, "well"):
        planner.ask(what, {"connector.class": "Odd", "what": what})
        eventually(lambda: not planner.busy)
    answers = {plan.name: plan.trace for plan in plans(planner, len(odd) + 1)}
    assert answers.pop("well") is None
    for name, error in (
        ("nothing", "TypeError"),
        ("string", "TypeError"),
        ("numbers", "TypeError"),
        ("list as id", "ConnectorConfigError"),
        ("exit", "SystemExit"),
    ):
        assert error in (answers[name] or "").splitlines()[-1]
    assert "list of Task, not NoneType" in str(answers["nothing"])


def test_others_are_planned_while_one_takes_long(caplog: pytest.LogCaptureFixture) -> None:
    Slow.asked = 0
    Slow.may_answer.clear()
    planner = Planner({"Slow": Slow, "Counting": Counting}, lambda: None)
    try:
        planner.ask("slow", {"connector.class": "Slow"})
        eventually(lambda: Slow.asked)
        planner.ask("quick", {"connector.class": "Counting", "count": "1"})
        due_ms = planner.relieve(1_000)
        assert due_ms is not None
        assert planner.relieve(due_ms - 1) == due_ms
        assert not planner.take()
        planner.relieve(due_ms)
        assert [plan.name for plan in plans(planner, 1)] == ["quick"]
        assert "connector slow has been planning its tasks for 5000 ms" in caplog.text
        # it is not planned a second time meanwhile, and it is not told again
        planner.ask("slow", {"connector.class": "Slow"})
        planner.ask("next", {"connector.class": "Counting", "count": "1"})
        assert [plan.name for plan in plans(planner, 1)] == ["next"]
        assert planner.relieve(due_ms * 2) is None
        assert Slow.asked == 1
    finally:
        Slow.may_answer.set()
    assert [plan.name for plan in plans(planner, 2)] == ["slow", "slow"]
    eventually(lambda: not planner.busy)
