"""Test servers whose process may open few files: many clients neither shut others out nor fill the log."""

import errno
import socket
import subprocess
import sys
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path

import pytest

from groupsdk.broker.embedded import EmbeddedBroker
from groupsdk.broker.server import listener
from groupsdk.broker.server.listener import Limits
from groupsdk.broker.settings.table import BrokerConfig
from groupsdk.http import server
from groupsdk.http.server import most_connections
from groupsdk.http.settings import HttpSettings
from groupsdk.limits import max_open_files
from groupsdk.wire.messages.metadata import MetadataRequest
from tests.broker.clients import Client, eventually


_FILES = 256
_CLIENTS = 400
_HTTP = """
from groupsdk.http.server import HttpServer
from groupsdk.http.settings import HttpSettings

async def app(scope, receive, send):
    await send({"type": "http.response.start", "status": 200, "headers": []})
    await send({"type": "http.response.body", "body": b"well"})

with HttpServer(app, HttpSettings(port=0), name="test") as server:
    print(server.port, flush=True)
    sys.stdin.read()
"""
_BROKER = """
from groupsdk.broker.embedded import EmbeddedBroker

with EmbeddedBroker(topics={"t": 1}) as broker:
    print(broker.bootstrap_servers.rpartition(":")[2], flush=True)
    sys.stdin.read()
"""


@contextmanager
def served(program: str, log: Path) -> Iterator[int]:
    """Run a server in a process that may open 256 files. Yield its port."""
    limited = f"""
import logging, resource, sys
logging.basicConfig(level=logging.INFO)
resource.setrlimit(resource.RLIMIT_NOFILE, ({_FILES}, {_FILES}))
{program}"""
    with (
        log.open("wb") as written,
        subprocess.Popen(
            [sys.executable, "-c", limited],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=written,
            cwd=Path(__file__).parents[2],
        ) as process,
    ):
        assert process.stdout is not None
        try:
            yield int(process.stdout.readline())
        finally:
            process.kill()


def crowd(stack: ExitStack, port: int, begun: bytes) -> list[socket.socket]:
    """Connect many clients, each of which begins a request and says no more."""
    clients = []
    for _ in range(_CLIENTS):
        client = stack.enter_context(socket.create_connection(("127.0.0.1", port), 60))
        with suppress(OSError):  # it may have been ended already
            client.sendall(begun)
        clients.append(client)
    return clients


def get(port: int) -> bytes:
    with socket.create_connection(("127.0.0.1", port), 60) as client:
        client.sendall(b"GET /health HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n")
        with client.makefile("rb") as answer:
            return answer.read()


@pytest.mark.timeout(300)
def test_http_answers_beside_more_unfinished_requests_than_there_are_descriptors(
    tmp_path: Path,
) -> None:
    log = tmp_path / "log"
    with served(_HTTP, log) as port, ExitStack() as stack:
        crowd(stack, port, b"GET /health HTTP/1.1\r\nHost: loc")
        for _ in range(3):
            assert b"well" in get(port)
    said = log.read_text()
    assert "holds 64 connections, not 200, as this process may open 256 files" in said
    assert len(said) < 10_000


@pytest.mark.timeout(300)
def test_a_broker_answers_beside_more_connections_than_there_are_descriptors(
    tmp_path: Path,
) -> None:
    log = tmp_path / "log"
    with served(_BROKER, log) as port, ExitStack() as stack:
        first = stack.enter_context(Client(("127.0.0.1", port)))
        assert first.ask(MetadataRequest(()), 12).brokers
        crowd(stack, port, b"\0")
        assert first.ask(MetadataRequest(()), 12).brokers
        full = "192 are open, and this process may open 256 files (ulimit -n)"
        eventually(lambda: full in log.read_text(), True)  # it accepts beside what it answers
    assert "cannot accept" not in log.read_text()


def test_a_listener_without_descriptors_says_so_once_a_minute(
    caplog: pytest.LogCaptureFixture,
) -> None:
    with EmbeddedBroker() as broker:
        (node,) = broker._running().nodes.values()
        (each,) = node.listeners
        times = iter([100_000, 100_000, 101_000, 159_999, 160_000, 160_000])
        each.now_ms = times.__next__
        for _ in range(4):
            each._tell_unaccepted(OSError(errno.EMFILE, "Too many open files"))
    told = [line for line in caplog.messages if "cannot accept connections" in line]
    assert len(told) == 2


def test_limits_count_the_descriptors_of_the_process(monkeypatch: pytest.MonkeyPatch) -> None:
    assert max_open_files() > 0
    for files, http, broker in ((256, 64, 192), (1_000_000, 200, 750_000), (1, 1, 1)):
        monkeypatch.setattr(server, "max_open_files", lambda files=files: files)
        monkeypatch.setattr(listener, "max_open_files", lambda files=files: files)
        assert most_connections(HttpSettings()) == http
        limits = Limits(BrokerConfig())
        for _ in range(broker):
            limits._total += 1
        assert f"may open {files} files" in str(limits.problem("127.0.0.1"))
        limits._total -= 1
        assert limits.problem("127.0.0.1") is None
