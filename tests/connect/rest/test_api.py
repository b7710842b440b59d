"""Holds the REST interface, over HTTP, as Kafka Connect's users know it."""

import json
import threading
import urllib.error
import urllib.request
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from typing import Any, Protocol

import pytest
from pytest_mock import MockerFixture

from groupsdk.broker.embedded import EmbeddedBroker
from groupsdk.connect.rest.api import RestServer
from groupsdk.connect.worker import ConnectWorker
from groupsdk.http.settings import HttpSettings
from tests.connect.workers import Counting, app, eventually, standalone


CONFIG = {"connector.class": "Counting", "count": "2"}


class Serving(Protocol):
    """A server of this machine."""

    @property
    def port(self) -> int: ...


class Client:
    """Asks a server."""

    def __init__(self, server: Serving) -> None:
        self.url = f"http://127.0.0.1:{server.port}"

    def __call__(self, method: str, path: str, body: Any = None, **headers: str) -> tuple[int, Any]:
        data = (
            body if isinstance(body, bytes) else None if body is None else json.dumps(body).encode()
        )
        headers = {"Content-Type": "application/json", **headers} if data is not None else headers
        request = urllib.request.Request(self.url + path, data, headers, method=method)
        try:
            with urllib.request.urlopen(request, timeout=60) as answer:
                text = answer.read()
                return answer.status, json.loads(text) if text[:1] in (b"{", b"[") else text
        except urllib.error.HTTPError as error:
            with error:
                return error.code, json.loads(error.read())


@contextmanager
def served(worker: ConnectWorker, settings: HttpSettings | None = None) -> Iterator[Client]:
    """Have a worker answer."""
    with RestServer(worker, settings or HttpSettings(port=0)) as server:
        yield Client(server)


@pytest.fixture
def ask() -> Iterator[Client]:
    """A worker that is alone and answers."""
    with standalone() as worker:
        eventually(lambda: worker.is_leader)
        with served(worker) as client:
            yield client


def running(ask: Client, name: str) -> bool:
    """Whether a connector and two tasks run."""
    _, status = ask("GET", f"/connectors/{name}/status")
    states = [status["connector"]["state"], *(each["state"] for each in status["tasks"])]
    return states == ["RUNNING"] * 3


def test_a_connector_lives_from_creation_to_deletion(ask: Client) -> None:
    assert ask("GET", "/connectors") == (200, [])
    code, made = ask("POST", "/connectors", {"name": "c", "config": CONFIG})
    assert (code, made["name"], made["config"]["count"]) == (201, "c", "2")
    assert ask("POST", "/connectors", {"name": "c", "config": CONFIG})[0] == 409
    eventually(lambda: running(ask, "c"))
    assert ask("GET", "/connectors") == (200, ["c"])
    assert ask("GET", "/connectors/c/config") == (200, {"name": "c", **CONFIG})
    _, tasks = ask("GET", "/connectors/c/tasks")
    assert [each["id"] for each in tasks] == [{"connector": "c", "task": n} for n in (0, 1)]
    _, task = ask("GET", "/connectors/c/tasks/0/status")
    assert (task["id"], task["state"], bool(task["worker_id"])) == (0, "RUNNING", True)
    assert ask("PUT", "/connectors/c/pause")[0] == 202
    eventually(lambda: ask("GET", "/connectors/c/status")[1]["connector"]["state"] == "PAUSED")
    assert ask("PUT", "/connectors/c/resume")[0] == 202
    eventually(lambda: running(ask, "c"))
    assert ask("POST", "/connectors/c/restart")[0] == 204
    assert ask("POST", "/connectors/c/restart?includeTasks=true")[0] == 202
    assert ask("POST", "/connectors/c/tasks/1/restart")[0] == 204
    assert ask("PUT", "/connectors/c/stop")[0] == 204
    eventually(lambda: ask("GET", "/connectors/c/status")[1]["tasks"] == [])
    _, listed = ask("GET", "/connectors?expand=status&expand=info")
    assert listed["c"]["info"]["config"]["name"] == "c"
    assert ask("DELETE", "/connectors/c")[0] == 204
    eventually(lambda: ask("GET", "/connectors") == (200, []))


