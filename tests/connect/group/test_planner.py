"""Holds how connectors are asked for their tasks."""

import sys
import threading
from typing import Any

import pytest
from typing_extensions import override

from groupsdk.connect.group import leader as leader_module
from groupsdk.connect.group.leader import Plan, Planner
from groupsdk.connect.tasks.task import Connector, Task, TaskContext
from tests.connect.workers import Counting, eventually


class NeverRun(Connector):
    """Is only planned."""

    @override
    def run(self, task: Task, context: TaskContext) -> None:
        raise AssertionError(task)


class Broken(NeverRun):
    """Cannot say what its tasks are."""

    @override
    def plan(self) -> list[Task]:
        raise OSError("no list today")


class Slow(NeverRun):
    """Answers when it is let."""

    may_answer = threading.Event()
    counting = threading.Lock()
    asked = 0

    @override
    def plan(self) -> list[Task]:
        with self.counting:
            Slow.asked += 1
        self.may_answer.wait(120)
        return []


def plans(planner: Planner, count: int) -> list[Plan]:
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


def test_exception_of_a_connector_is_returned_as_its_plan() -> None:
    planner = Planner({"Broken": Broken}, lambda: None)
    planner.ask("c", {"connector.class": "Broken"})
    planner.ask("d", {"connector.class": "Nowhere"})
    broken, unknown = sorted(plans(planner, 2), key=lambda plan: plan.name)
    assert "OSError" in (broken.trace or "")
    assert "does not have the class 'Nowhere'" in (unknown.trace or "")


def test_a_question_that_waits_is_asked_once() -> None:
    Slow.asked = 0
    Slow.may_answer.clear()
    planner = Planner({"Slow": Slow}, lambda: None)
    planner.ask("c", {"connector.class": "Slow"})
    eventually(lambda: Slow.asked)
    for _ in range(5):
        planner.ask("c", {"connector.class": "Slow"})
    Slow.may_answer.set()
    assert [each.name for each in plans(planner, 2)] == ["c", "c"]
    eventually(lambda: not planner.busy)
    assert Slow.asked == 2
    planner.close()
    planner.ask("third", {"connector.class": "Slow"})
    assert planner.take() == []


class Odd(NeverRun):
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


def test_plan_that_is_not_a_list_of_tasks_is_an_error_and_the_next_connector_is_planned() -> None:
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


def test_others_are_planned_while_one_takes_long(
    caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(leader_module, "_SLOW_MS", 50)
    Slow.asked = 0
    Slow.may_answer.clear()
    planner = Planner({"Slow": Slow, "Counting": Counting}, lambda: None)
    try:
        planner.ask("slow", {"connector.class": "Slow"})
        eventually(lambda: Slow.asked)
        planner.ask("quick", {"connector.class": "Counting", "count": "1"})
        assert [plan.name for plan in plans(planner, 1)] == ["quick"]
        said = "connector slow: planning its tasks has taken 50 ms so far"
        eventually(lambda: said in caplog.messages)
        # it is not planned a second time meanwhile
        planner.ask("slow", {"connector.class": "Slow"})
        planner.ask("next", {"connector.class": "Counting", "count": "1"})
        assert [plan.name for plan in plans(planner, 1)] == ["next"]
        assert Slow.asked == 1
    finally:
        Slow.may_answer.set()
    assert [plan.name for plan in plans(planner, 2)] == ["slow", "slow"]
    eventually(lambda: not planner.busy)


def test_at_most_sixteen_connectors_are_planned_at_a_time() -> None:
    Slow.asked = 0
    Slow.may_answer.clear()
    planner = Planner({"Slow": Slow}, lambda: None)
    for number in range(20):
        planner.ask(str(number), {"connector.class": "Slow"})
    eventually(lambda: Slow.asked == 16)
    Slow.may_answer.set()
    assert len(plans(planner, 20)) == 20
    assert Slow.asked == 20
