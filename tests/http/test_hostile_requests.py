"""Throws requests at the workers' REST interface and at the live page that no honest client sends."""

import logging
import random
import socket
from collections.abc import Iterator
from contextlib import suppress
from typing import Any, Final

import pytest

from groupsdk.http.server import BoundedConnection, HttpServer
from tests.connect.rest.test_api import Client, ask
from tests.connect.workers import eventually
from tests.http.serving import serving
from tests.support.cases import with_long
from tests.web.conftest import Shown, shown


__all__ = ["ask", "shown"]  # fixtures

HEAD: Final = b"Host: localhost\r\nContent-Type: application/json\r\n"
CHUNKED: Final = HEAD + b"Transfer-Encoding: chunked\r\n\r\n"
LINES: Final = [
    *(b"%s /connectors%s" % (verb, path) for verb in (b"GET", b"PUT", b"POST", b"PATCH", b"DELETE")
      for path in (b"", b"/c", b"/c/config", b"/c/offsets", b"/c/tasks/0/status", b"/c/tasks", b"/c/restart")),
    b"GET /admin/loggers/tests", b"PUT /connector-plugins/Counting/config/validate", b"GET /metrics",
    b"GET /", b"GET /page.js", b"POST /find?words=a", b"POST /what-if?group=g&assignor=range", b"OPTIONS *",
]  # fmt: skip
BODIES: Final = [
    b"", b'{"connector.class": "Counting", "count": "0"}', b'{"name": "c", "config": {}}',
    b'{"offsets": [{"partition": {"task": "t"}, "offset": {}}]}', b"[" * 2_000, b'{"a":' * 500, b"{",
]  # fmt: skip
FRAGMENTS: Final = [
    b"\r\n", b"\r", b"\n", b"\0", b"%00", b"%2F", b"%ff", b"//", b"[", b"]", b"..", b"?", b"&", b"${", b"9" * 5_000,
    b"\r\nContent-Length: -1", b"\r\nContent-Length: 7", b"\r\nContent-Length: 99999999999999999999",
    b"\r\nTransfer-Encoding: gzip", b"\r\nTransfer-Encoding: chunked", b"\r\nHost: other", b"\r\nExpect: 100-continue",
    b"\r\nConnection: Upgrade\r\nUpgrade: h2c", b"\r\nX-Forwarded-For: \x1b[2J", b"\r\nAuthorization: Basic \xff",
    b"\r\nOrigin: http://[", b"\r\nx-groupsdk-forwarded: v1", b" HTTP/1.0\r\n", b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n",
    b"\\ud800", b"NaN", b"1e999", b'"a":"a",', b";" * 200, b"A: b\r\n" * 500, b"x" * 20_000,
]  # fmt: skip


def hostile(seed: int, count: int) -> Iterator[bytes]:
    """Requests, some of them pipelined, each with some of the fragments somewhere in it."""
    chance = random.Random(seed)
    for _ in range(count):
        whole = bytearray()
        for _ in range(chance.choice((1, 1, 1, 3))):
            body = chance.choice(BODIES)
            if chance.random() < 0.3:
                tail = CHUNKED + b"%x\r\n%s\r\n0\r\n\r\n" % (len(body), body)
            else:
                tail = HEAD + b"Content-Length: %d\r\n\r\n%s" % (len(body), body)
            whole += chance.choice(LINES) + b" HTTP/1.1\r\n" + tail
        for _ in range(chance.randrange(4)):
            at = chance.randrange(len(whole))
            whole[at : at + chance.choice((0, 0, 1, 40))] = chance.choice(FRAGMENTS)
        yield bytes(whole)


def answer_of(server: HttpServer, *parts: bytes) -> bytes:
    """Send the parts, each after an answer to the one before it. Return all that comes until the server closes."""
    answer = b""
    with socket.create_connection(("127.0.0.1", server.port), 60) as client, suppress(OSError):
        for part in parts[:-1]:
            client.sendall(part)
            answer += client.recv(65_536)
        client.sendall(parts[-1])
        client.shutdown(socket.SHUT_WR)
        while more := client.recv(65_536):
            answer += more
    return answer


def raised(caplog: pytest.LogCaptureFixture) -> list[str]:
    """Return what was logged as an error, or with a traceback."""
    bad = [each for each in caplog.records if each.exc_info or each.levelno >= logging.ERROR]
    return [each.getMessage() for each in bad]


@pytest.mark.timeout(1_200)
@pytest.mark.parametrize("count", with_long([300, 20_000], 20_000))
def test_no_request_to_a_worker_is_an_error_of_the_server(
    caplog: pytest.LogCaptureFixture, count: int
) -> None:
    with serving() as server, serving(user="alice", password="alice") as guarded:
        for data in hostile(count, count):
            for each in (server, guarded):
                assert b"HTTP/1.1 500" not in answer_of(each, data), data
        assert Client(server)("GET", "/connectors")[0] == 200
    assert not raised(caplog)


