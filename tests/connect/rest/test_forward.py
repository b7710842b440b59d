"""Holds that any worker of a group takes requests, and sends on what the leader has to do."""

import base64
import socket
import threading
from contextlib import ExitStack
from typing import Any

import pytest
from pytest_mock import MockerFixture

from groupsdk.connect.rest.forwarding import FORWARDED_HEADER, forward
from groupsdk.connect.rest.session_key import SessionKey
from groupsdk.connect.worker import ConnectWorker
from groupsdk.http.settings import HttpSettings
from tests.connect.rest.test_api import CONFIG, Client, served
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
        thread.join(60)


def two_workers(
    stack: ExitStack, servers: str, group_id: str, login: tuple[str, str] | None = None, **more: Any
) -> tuple[list[Client], list[ConnectWorker]]:
    """Two workers of one group that answer to HTTP, as soon as they listen."""
    # a machine that stalls makes a look at what another worker has made too late
    patched = stack.enter_context(pytest.MonkeyPatch.context())
    patched.setattr("groupsdk.connect.connectors.admin._CATCH_UP_MS", 60_000)
    asks, workers = [], []
    for port in free_ports(2):
        user, password = login or (None, None)
        settings = HttpSettings(port=port, user=user, password=password)
        worker = app().start(bootstrap_servers=servers, group_id=group_id, url=settings.url, **more)
        stack.callback(worker.stop)
        asks.append(stack.enter_context(served(worker, settings)))
        workers.append(worker)
    return asks, workers


def follower_of(asks: list[Client], workers: list[ConnectWorker]) -> Client:
    """Wait until both know who leads, and return the client of the other."""
    eventually(lambda: all(each.leader_url is not None for each in workers))
    return next(ask for ask, worker in zip(asks, workers, strict=True) if not worker.is_leader)


def test_requests_that_come_while_the_group_rebalances_wait_for_its_leader(
    servers: str, group_id: str
) -> None:
    with ExitStack() as stack:
        asks, workers = two_workers(stack, servers, group_id)
        # nobody leads yet; and each new connector makes the group rebalance
        codes = [
            asks[number % 2]("PUT", f"/connectors/c{number}/config", CONFIG)[0]
            for number in range(6)
        ]
        assert codes == [201] * 6
        # what one worker has made is there on the other at once
        for ask in asks:
            assert [ask("GET", f"/connectors/c{number}")[0] for number in range(6)] == [200] * 6
            assert ask("GET", "/connectors/c6")[0] == 404
        eventually(lambda: sum(len(each.owned.connectors) for each in workers) == 6)


def test_the_users_password_stays_with_the_worker_that_was_asked(
    servers: str, group_id: str, mocker: MockerFixture
) -> None:
    sent = mocker.patch("groupsdk.connect.rest.api.forward", wraps=forward)
    with ExitStack() as stack:
        asks, workers = two_workers(stack, servers, group_id, ("alice", "secret"))
        follower = follower_of(asks, workers)
        eventually(lambda: all(each.admin.configs().session_key for each in workers))
        leader = next(each for each in workers if each.is_leader)
        login = {"Authorization": "Basic " + base64.b64encode(b"alice:secret").decode()}
        path = "/connectors/one%20two%3F%C3%A4"

        def done(method: str, path: str, body: object = None) -> bool:
            code, said = follower(method, path, body, **login)
            assert code in (200, 201, 202, 204, 409), said
            return code != 409

        eventually(lambda: done("PUT", f"{path}/config?x=a%26b", CONFIG))
        # also where the key that this worker has read is not the leader's any more
        leader.requests.put(
            lambda: leader._leader.write([SessionKey(b"k" * 32, "HmacSHA256", 2**60).record()])
        ).result(60)
        eventually(lambda: done("POST", f"{path}/restart?includeTasks=true"))
        eventually(lambda: done("DELETE", path))
        assert len(sent.call_args_list) >= 3
        for call in sent.call_args_list:
            _, _, headers, _ = call.args
            assert set(headers) == {"content-type", FORWARDED_HEADER}
        # by no password, and by a wrong one, nothing is sent on
        sent.reset_mock()
        assert follower("DELETE", path)[0] == 401
        assert follower("DELETE", path, Authorization="Basic YTpi")[0] == 401
        sent.assert_not_called()


def test_without_a_key_nothing_is_sent_on(
    servers: str, group_id: str, mocker: MockerFixture
) -> None:
    sent = mocker.patch("groupsdk.connect.rest.api.forward", wraps=forward)
    with ExitStack() as stack:
        asks, workers = two_workers(
            stack, servers, group_id, ("alice", "secret"), connect_protocol="compatible"
        )
        follower = follower_of(asks, workers)
        login = {"Authorization": "Basic " + base64.b64encode(b"alice:secret").decode()}
        code, said = follower("PUT", "/connectors/c/config", CONFIG, **login)
        assert (code, "protocol is not sessioned; ask the leader" in said["message"]) == (409, True)
        sent.assert_not_called()


def test_a_follower_sends_on(servers: str, group_id: str) -> None:
    with ExitStack() as stack:
        asks, workers = two_workers(stack, servers, group_id)
        follower = follower_of(asks, workers)

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
