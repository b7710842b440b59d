"""Send the same requests to Kafka Connect's own worker and to ours: paths, shapes and status codes are the same."""

import json
import urllib.error
import urllib.request
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from groupsdk.broker.embedded import EmbeddedBroker
from groupsdk.connect.rest.api import RestServer
from groupsdk.http.settings import HttpSettings
from tests.clients.test_connect import worker as java_worker
from tests.connect.workers import app, eventually


pytestmark = [pytest.mark.timeout(240), pytest.mark.usefixtures("kafka_installed")]
_START_S = 90.0
_CONFIG = "CONFIG"
"""Stands for a right configuration."""


@dataclass(frozen=True)
class Answer:
    """What a worker said, without what is its own business."""

    code: int
    located: bool
    shape: Any


class Side:
    """One of the two workers, with a configuration that is right for it."""

    def __init__(self, url: str, config: dict[str, str]) -> None:
        self._url = url
        self._config = config

    def ask(
        self, method: str, path: str, body: Any = None, kind: str = "application/json"
    ) -> Answer:
        """Send a request, again while the group rebalances."""
        if body == _CONFIG:
            body = self._config
        elif isinstance(body, dict):
            body = {key: self._config if each == _CONFIG else each for key, each in body.items()}
        data = None if body is None else json.dumps(body).encode()
        headers = {} if data is None else {"Content-Type": kind}

        def accepted() -> Answer | None:
            request = urllib.request.Request(self._url + path, data, headers, method=method)
            try:
                with urllib.request.urlopen(request, timeout=60) as answer:
                    located = answer.headers["Location"] == f"{self._url}/connectors/c"
                    return Answer(answer.status, located, shape_of(answer.read()))
            except urllib.error.HTTPError as error:
                with error:
                    text = error.read()
                if error.code == 409 and b"exist" not in text:
                    return None
                return Answer(error.code, False, shape_of(text))

        found: Answer = eventually(accepted)
        return found

    def kept(self, written: str) -> dict[str, str]:
        """Create a connector with this besides, and return the configuration that it shows."""
        path = f"{self._url}/connectors/kept"
        data = f"{json.dumps(self._config)[:-1]}, {written}}}".encode()
        headers = {"Content-Type": "application/json"}

        def asked(method: str, url: str, body: bytes | None = None) -> bytes | None:
            request = urllib.request.Request(url, body, headers, method=method)
            try:
                with urllib.request.urlopen(request, timeout=60) as answer:
                    return bytes(answer.read()) or b"{}"
            except urllib.error.HTTPError as error:
                error.close()
                # while the group rebalances
                return None if error.code in (404, 409) else pytest.fail(f"{method}: {error}")

        eventually(lambda: asked("PUT", f"{path}/config", data))
        shown = json.loads(eventually(lambda: asked("GET", f"{path}/config")))
        eventually(lambda: asked("DELETE", path))
        return dict(shown)


def shape_of(data: bytes) -> Any:
    """The keys of an answer and the types of their values; states as they are."""
    return _shape(json.loads(data)) if data else None


def _shape(value: Any, key: str = "") -> Any:
    if isinstance(value, dict) and ("connector.class" in value or key in ("partition", "offset")):
        return "name" in value
    if isinstance(value, dict):
        return {
            name: _shape(each, name)
            for name, each in sorted(value.items())
            if name != "version"  # of the connector's class, in statuses (KIP-891): ours have none
        }
    if isinstance(value, list):
        return [_shape(each) for each in value[:1]] if value else []
    return value if key in ("state", "error_code", "name", "id", "task") else type(value).__name__