@pytest.mark.timeout(1_200)
@pytest.mark.parametrize("count", with_long([300, 20_000], 20_000))
def test_no_request_to_the_page_is_an_error_of_the_server(
    shown: Shown, caplog: pytest.LogCaptureFixture, count: int
) -> None:
    for data in hostile(count, count):
        assert b"HTTP/1.1 500" not in answer_of(shown.server, data), data
    assert b"200 OK" in answer_of(shown.server, b"GET / HTTP/1.1\r\n" + HEAD + b"\r\n")
    assert not raised(caplog)


@pytest.mark.parametrize(
    "parts",
    [
        (b"POST /none HTTP/1.1\r\n" + CHUNKED, b"zz\r\n"),
        (b"POST /none HTTP/1.1\r\n" + CHUNKED + b"zz\r\n",),
        (b"POST /none HTTP/1.1\r\n" + CHUNKED, b"1\r\n{\r\nzz\r\n"),
    ],
)
def test_wrong_chunk_behind_an_answer_ends_the_connection_without_a_second_one(
    parts: tuple[bytes, ...], caplog: pytest.LogCaptureFixture
) -> None:
    with serving() as server:
        answer = answer_of(server, *parts)
    assert answer.count(b"HTTP/1.1 4") == answer.count(b"HTTP/1.1") == 1
    assert not raised(caplog)


def test_chunks_of_one_byte_are_read_a_little_at_a_time(monkeypatch: pytest.MonkeyPatch) -> None:
    read: list[int] = []
    usual = BoundedConnection.data_received

    def data_received(self: BoundedConnection, data: bytes) -> None:
        read.append(len(data))
        usual(self, data)

    monkeypatch.setattr(BoundedConnection, "data_received", data_received)
    with serving() as server:
        head = b"PUT /connectors/c/config HTTP/1.1\r\n" + CHUNKED
        answer_of(server, head + b"1\r\n \r\n" * 40_000 + b"0\r\n\r\n")
    assert sum(read) > 200_000
    assert max(read) <= 16_384


def test_request_to_change_to_http2_is_answered_and_not_logged(
    caplog: pytest.LogCaptureFixture,
) -> None:
    # Java's client sends it with every request
    upgrade = (
        b"Connection: Upgrade, HTTP2-Settings\r\nUpgrade: h2c\r\nHTTP2-Settings: AAMAAABk\r\n\r\n"
    )
    with serving() as server:
        assert b"200 OK" in answer_of(server, b"GET / HTTP/1.1\r\n" + HEAD + upgrade)
    assert not [each for each in caplog.records if each.levelno >= logging.WARNING]


def test_client_that_sends_no_more_is_answered_all_that_it_asked() -> None:
    whole = b"GET /health HTTP/1.1\r\n" + HEAD + b"\r\n"
    with serving() as server:
        eventually(lambda: b"200 OK" in answer_of(server, whole))
        assert answer_of(server, whole * 3).count(b"200 OK") == 3
        assert answer_of(server, whole + b"GET /heal").count(b"200 OK") == 1
        assert answer_of(server, b"GET /heal") == b""
        assert not server._server.server_state.connections


def test_page_that_is_left_is_sent_no_more_events(shown: Shown) -> None:
    with socket.create_connection(("127.0.0.1", shown.server.port), 60) as page:
        page.sendall(b"GET /events HTTP/1.1\r\n" + HEAD + b"\r\n")
        assert page.recv(100).startswith(b"HTTP/1.1 200")
        page.shutdown(socket.SHUT_WR)
        with suppress(ConnectionResetError):
            while page.recv(65_536):
                pass
    eventually(lambda: not shown.server._server.server_state.connections)


def test_body_with_two_ends_is_refused_and_nothing_behind_it_is_answered() -> None:
    # a proxy in front that goes by the length would send the second one for somebody else
    second = b"GET /connectors HTTP/1.1\r\n" + HEAD + b"\r\n"
    with serving() as server:
        length = b"Content-Length: %d\r\n" % (5 + len(second))
        answer = answer_of(
            server, b"POST /find HTTP/1.1\r\n" + length + CHUNKED + b"0\r\n\r\n" + second
        )
    assert answer.count(b"HTTP/1.1") == answer.count(b"HTTP/1.1 400") == 1


def test_number_of_thousands_of_digits_is_no_task(
    ask: Client, caplog: pytest.LogCaptureFixture
) -> None:
    config: dict[str, Any] = {"connector.class": "Counting", "count": "1"}
    assert ask("PUT", "/connectors/c/config", config)[0] == 201
    for method, verb in (("GET", "status"), ("POST", "restart")):
        code, said = ask(method, f"/connectors/c/tasks/{'9' * 5_000}/{verb}")
        assert (code, said["message"][:21]) == (404, "there is no task c-99")
    assert not raised(caplog)
