"""Holds the description of the routes to what the methods that answer them say."""

from tests.connect.rest.test_api import Client, ask


__all__ = ["ask"]  # the fixture


def test_operations_are_described(ask: Client) -> None:
    paths = ask("GET", "/openapi.json")[1]["paths"]
    assert len(paths) == 24
    created = paths["/connectors"]["post"]
    assert created["summary"] == "Create a connector"
    assert created["responses"].keys() == {"201", "default"}
    body = created["requestBody"]["content"]["application/json"]["schema"]
    assert body["properties"].keys() == {"name", "config", "initial_state"}
    status = paths["/connectors/{name}/tasks/{number}/status"]["get"]
    assert [each["name"] for each in status["parameters"]] == ["name", "number"]
    assert "requestBody" not in status


def test_the_page_needs_nothing_from_elsewhere(ask: Client) -> None:
    page = ask("GET", "/docs")[1]
    assert b"http://" not in page
    assert b"https://" not in page
    assert b"/connectors/{name}/status" in page
