"""Holds how a worker begins and ends to listen."""

import logging
import socket
import struct

import pytest

from groupsdk.connect.rest.api import RestServer
from groupsdk.errors import ConfigError
from groupsdk.http.settings import HttpSettings
from tests.connect.rest.test_api import Client
from tests.connect.workers import eventually, standalone
from tests.http.serving import serving


def test_an_address_that_is_in_use_is_said() -> None:
    with (
        serving() as first,
        standalone() as worker,
        pytest.raises(ConfigError, match="cannot listen"),
    ):
        RestServer(worker, HttpSettings(port=first.port)).start()


def test_stopped_rest_server_frees_its_port() -> None:
    with serving() as server:
        port = server.port
        assert Client(server)("GET", "/connectors") == (200, [])
        server.stop()
        server.stop()
        with pytest.raises(ConnectionRefusedError):
            socket.create_connection(("127.0.0.1", port), 5)


@pytest.mark.parametrize("reset", [False, True])
@pytest.mark.parametrize(
    "head",
    [
        b"POST /connectors HTTP/1.1\r\nHost: localhost\r\nContent-Length: 100\r\n",
        b"PUT /connectors/a/config HTTP/1.1\r\nHost: localhost\r\nTransfer-Encoding: chunked\r\n",
    ],
)
def test_a_client_that_hangs_up_costs_one_line(
    head: bytes, reset: bool, caplog: pytest.LogCaptureFixture
) -> None:
    with caplog.at_level(logging.INFO), serving() as server:
        before = len(caplog.records)
        with socket.create_connection(("127.0.0.1", server.port), 5) as client:
            if reset:
                linger = struct.pack("ii", 1, 0)
                client.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, linger)
            client.sendall(head + b"Content-Type: application/json\r\nExpect: 100-continue\r\n\r\n")
            assert client.recv(100).startswith(b"HTTP/1.1 100")  # its body is being read
        eventually(lambda: "hung up" in caplog.text)
        told = [each for each in caplog.records[before:] if each.name.startswith("groupsdk")]
        assert [each.getMessage() for each in told] == [
            "rest: a client hung up before its request was complete"
        ]
        assert not any(each.exc_info for each in caplog.records)
