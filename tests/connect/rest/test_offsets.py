"""Holds the states of tasks over HTTP: shown always, changed only while the connector is stopped."""

from typing import Any

import pytest

from tests.connect.rest.test_api import CONFIG, Client, ask, running
from tests.connect.workers import eventually


__all__ = ["ask"]  # the fixture

PATH = "/connectors/c/offsets"


def offsets(ask: Client) -> dict[str, Any]:
    """The states by the ids of the tasks."""
    code, said = ask("GET", PATH)
    assert code == 200
    return {each["partition"]["task"]: each["offset"] for each in said["offsets"]}


def body(**states: object) -> dict[str, Any]:
    """The body of a request that sets states."""
    return {
        "offsets": [
            {"partition": {"task": task}, "offset": state} for task, state in states.items()
        ]
    }


def changed(ask: Client, method: str, given: Any = None) -> str:
    """Change states, again while the group rebalances; returns what was said."""

    def done() -> str:
        code, said = ask(method, PATH, given)
        assert code in (200, 409), said
        return said["message"] if code == 200 else ""

    said: str = eventually(done)
    return said


def test_they_are_set_and_forgotten_while_the_connector_is_stopped(ask: Client) -> None:
    ask("POST", "/connectors", {"name": "c", "config": CONFIG})
    eventually(lambda: running(ask, "c"))
    eventually(lambda: set(offsets(ask)) == {"t0", "t1"})
    for method, given in (("PATCH", body(t0={"count": 1})), ("DELETE", None)):
        code, said = ask(method, PATH, given)
        assert (code, said["message"]) == (400, "offsets: connector 'c' must be stopped first")
    assert ask("PUT", "/connectors/c/stop")[0] == 204
    given = body(t0={"count": 5_000}, t1=None, other={"count": 7})
    assert changed(ask, "PATCH", given) == "the states of 3 tasks of 'c' are set"
    assert offsets(ask) == {"t0": {"count": 5_000}, "other": {"count": 7}}
    assert ask("PUT", "/connectors/c/resume")[0] == 202
    eventually(lambda: running(ask, "c"))
    eventually(lambda: offsets(ask)["t0"]["count"] > 5_000)
    assert offsets(ask)["t1"]["count"] < 5_000
    assert ask("PUT", "/connectors/c/stop")[0] == 204
    assert changed(ask, "DELETE") == "the states of 3 tasks of 'c' are forgotten"
    assert offsets(ask) == {}
    assert changed(ask, "DELETE") == "the states of 0 tasks of 'c' are forgotten"
    assert ask("PUT", "/connectors/c/resume")[0] == 202
    eventually(lambda: 0 < offsets(ask).get("t0", {"count": 0})["count"] < 5_000)


@pytest.mark.parametrize(
    ("given", "text"),
    [
        ({}, "offsets: must be a list"),
        (body(), "offsets: must be a list"),
        ({"offsets": [1]}, "partition: must be"),
        ({"offsets": [{"partition": {"filename": "x"}, "offset": {}}]}, "partition: must be"),
        (
            {"offsets": [{"partition": {"task": "t", "more": 1}, "offset": {}}]},
            "partition: must be",
        ),
        (body(t0=[1]), "offset: the value of 't0' must be a JSON object"),
        ({"offsets": body(t0={})["offsets"] * 2}, "'t0' is listed twice"),
    ],
)
def test_bad_offsets_request_is_refused_with_the_reason(ask: Client, given: Any, text: str) -> None:
    code, said = ask("PATCH", PATH, given)
    assert (code, text in said["message"]) == (400, True), said


def test_of_what_is_not_there_nothing_is_shown_or_set(ask: Client) -> None:
    for method, given in (("GET", None), ("PATCH", body(t0={})), ("DELETE", None)):
        code, said = ask(method, PATH, given)
        assert (code, said["message"]) == (404, "there is no connector 'c'")
