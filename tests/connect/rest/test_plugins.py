"""Holds how classes are described, and configurations tried."""

import pytest

from groupsdk.connect.errors import UnknownConnectorError
from groupsdk.connect.rest.resources import definitions, listed, validated
from tests.connect.workers import Counting, Failing


CLASSES = {"Failing": Failing, "Counting": Counting}


def errors(config: dict[str, str]) -> dict[str, list[str]]:
    """What is wrong with a configuration, by the keys."""
    said = validated(CLASSES, "Counting", config)
    found = {each["value"]["name"]: each["value"]["errors"] for each in said["configs"]}
    wrong = {key: texts for key, texts in found.items() if texts}
    assert said["error_count"] == sum(map(len, wrong.values()))
    return wrong


def test_classes_are_listed_with_what_they_need() -> None:
    assert listed(CLASSES) == [
        {"class": "Counting", "type": "source", "version": "2.1"},
        {"class": "Failing", "type": "sink", "version": "undefined"},
    ]
    needed = definitions(CLASSES, "Counting")
    assert [(each["name"], each["required"]) for each in needed] == [
        ("connector.class", True),
        ("count", True),
    ]
    assert {each["type"] for each in needed} == {"STRING"}


def test_a_configuration_is_tried_without_making_a_connector() -> None:
    assert errors({"connector.class": "Counting", "count": "2"}) == {}
    assert errors({"count": "2"}) == {}
    assert errors({}) == {"count": ["is missing"]}
    assert errors({"count": "x"}) == {"count": ["must be a number, not 'x'"]}
    assert list(errors({"count": "1", "connector.class": "Failing"})) == ["connector.class"]
    assert list(errors({"count": "1", "tasks.max": "0"})) == ["tasks.max"]
    assert list(errors({"count": "1", "task.weight": "x"})) == ["task.weight"]


def test_keys_that_are_not_needed_are_shown_as_they_are() -> None:
    said = validated(CLASSES, "Counting", {"count": "2", "note": "x"})
    (shown,) = [each for each in said["configs"] if each["value"]["name"] == "note"]
    assert (shown["value"]["value"], shown["definition"]["required"]) == ("x", False)


def test_classes_that_are_not_there_are_said() -> None:
    with pytest.raises(
        UnknownConnectorError, match="unknown class 'Nope'; the known ones: Failing"
    ):
        definitions(CLASSES, "Nope")
    with pytest.raises(UnknownConnectorError, match="Nope"):
        validated(CLASSES, "Nope", {})
