"""Holds that pages of other sites, which a browser opens beside a worker, cannot read or change anything."""

import asyncio
import json
import socket

import pytest
from starlette.types import Message

from groupsdk.errors import ConfigError
from groupsdk.http.access import JsonAnswer, RequestGuard
from groupsdk.http.settings import HttpSettings
from tests.connect.rest.test_api import CONFIG, Client, ask


__all__ = ["ask"]  # a fixture
SETTINGS = HttpSettings(
    port=0, advertised_url="https://Announced.example:8443/", allowed_hosts=("proxy.example",)
)


def test_only_the_workers_own_names_are_taken_as_host(ask: Client) -> None:
    port = ask.url.rpartition(":")[2]
    for host, code in (
        (f"127.0.0.1:{port}", 200),
        ("localhost", 200),
        ("LocalHost.:1", 200),
        (f"[::1]:{port}", 200),
        # as probes of Kubernetes address it; no name of somebody's DNS leads there
        ("10.0.0.7:8083", 200),
        (f"rebound.example:{port}", 421),
        ("localhost.rebound.example", 421),
        ("rebound.example@localhost", 421),
        ("localhost@rebound.example", 421),
        ("127.0.0.1.rebound.example", 421),
        ("local host", 421),
        ("[::1", 421),
        ("", 421),
    ):
        got, said = ask("GET", "/connectors", Host=host)
        assert got == code, (host, said)
    # a name that was rebound makes nothing
    assert ask("PUT", "/connectors/c/config", CONFIG, Host="rebound.example")[0] == 421
    assert ask("GET", "/connectors") == (200, [])
    code, said = ask("GET", "/", Host="rebound.example")
    assert "--rest-allowed-hosts" in said["message"]


def code_of(ask: Client, head: str) -> int:
    """The status code of a request that is sent as it stands."""
    with socket.create_connection(("127.0.0.1", int(ask.url.rpartition(":")[2])), 60) as client:
        client.sendall(head.replace("\n", "\r\n").encode() + b"\r\n\r\n")
        return int(client.recv(100).split()[1])


def test_a_url_as_target_names_the_host(ask: Client) -> None:
    for target, host, code in (
        ("http://127.0.0.1:8083/connectors", "127.0.0.1:8083", 200),
        ("HTTP://LocalHost/connectors?expand=info", "localhost", 200),
        ("https://localhost", "localhost", 200),
        ("http://localhost/connectors/no%2Fsuch", "localhost", 404),
        # that of the URL counts, whatever Host says
        ("http://127.0.0.1/connectors", "rebound.example", 200),
        ("http://rebound.example/connectors", "localhost", 421),
        ("http://x@localhost/connectors", "localhost", 421),
        ("http:///connectors", "localhost", 421),
        ("http://[::1/connectors", "localhost", 421),
        ("ftp://localhost/connectors", "localhost", 404),
        ("/connectors/http://localhost", "localhost", 404),
        ("/connectors", "rebound.example", 421),
    ):
        assert code_of(ask, f"GET {target} HTTP/1.1\nHost: {host}") == code, target


def test_only_http_1_0_may_leave_out_the_host(ask: Client) -> None:
    for head, code in (
        ("GET /connectors HTTP/1.0", 200),
        ("GET http://localhost/connectors HTTP/1.0", 200),
        ("GET http://rebound.example/connectors HTTP/1.0", 421),
        ("GET /connectors HTTP/1.0\nHost: rebound.example", 421),
        ("GET /connectors HTTP/1.0\nHost:", 421),
        ("GET /connectors HTTP/1.0\nOrigin: http://rebound.example", 403),
        ("GET /connectors HTTP/1.1", 400),
    ):
        assert code_of(ask, head) == code, head


def test_the_announced_host_and_those_of_the_setting_are_taken() -> None:
    assert SETTINGS.hosts() == {
        "localhost",
        "127.0.0.1",
        "::1",
        "announced.example",
        "proxy.example",
    }
    read = HttpSettings.of("--rest", ":1", allowed_hosts="a.example, B.example")
    assert {"a.example", "b.example"} <= read.hosts()
    for wrong in ("http://a", "a:1", "*.example"):
        with pytest.raises(ConfigError, match="--rest-allowed-hosts must be names of hosts"):
            HttpSettings(allowed_hosts=(wrong,))