def test_put_creates_and_changes(ask: Client) -> None:
    assert ask("PUT", "/connectors/c/config", CONFIG)[0] == 201
    code, changed = ask("PUT", "/connectors/c/config", {**CONFIG, "count": 1})
    assert (code, changed["config"]["count"]) == (200, "1")
    code, changed = ask("PATCH", "/connectors/c/config", {"count": "3", "note": "x"})
    assert (code, changed["config"]) == (200, {"name": "c", **CONFIG, "count": "3", "note": "x"})
    code, changed = ask("PATCH", "/connectors/c/config", {"note": None})
    assert (code, changed["config"]) == (200, {"name": "c", **CONFIG, "count": "3"})
    assert ask("PATCH", "/connectors/c/config", {"count": None})[0] == 400


def test_a_connector_can_begin_stopped(ask: Client) -> None:
    body = {"name": "c", "config": CONFIG, "initial_state": "STOPPED"}
    assert ask("POST", "/connectors", body)[0] == 201
    eventually(lambda: ask("GET", "/connectors/c/status")[1]["connector"]["state"] == "STOPPED")
    assert ask("GET", "/connectors/c/status")[1]["tasks"] == []
    assert ask("PUT", "/connectors/c/resume")[0] == 202
    eventually(lambda: running(ask, "c"))


def test_location_of_a_new_connector_is_returned(ask: Client) -> None:
    body = json.dumps(CONFIG).encode()
    for code in (201, 200):
        request = urllib.request.Request(
            f"{ask.url}/connectors/one%20two/config",
            body,
            {"Content-Type": "application/json"},
            method="PUT",
        )
        with urllib.request.urlopen(request, timeout=60) as answer:
            assert answer.status == code
            place = f"{ask.url}/connectors/one%20two" if code == 201 else None
            assert answer.headers["Location"] == place
    assert ask("GET", "/connectors/one%20two")[1]["name"] == "one two"


def test_numbers_of_a_configuration_are_kept_as_they_are_written(ask: Client) -> None:
    config = (
        b'{"connector.class": "Counting", "count": 0, "a": 1.10, "b": 1e400, "c": -0, "d": true}'
    )
    kept = {"count": "0", "a": "1.10", "b": "1e400", "c": "-0", "d": "true"}
    # as Debezium's pages write it, with a slash behind
    assert ask("POST", "/connectors/", b'{"name": "c", "config": %s}' % config)[0] == 201
    assert ask("GET", "/connectors/c/config/")[1].items() >= kept.items()
    assert ask("PUT", "/connectors/c/config", config)[1]["config"].items() >= kept.items()
    assert ask("PATCH", "/connectors/c/config", b'{"a": 2.50}')[1]["config"]["a"] == "2.50"
    assert ask("DELETE", "/connectors/c/")[0] == 204


def test_a_configuration_can_be_tried(ask: Client) -> None:
    path = "/connector-plugins/Counting/config"
    assert [each["name"] for each in ask("GET", path)[1]] == ["connector.class", "count"]
    code, said = ask("PUT", f"{path}/validate", {**CONFIG, "count": "x"})
    assert (code, said["name"], said["error_count"]) == (200, "Counting", 1)
    assert ask("PUT", "/connector-plugins/Nope/config/validate", CONFIG)[0] == 404
    assert ask("GET", "/connectors") == (200, [])


def test_health_endpoint_follows_the_state_of_the_worker() -> None:
    with standalone() as worker, served(worker) as ask:
        # KIP-1017: 503 until it takes part, 500 when it does not any more
        eventually(lambda: ask("GET", "/health")[0] == 200)
        assert ask("GET", "/health")[1]["status"] == "healthy"
        worker._ready = False
        code, said = ask("GET", "/health")
        assert (code, said["status"]) == (503, "starting")
        assert ask("GET", "/health/live")[0] == 200
        assert worker.stop(60)
        for path in ("/health", "/health/live"):
            code, said = ask("GET", path)
            assert (code, said) == (
                500,
                {"status": "unhealthy", "message": "the worker has stopped"},
            )


def test_a_worker_is_ready_while_kafka_answers_and_lives_without(group_id: str) -> None:
    with EmbeddedBroker() as broker, ExitStack() as stack:
        servers = broker.bootstrap_servers
        # it does not leave the group, which would be said instead
        worker = app(worker_sync_timeout_ms=120_000).start(
            bootstrap_servers=servers, group_id=group_id
        )
        stack.callback(worker.stop)
        ask = stack.enter_context(served(worker))
        eventually(lambda: ask("GET", "/health")[0] == 200)
        broker.stop()
        eventually(lambda: ask("GET", "/health")[0] == 500)
        code, said = ask("GET", "/health")
        assert (code, said["status"]) == (500, "unhealthy")
        assert said["message"].startswith("the worker has lost contact with its group: ")
        assert ask("GET", "/health/live")[0] == 200
        broker.start()
        eventually(lambda: ask("GET", "/health")[0] == 200)


