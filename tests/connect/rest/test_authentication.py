"""Holds who is let in."""

from groupsdk.connect.rest.server import RestServer
from groupsdk.connect.rest.settings import RestSettings
from tests.connect.rest.test_api import Client
from tests.connect.workers import standalone


def test_only_who_knows_the_password_gets_in() -> None:
    with standalone() as worker:
        server = RestServer(worker, RestSettings(port=0, user="alice", password="pass"))
        server.start()
        ask = Client(server)
        assert ask("GET", "/connectors")[0] == 401
        assert ask("GET", "/connectors", Authorization="Basic YWxpY2U6d3Jvbmc=")[0] == 401
        assert ask("GET", "/connectors", Authorization="Basic !")[0] == 401
        assert ask("GET", "/connectors", Authorization="Basic YWxpY2U6cGFzcw==") == (200, [])
        server.stop()