@pytest.mark.parametrize("verb", ["restart", "pause"])
def test_pages_of_other_sites_change_nothing_without_a_body(ask: Client, verb: str) -> None:
    assert ask("PUT", "/connectors/c/config", CONFIG)[0] == 201
    method, path = ("POST" if verb == "restart" else "PUT"), f"/connectors/c/{verb}"
    port = ask.url.rpartition(":")[2]
    for origin in (
        "https://other.example",
        f"http://127.0.0.1:{int(port) ^ 1}",  # another program's page on the same machine
        f"http://localhost:{port}",  # not what this request names as Host
        "null",
        "",
        "file://",
        f"http://x@127.0.0.1:{port}",
    ):
        code, said = ask(method, path, Origin=origin)
        assert (code, said["error_code"]) == (403, 403), origin
        assert ask("GET", "/connectors", Origin=origin)[0] == 403
    # its own pages, and programs, which say no Origin
    assert ask(method, path, Origin=ask.url)[0] in (202, 204)
    assert ask(method, path)[0] in (202, 204)


def test_tasks_are_not_taken_as_plain_text(ask: Client) -> None:
    body = json.dumps([{"task.id": "t7"}]).encode()
    for kind in ("text/plain", "application/x-www-form-urlencoded", "text/plain; application/json"):
        for method, path in (("POST", "/connectors/c/tasks"), ("PUT", "/connectors/c/stop")):
            assert ask(method, path, body, **{"Content-Type": kind})[0] == 415
            assert ask(method, path, b"", **{"Content-Type": kind})[0] == 415
    json_kind = {"Content-Type": "Application/JSON; charset=utf-8"}
    assert ask("PUT", "/connectors/c/config", CONFIG, **json_kind)[0] == 201


def test_pages_of_other_sites_link_and_embed_nothing(ask: Client) -> None:
    link = {"Sec-Fetch-Mode": "navigate", "Sec-Fetch-Dest": "document"}
    for site, more, code in (
        ("cross-site", {"Sec-Fetch-Mode": "no-cors", "Sec-Fetch-Dest": "image"}, 403),
        # a page on another port of this machine is of the same site
        ("same-site", {"Sec-Fetch-Mode": "no-cors", "Sec-Fetch-Dest": "script"}, 403),
        ("cross-site", {"Sec-Fetch-Mode": "navigate", "Sec-Fetch-Dest": "iframe"}, 403),
        ("cross-site", link, 200),
        ("same-origin", {"Sec-Fetch-Mode": "cors", "Sec-Fetch-Dest": "empty"}, 200),
        ("none", link, 200),
    ):
        assert ask("GET", "/connectors", **{"Sec-Fetch-Site": site}, **more)[0] == code, (
            site,
            more,
        )


def guarded(method: str, *headers: tuple[str, str]) -> int:
    """Sends a request through the guard alone, with headers that no HTTP library would write."""
    app = RequestGuard(JsonAnswer({}), HttpSettings(port=0))
    sent: list[Message] = []

    async def receive() -> Message:
        return {"type": "http.request"}

    async def send(message: Message) -> None:
        sent.append(message)

    scope = {
        "type": "http",
        "method": method,
        "path": "/",
        "query_string": b"",
        "headers": [(name.encode(), value.encode()) for name, value in headers],
    }
    asyncio.run(app(scope, receive, send))
    return int(sent[0]["status"])


def test_a_body_without_a_length_is_a_body() -> None:
    host = ("host", "localhost")
    assert guarded("PUT", host) == 200
    assert guarded("PUT", host, ("content-length", "0")) == 200
    for length in (("transfer-encoding", "chunked"), ("content-length", "2")):
        assert guarded("PUT", host, length) == 415
        assert guarded("PUT", host, length, ("content-type", "application/json")) == 200


def test_of_two_hosts_none_counts() -> None:
    for second in ("evil.example", "localhost"):
        assert guarded("GET", ("host", "localhost"), ("host", second)) == 421
    assert guarded("GET") == 421
    assert guarded("GET", ("host", "localhost")) == 200