@pytest.fixture(scope="module")
def sides(
    broker: EmbeddedBroker, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[tuple[Side, Side]]:
    """Kafka's worker and ours."""
    directory: Path = tmp_path_factory.mktemp("connect")
    source = directory / "source.txt"
    source.write_text("x\n")
    broker.create_topic("rest-lines", 1)
    theirs = {
        "connector.class": "FileStreamSource",
        "file": str(source),
        "topic": "rest-lines",
        "tasks.max": "1",
    }
    with java_worker(broker, directory, group_id="rest-theirs") as java:
        ours = app().start({"group.id": "rest-ours", "bootstrap.servers": broker.bootstrap_servers})
        server = RestServer(ours, HttpSettings(port=0))
        server.start()
        try:
            eventually(lambda: java.ask("/connectors") == [], java.said, _START_S)
            yield (
                Side(f"http://127.0.0.1:{java.port}", theirs),
                Side(
                    f"http://127.0.0.1:{server.port}", {"connector.class": "Counting", "count": "1"}
                ),
            )
        finally:
            server.stop()
            assert ours.stop(60)


def test_a_connectors_life_looks_the_same(sides: tuple[Side, Side]) -> None:
    def same(method: str, path: str, body: Any = None) -> Answer:
        theirs, ours = (side.ask(method, path, body) for side in sides)
        assert ours == theirs, (method, path)
        return ours

    def until(path: str, *states: str) -> None:
        for side in sides:

            def there(side: Side = side) -> bool:
                shape = side.ask("GET", path).shape
                if "connector" not in shape:
                    return False
                found = [shape["connector"]["state"], *(each["state"] for each in shape["tasks"])]
                return found == list(states)

            eventually(there)
        same("GET", path)

    assert same("GET", "/connectors").shape == []
    created = same("POST", "/connectors", {"name": "c", "config": _CONFIG})
    assert (created.code, created.located) == (201, True)
    assert same("POST", "/connectors", {"name": "c", "config": _CONFIG}).code == 409
    until("/connectors/c/status", "RUNNING", "RUNNING")
    # not while it runs
    assert same("DELETE", "/connectors/c/offsets").code == 400
    for path in (
        "/connectors",
        "/connectors/c",
        "/connectors/c/config",
        "/connectors/c/tasks/0/status",
        "/connectors?expand=info",
        "/connectors?expand=status",
        "/connectors?expand=nothing",
    ):
        assert same("GET", path).code == 200
    assert same("PUT", "/connectors/c/config", _CONFIG).code == 200
    assert same("PATCH", "/connectors/c/config", {"note": "x"}).code == 200
    until("/connectors/c/status", "RUNNING", "RUNNING")
    assert same("PUT", "/connectors/c/pause").code == 202
    until("/connectors/c/status", "PAUSED", "PAUSED")
    assert same("PUT", "/connectors/c/resume").code == 202
    until("/connectors/c/status", "RUNNING", "RUNNING")
    assert same("POST", "/connectors/c/restart").code == 204
    until("/connectors/c/status", "RUNNING", "RUNNING")
    assert same("POST", "/connectors/c/tasks/0/restart").code == 204
    assert same("PUT", "/connectors/c/stop").code == 204
    until("/connectors/c/status", "STOPPED")
    for side in sides:

        def known(side: Side = side) -> bool:
            return bool(side.ask("GET", "/connectors/c/offsets").shape["offsets"])

        eventually(known)
    assert same("GET", "/connectors/c/offsets").code == 200
    assert same("PATCH", "/connectors/c/offsets", {"offsets": []}).code == 400
    assert same("DELETE", "/connectors/c/offsets").code == 200
    assert same("GET", "/connectors/c/offsets").shape == {"offsets": []}
    assert same("DELETE", "/connectors/c").code == 204
    assert same("DELETE", "/connectors/c").code == 404
    body = {"name": "c", "config": _CONFIG, "initial_state": "STOPPED"}
    assert same("POST", "/connectors", body).code == 201
    until("/connectors/c/status", "STOPPED")
    assert same("DELETE", "/connectors/c/").code == 204


def test_numbers_of_a_configuration_are_kept_as_they_are_written(sides: tuple[Side, Side]) -> None:
    written = '"a": 1.10, "b": 1e400, "c": -0, "d": 1.0E+2, "e": 12345678901234567890123, "f": true'
    theirs, ours = (side.kept(written) for side in sides)
    assert (ours["a"], ours["b"], ours["c"]) == ("1.10", "1e400", "-0")
    assert {key: ours[key] for key in "abcdef"} == {key: theirs[key] for key in "abcdef"}


@pytest.mark.parametrize(
    ("method", "path", "body", "code"),
    [
        ("GET", "/", None, 200),
        ("GET", "/health", None, 200),
        ("GET", "/connectors/", None, 200),
        ("GET", "/connector-plugins", None, 200),
        ("GET", "/nowhere", None, 404),
        ("DELETE", "/connectors", None, 405),
        ("GET", "/connectors/none", None, 404),
        ("GET", "/connectors/none/config", None, 404),
        ("GET", "/connectors/none/status", None, 404),
        ("GET", "/connectors/none/tasks", None, 404),
        ("GET", "/connectors/none/tasks/0/status", None, 404),
        ("GET", "/connectors/none/tasks/x/status", None, 404),
        ("PUT", "/connectors/none/pause", None, 404),
        ("PUT", "/connectors/none/resume", None, 404),
        ("PUT", "/connectors/none/stop", None, 404),
        ("POST", "/connectors/none/restart", None, 404),
        ("POST", "/connectors/none/tasks/0/restart", None, 404),
        ("DELETE", "/connectors/none", None, 404),
        ("PATCH", "/connectors/none/config", {}, 404),
        # the rest of them needs Log4j: tests/connect/rest/test_loggers_beside_kafka.py
        ("PUT", "/admin/loggers/some.logger", {}, 400),
        ("GET", "/connectors/none/offsets", None, 404),
        ("DELETE", "/connectors/none/offsets", None, 404),
        ("PATCH", "/connectors/none/offsets", {"offsets": []}, 400),
        ("PUT", "/connectors/e/config", {}, 400),
        ("PUT", "/connectors/e/config", {"connector.class": "Nope"}, 400),
        ("PUT", "/connectors/e/config", {"connector.class": "Nope", "name": "other"}, 400),
        ("POST", "/connectors", {"name": "", "config": _CONFIG}, 400),
        ("POST", "/connectors/none/tasks", [], 400),
        ("PUT", "/connectors/none/fence", None, 400),
    ],
)
def test_answers_are_the_same(
    sides: tuple[Side, Side], method: str, path: str, body: Any, code: int
) -> None:
    theirs, ours = (side.ask(method, path, body) for side in sides)
    assert ours == theirs
    assert ours.code == code


def test_other_types_of_bodies_are_refused_alike(sides: tuple[Side, Side]) -> None:
    for side in sides:
        assert side.ask("PUT", "/connectors/e/config", _CONFIG, "text/plain").code == 415
