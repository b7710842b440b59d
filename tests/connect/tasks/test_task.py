"""Holds how tasks are stored and numbered."""

import pytest

from groupsdk.connect.errors import ConnectorConfigError
from groupsdk.connect.tasks.task import Task, is_async, numbered
from tests.connect.workers import Counting, Waiting


def test_stored_task_is_read_back() -> None:
    task = Task("site-1", {"url": "http://x", "depth": [1, 2]})
    assert Task.of(task.config(), 7) == task
    heavy = Task("site-2", weight=2.5)
    assert heavy.config()["task.weight"] == "2.5"
    assert Task.of(heavy.config(), 7) == heavy


def test_task_stored_by_another_program_is_a_payload_under_its_number() -> None:
    assert Task.of({"file": "/tmp/x"}, 7) == Task("7", {"file": "/tmp/x"})
    assert Task.of({"task.id": "a", "task.payload": "{"}, 7) == Task("a", {})
    assert Task.of({"task.id": "a", "task.weight": "much"}, 7) == Task("a")


@pytest.mark.parametrize(
    ("wrong", "text"),
    [
        (Task(""), "task.id"),
        (Task("a", {"x": object()}), "task.payload of 'a'"),
        (Task("a", weight=0), r"task\.weight: must be a number"),
    ],
)
def test_task_that_cannot_be_stored_names_its_field(wrong: Task, text: str) -> None:
    with pytest.raises(ConnectorConfigError, match=text):
        wrong.config()


def ids(configs: list[dict[str, str]]) -> list[str]:
    return [each["task.id"] for each in configs]


def test_tasks_keep_their_numbers_where_they_can() -> None:
    first = numbered([], [Task("a"), Task("b"), Task("c"), Task("d")])
    assert ids([dict(each) for each in first]) == ["a", "b", "c", "d"]
    second = numbered(first, [Task("d"), Task("c"), Task("a"), Task("new")])
    assert ids([dict(each) for each in second]) == ["a", "new", "c", "d"]
    third = numbered(second, [Task("d"), Task("c")])
    assert sorted(ids([dict(each) for each in third])) == ["c", "d"]


def test_two_tasks_of_one_id_are_refused() -> None:
    with pytest.raises(ConnectorConfigError, match="two tasks have the id 'a'"):
        numbered([], [Task("a"), Task("a")])


def test_coroutines_are_told_from_functions() -> None:
    assert is_async(Waiting.run)
    assert not is_async(Counting.run)


def test_a_missing_key_is_named() -> None:
    with pytest.raises(ConnectorConfigError, match="count: is missing"):
        Counting.validate({})