def test_a_probe_that_is_given_up_does_not_end_a_worker_that_is_busy(mocker: MockerFixture) -> None:
    mocker.patch("groupsdk.connect.rest.api._HEALTH_S", 0.2)
    with standalone() as worker, served(worker) as ask:
        eventually(lambda: ask("GET", "/health")[0] == 200)
        busy = threading.Event()
        held = worker.requests.put(lambda: busy.wait(120))
        assert ask("GET", "/health") == (
            500,
            {"status": "unhealthy", "message": "the worker has not answered within 0.2 s"},
        )
        # it is busy, and has not been for long enough to be stuck
        assert ask("GET", "/health/live")[0] == 200
        worker._stepped_ms -= 300_000
        code, said = ask("GET", "/health/live")
        assert (code, said["status"]) == (500, "unhealthy")
        busy.set()
        assert held.result(60)
        eventually(lambda: ask("GET", "/health")[0] == 200)


@pytest.mark.parametrize(
    ("method", "path", "body", "code", "text"),
    [
        ("POST", "/connectors", b"{", 400, "the body is not JSON"),
        ("POST", "/connectors", b"[]", 400, "must be a JSON object"),
        ("POST", "/connectors", {"config": CONFIG}, 400, "name: must be a string"),
        ("POST", "/connectors", {"name": "c", "config": {}}, 400, "connector.class: is missing"),
        ("PUT", "/connectors/c/config", {**CONFIG, "count": "x"}, 400, "count: must be a number"),
        ("PUT", "/connectors/c/config", {**CONFIG, "x": [1]}, 400, "x: must be a string"),
        ("PUT", "/connectors/c/config", b"x" * 1_000_001, 400, "longer than"),
        ("PUT", "/connectors/c/config", dict.fromkeys(map(str, range(10_001)), ""), 400, "10,001"),
        ("PUT", "/connectors/c/config", {**CONFIG, "name": "d"}, 400, "name: 'd' differs from"),
        (
            "POST",
            "/connectors",
            {"name": "c", "initial_state": 1, "config": CONFIG},
            400,
            "initial_",
        ),
        ("PATCH", "/connectors/none/config", {}, 404, "there is no connector 'none'"),
        ("GET", "/connectors/none/topics", None, 404, "there is no connector 'none'"),
        ("PUT", "/connectors/none/topics/reset", None, 404, "there is no connector 'none'"),
        ("GET", "/nowhere", None, 404, "HTTP 404 Not Found"),
        ("DELETE", "/connectors", None, 405, "HTTP 405 Method Not Allowed"),
        ("GET", "/connectors/c/tasks/x/status", None, 404, "there is no connector 'c'"),
        ("GET", "/connectors/none", None, 404, "there is no connector 'none'"),
        ("DELETE", "/connectors/none", None, 404, "there is no connector"),
        ("GET", "/connectors/none/tasks/0/status", None, 404, "there is no connector"),
    ],
)
def test_bad_rest_request_is_answered_with_code_and_message(
    ask: Client, method: str, path: str, body: Any, code: int, text: str
) -> None:
    got, answer = ask(method, path, body)
    assert (got, answer["error_code"]) == (code, code)
    assert text in answer["message"]


def test_exception_of_validate_is_answered_with_500(
    ask: Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(config: object) -> None:
        raise OSError("no such host")

    monkeypatch.setattr(Counting, "validate", fail)
    code, answer = ask("PUT", "/connectors/c/config", CONFIG)
    assert (code, answer) == (500, {"error_code": 500, "message": "OSError: no such host"})


@pytest.mark.parametrize("kind", ["text/plain", "application/x-www-form-urlencoded"])
def test_pages_of_other_sites_cannot_write(ask: Client, kind: str) -> None:
    body = json.dumps(CONFIG).encode()
    code, said = ask("PUT", "/connectors/c/config", body, **{"Content-Type": kind})
    assert (code, said["error_code"]) == (415, 415)
    assert ask("GET", "/connectors") == (200, [])


def test_rest_server_describes_itself(ask: Client) -> None:
    assert ask("GET", "/")[1]["version"]
    assert "/connectors/{name}/status" in ask("GET", "/openapi.json")[1]["paths"]
    assert b"groupsdk workers" in ask("GET", "/docs")[1]
    assert {"Counting", "Failing"} <= {
        each["class"] for each in ask("GET", "/connector-plugins")[1]
    }
