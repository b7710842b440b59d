"""Holds that any worker of a group takes requests, and sends on what the leader has to do."""

import socket
import threading
from contextlib import ExitStack

import pytest

from groupsdk.connect.rest.forward import forward
from groupsdk.connect.rest.server import RestServer
from groupsdk.connect.rest.settings import RestSettings
from tests.connect.rest.test_api import CONFIG, Client
from tests.connect.workers import app, eventually


def free_ports(count: int) -> list[int]:
    """Find ports that nobody uses."""
    with ExitStack() as stack:
        sockets = [stack.enter_context(socket.socket()) for _ in range(count)]
        for each in sockets:
            each.bind(("127.0.0.1", 0))
        return [int(each.getsockname()[1]) for each in sockets]


def test_a_leader_that_is_not_there_is_said() -> None:
    assert forward("GET", "http://127.0.0.1:1/", {}, b"")[0] == 502
    assert forward("GET", "file:///etc/passwd", {}, b"")[0] == 502


@pytest.mark.parametrize("url", ["http://h:port/", "http://h/\r\nX: y", "http://h/a b", "http://["])
def test_an_address_that_is_none_is_said(url: str) -> None:
    assert forward("GET", url, {}, b"")[0] == 502


def test_an_answer_that_is_no_http_is_said() -> None:
    with socket.create_server(("127.0.0.1", 0)) as server:

        def answer() -> None:
            peer, _ = server.accept()
            with peer:
                peer.recv(1_000)
                peer.sendall(b"220 mail.example ESMTP\r\n")

        thread = threading.Thread(target=answer, daemon=True)
        thread.start()
        assert forward("GET", f"http://127.0.0.1:{server.getsockname()[1]}/", {}, b"")[0] == 502
        thread.join(20)


def test_a_follower_sends_on(servers: str, group_id: str) -> None:
    with ExitStack() as stack:
        asks, workers = [], []
        for port in free_ports(2):
            settings = RestSettings(port=port)
            worker = app().start(bootstrap_servers=servers, group_id=group_id, url=settings.url)
            stack.callback(worker.stop)
            server = RestServer(worker, settings)
            server.start()
            stack.callback(server.stop)
            asks.append(Client(server))
            workers.append(worker)
        eventually(lambda: [each.leader_url is not None for each in workers] == [True, True])
        follower = next(
            ask for ask, worker in zip(asks, workers, strict=True) if not worker.is_leader
        )

        def created() -> bool:
            code, answer = follower("PUT", "/connectors/c/config", CONFIG)
            assert code in (200, 201, 409, 502), answer
            return code in (200, 201)

        eventually(created)
        eventually(lambda: sorted(len(each.owned.tasks) for each in workers) == [1, 1])
        # the query is sent on, and what came by another worker goes one worker further and no more
        path = "/connectors/c/restart?includeTasks=true"
        for forwarded, expected in (("", 202), ("&forward=true", 202), ("&forward=false", 409)):
            eventually(lambda url=path + forwarded, code=expected: follower("POST", url)[0] == code)  # type: ignore[misc]
        # the name stays one word of the path
        path = "/connectors/one%20two%3F%C3%A4"
        eventually(lambda: follower("PUT", f"{path}/config", CONFIG)[0] in (200, 201))
        eventually(lambda: follower("DELETE", path)[0] == 204)
        # no more is read of a body than may be sent, whether it is needed or not
        long = b"x" * 1_000_001
        eventually(lambda: follower("DELETE", "/connectors/c", long)[0] == 400)
        code, refused = follower("PUT", "/connectors/c/config", {**CONFIG, "count": "x"})
        assert (code, refused["error_code"]) == (400, 400)
        for ask in asks:
            eventually(lambda ask=ask: ask("GET", "/connectors") == (200, ["c"]))  # type: ignore[misc]
