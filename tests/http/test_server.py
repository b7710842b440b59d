"""Holds how a worker begins and ends to listen."""

import socket

import pytest

from groupsdk.connect.rest.api import RestServer
from groupsdk.errors import ConfigError
from groupsdk.http.settings import HttpSettings
from tests.connect.rest.test_api import Client
from tests.connect.workers import standalone


def test_an_address_that_is_in_use_is_said() -> None:
    with standalone() as worker:
        first = RestServer(worker, HttpSettings(port=0))
        first.start()
        with pytest.raises(ConfigError, match="cannot listen"):
            RestServer(worker, HttpSettings(port=first.port)).start()
        first.stop()


def test_it_ends_and_frees_its_port() -> None:
    with standalone() as worker:
        server = RestServer(worker, HttpSettings(port=0))
        server.start()
        port = server.port
        assert Client(server)("GET", "/connectors") == (200, [])
        server.stop()
        server.stop()
        with pytest.raises(ConnectionRefusedError):
            socket.create_connection(("127.0.0.1", port), 5)
