"""Holds that clients which are slow, many, or no clients of HTTP neither stop a worker's answers nor fill its log."""

import logging
import socket
from contextlib import ExitStack, suppress
from types import SimpleNamespace

import pytest

from groupsdk.connect.rest.api import RestServer
from groupsdk.errors import ConfigError
from groupsdk.http.server import RepeatedWarnings
from groupsdk.http.settings import HttpSettings
from tests.connect.rest.test_api import Client
from tests.connect.workers import eventually
from tests.http.serving import serving


HEAD = b"PUT /connectors/c/config HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n"


def connected(stack: ExitStack, server: RestServer) -> socket.socket:
    return stack.enter_context(socket.create_connection(("127.0.0.1", server.port), 100))


def answers(server: RestServer) -> bool:
    """Whether a client that sends its request at once is answered; a machine that stalls makes it too late."""
    with suppress(OSError):
        return Client(server)("GET", "/connectors") == (200, [])
    return False


def is_ended(peer: socket.socket) -> bool:
    """Wait until the server ends a connection; an error tells of one that it does not."""
    try:
        while peer.recv(10_000):
            pass
    except ConnectionResetError:
        pass
    return True


@pytest.mark.timeout(300)
def test_silent_connections_shut_nobody_out() -> None:
    with serving(max_connections=10) as server, ExitStack() as stack:
        silent = [connected(stack, server) for _ in range(40)]
        for number, peer in enumerate(silent):
            try:
                peer.sendall(HEAD if number % 2 else b"G")
            except OSError:
                assert number < 31
        ask = Client(server)
        for _ in range(3):
            assert ask("GET", "/connectors") == (200, [])
        # the first ones had to go
        assert all(is_ended(each) for each in silent[:30])


@pytest.mark.timeout(300)
def test_a_request_has_to_come_in_time() -> None:
    with serving(request_timeout_s=0.5) as server, ExitStack() as stack:
        for begun in (
            b"",
            b"GET /connectors HT",
            HEAD,
            HEAD + b"Content-Length: 100\r\n\r\n{",
            # the second on a connection that has been answered once
            b"GET / HTTP/1.1\r\nHost: localhost\r\n\r\nGET /conn",
        ):
            peer = connected(stack, server)
            peer.sendall(begun)
            assert is_ended(peer)
        eventually(lambda: answers(server))


@pytest.mark.timeout(300)
def test_client_that_does_not_read_is_dropped() -> None:
    with serving(request_timeout_s=0.5) as server, ExitStack() as stack:
        peer = connected(stack, server)
        peer.settimeout(0.2)
        with suppress(OSError):
            while True:
                peer.sendall(b"GET /openapi.json HTTP/1.1\r\nHost: localhost\r\n\r\n" * 50)
        eventually(lambda: not server._server.server_state.connections)


@pytest.mark.timeout(300)
def test_bytes_that_are_not_http_fill_no_log(caplog: pytest.LogCaptureFixture) -> None:
    with serving() as server, ExitStack() as stack, caplog.at_level(logging.INFO):
        for _ in range(50):
            peer = connected(stack, server)
            peer.sendall(b"\x16\x03\x01 hello\r\n\r\n")
            assert is_ended(peer)
        said = [each for each in caplog.records if "Invalid HTTP" in each.getMessage()]
        assert len(said) <= 1


def test_a_warning_comes_again_each_minute_with_how_often_it_was_held_back() -> None:
    clock = SimpleNamespace(at_ms=0)
    clock.now_ms = lambda: clock.at_ms
    held = RepeatedWarnings(clock)

    def passes(level: int) -> str | None:
        record = logging.LogRecord("x", level, "", 0, "client %s", ("a",), None)
        return record.getMessage() if held.filter(record) else None

    assert [passes(logging.WARNING) for _ in range(3)] == ["client a", None, None]
    assert passes(logging.ERROR) == "client a"
    clock.at_ms += 60_000
    assert passes(logging.WARNING) == "client a (2 more since the last such line)"


def test_limits_of_nothing_are_refused() -> None:
    with pytest.raises(ConfigError, match="must be more than 0"):
        HttpSettings(max_connections=0)
    with pytest.raises(ConfigError, match="must be more than 0"):
        HttpSettings(request_timeout_s=0)
