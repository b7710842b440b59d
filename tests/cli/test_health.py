"""Test the HTTP endpoint of `groupsdk run --health`."""

import errno
import json
import socket
import threading
import urllib.error
import urllib.request
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager, suppress
from types import SimpleNamespace
from typing import Any

import pytest

from groupsdk.broker.embedded import EmbeddedBroker
from groupsdk.cli import health as module
from groupsdk.cli.health import HealthServer, health
from groupsdk.cli.run import RunOptions, runnable
from groupsdk.clock import SystemClock
from groupsdk.errors import ConfigError
from groupsdk.types import NO_GENERATION
from tests.cli.peers import Shards
from tests.cli.test_run import connection
from tests.support.workers import eventually


pytestmark = pytest.mark.timeout(300)


def test_health_describes_the_member(broker: EmbeddedBroker, group_id: str) -> None:
    member = Shards(bootstrap_servers=broker.bootstrap_servers, group_id=group_id)
    running = runnable(member, "m:member", connection(broker), RunOptions())
    server = HealthServer("127.0.0.1:0", running)
    server.start()

    def get(path: str) -> tuple[int, str]:
        try:
            with urllib.request.urlopen(
                f"http://127.0.0.1:{server.port}{path}", timeout=60
            ) as answer:
                return answer.status, answer.read().decode()
        except urllib.error.HTTPError as error:
            with error:
                return error.code, error.read().decode()

    try:
        assert member.ensure_active_group(60)
        status, text = get("/health")
        shown = json.loads(text)
        assert (status, shown["status"], shown["state"]) == (200, "up", "stable")
        assert (shown["group"], shown["member"]) == (group_id, member.member_id())
        status, text = get("/metrics")
        assert status == 200
        assert text.endswith("# EOF\n")
        assert get("/other")[0] == 404
        with pytest.raises(ConfigError, match="--health: cannot listen on 127"):
            HealthServer(f"127.0.0.1:{server.port}", running)
    finally:
        server.stop()
        member.close()
    for address in ("8080", ":8080", "h:", "h:99999"):
        with pytest.raises(ConfigError, match="--health must be HOST:PORT"):
            HealthServer(address, running)


def test_a_member_in_trouble_is_not_well() -> None:
    snapshot: Any = SimpleNamespace(
        trouble="no broker",
        group_id="g",
        member_id="",
        generation=NO_GENERATION,
        state=SimpleNamespace(name="UNJOINED"),
        stable=False,
        coordinator=None,
    )
    well, shown = health(snapshot)
    assert (well, shown["status"], shown["trouble"]) == (False, "down", "no broker")


@contextmanager
def serving() -> Iterator[HealthServer]:
    running: Any = SimpleNamespace(openmetrics=lambda: "# EOF\n")
    server = HealthServer("127.0.0.1:0", running)
    server.start()
    try:
        yield server
    finally:
        server.stop()


def metrics(server: HealthServer) -> bytes:
    url = f"http://127.0.0.1:{server.port}/metrics"
    with urllib.request.urlopen(url, timeout=60) as answer:
        body: bytes = answer.read()
    return body


def test_unfinished_requests_hold_a_bounded_number_of_threads(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(module, "_MAX_CONNECTIONS", 4)
    monkeypatch.setattr(module, "_SILENT_S", 600.0)
    with serving() as server, ExitStack() as stack:
        before = threading.active_count()
        for _ in range(40):
            peer = stack.enter_context(socket.create_connection(("127.0.0.1", server.port), 60))
            with suppress(OSError):  # the server has ended it
                peer.sendall(b"GET /hea")
        assert metrics(server) == b"# EOF\n"
        eventually(lambda: threading.active_count() <= before + 5)


def test_a_lack_of_descriptors_does_not_spin(monkeypatch: pytest.MonkeyPatch) -> None:
    clock, accept = SystemClock(), socket.socket.accept
    tried_ms: list[int] = []

    def lacking(listener: socket.socket) -> Any:
        if len(tried_ms) == 3:
            return accept(listener)
        tried_ms.append(clock.now_ms())
        raise OSError(errno.EMFILE, "Too many open files")

    with serving() as server:
        monkeypatch.setattr(socket.socket, "accept", lacking)
        assert metrics(server) == b"# EOF\n"
    assert tried_ms[2] - tried_ms[0] >= 190
