"""Sends the same requests for loggers to Kafka Connect's own worker, with Log4j, and to ours."""

import logging
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final

import pytest

from groupsdk.broker.embedded import EmbeddedBroker
from groupsdk.connect.rest.api import RestServer
from groupsdk.http.settings import HttpSettings
from tests.clients.test_connect import worker as java_worker
from tests.connect.rest.test_api import Client, Serving
from tests.connect.workers import eventually, standalone


_LOG4J: Final = [f"org.apache.logging.log4j:log4j-{name}:2.25.4" for name in ("core", "slf4j-impl")]
_START_S: Final = 90.0
_LOGGERS: Final = "/admin/loggers"


@pytest.fixture
def levels() -> Iterator[None]:
    """Puts the levels of all loggers back."""
    known = [logging.root, *map(logging.getLogger, list(logging.root.manager.loggerDict))]
    before = {each: each.level for each in known}
    yield
    for each in [logging.root, *map(logging.getLogger, list(logging.root.manager.loggerDict))]:
        each.setLevel(before.get(each, logging.NOTSET))


def ask(server: Serving, method: str, path: str, body: Any = None) -> tuple[int, Any]:
    """Send a request; of names only those of this test are returned, of times that there is one.

    Kafka's list of all loggers has no root, ours has it.
    """
    code, said = Client(server)(method, path, body)
    if code >= 400:
        return code, sorted(said)
    if isinstance(said, list):
        return code, [name for name in said if name.startswith("one.")]
    if isinstance(said, dict) and "level" not in said:
        return code, {name: each for name, each in said.items() if name.startswith("one.")}
    return code, _timeless(said)


def _timeless(said: Any) -> Any:
    return said and {**said, "last_modified": said["last_modified"] is not None}


@pytest.mark.timeout(300)
@pytest.mark.usefixtures("kafka_installed", "levels")
def test_levels_are_shown_and_set_as_kafkas_worker_does(tmp_path: Path) -> None:
    requests: list[tuple[str, str, Any]] = [
        ("PUT", "root", {"level": "ERROR"}),
        ("PUT", "one.b.c", {"level": "info"}),
        ("PUT", "one.b.d", {"level": "INFO"}),
        ("PUT", "one.b.c", {"level": "INFO"}),
        ("GET", "one.b", None),
        ("GET", "one.b.c", None),
        ("PUT", "one.b", {"level": "WARN"}),
        ("GET", "one.b", None),
        ("PUT", "one.b", {"level": "WARN"}),
        ("PUT", "one.b.q", {"level": "WARN"}),
        ("GET", "one.b.q", None),
        ("PUT", "one", {"level": "OFF"}),
        ("GET", "one.b.q", None),
        ("PUT", "one.b.c", {"level": "all"}),
        ("GET", "one.b.c", None),
        ("PUT", "one.b.c", {"level": "TRACE"}),
        ("GET", "one.b.c", None),
        ("PUT", "one.b?scope=moon", {"level": "FATAL"}),
        ("GET", "one.b", None),
        ("PUT", "root", {"level": "ERROR"}),
        ("PUT", "root", {"level": "ERROR"}),
        ("PUT", "one", {"level": "LOUD"}),
        ("PUT", "one", {"level": 3}),
        ("PUT", "one", {"level": None}),
        ("PUT", "one", {}),
        ("PUT", "one?scope=cluster", {"level": "LOUD"}),
    ]
    with (
        EmbeddedBroker() as broker,
        java_worker(broker, tmp_path, _LOG4J, group_id="loggers") as java,
        standalone() as worker,
        RestServer(worker, HttpSettings(port=0)) as server,
    ):
        eventually(lambda: java.ask("/connectors") == [], java.said, _START_S)
        for method, path, body in requests:
            found = [ask(side, method, f"{_LOGGERS}/{path}", body) for side in (java, server)]
            assert found[0] == found[1], (method, path, body)
        of_kafka, of_ours = (ask(side, "GET", _LOGGERS)[1] for side in (java, server))
        assert sorted(of_kafka) == ["one.b", "one.b.c", "one.b.d", "one.b.q"]
        assert {name: _timeless(each) for name, each in of_kafka.items()} == {
            name: _timeless(each) for name, each in of_ours.items()
        }
