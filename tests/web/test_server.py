"""Holds the page's server: files, events, what-if, and who may ask."""

import base64
import http.client
import json
from contextlib import closing
from typing import Any
from urllib.parse import urlsplit

import pytest

from groupsdk.broker.embedded import EmbeddedBroker
from groupsdk.errors import ConfigError
from groupsdk.http.settings import HttpSettings
from groupsdk.web.server import PageServer
from tests.support.plain_workers import PlainWorker
from tests.web.conftest import Shown, page_of


def ask(
    url: str, path: str, method: str = "GET", **headers: str
) -> tuple[int, dict[str, str], bytes]:
    place = urlsplit(url)
    with closing(http.client.HTTPConnection(place.hostname or "", place.port, timeout=60)) as http_:
        http_.request(method, path, headers=headers)
        answer = http_.getresponse()
        found = {name.lower(): value for name, value in answer.getheaders()}
        return answer.status, found, answer.read()


class Events:
    """Reads the server-sent events of a page."""

    def __init__(self, url: str) -> None:
        place = urlsplit(url)
        self.http = http.client.HTTPConnection(place.hostname or "", place.port, timeout=60)
        self.http.request("GET", "/events")
        self.answer = self.http.getresponse()
        assert self.answer.status == 200

    def next(self) -> Any:
        while not (line := self.answer.fp.readline()).startswith(b"data: "):
            assert line
        return json.loads(line[6:])

    def close(self) -> None:
        self.http.close()


def test_the_page_comes_whole_and_runs_nothing_of_others(shown: Shown) -> None:
    for path, media_type in (
        ("/", "text/html"),
        ("/page.js", "text/javascript"),
        ("/page.css", "text/css"),
    ):
        status, headers, body = ask(shown.server.url, path)
        assert status == 200
        assert headers["content-type"].startswith(media_type)
        assert "default-src 'none'" in headers["content-security-policy"]
        assert "unsafe" not in headers["content-security-policy"]
        assert headers["x-content-type-options"] == "nosniff"
        assert b"https://" not in body, "the page works offline"
    assert ask(shown.server.url, "/../server.py")[0] == 404
    assert ask(shown.server.url, "/metrics")[0] == 404
    assert ask(shown.server.url, "/", "POST")[0] == 405


def test_events_follow_the_groups(shown: Shown) -> None:
    with closing(Events(shown.server.url)) as events:
        assert events.next()["groups"] == []
        servers = shown.broker.bootstrap_servers
        with PlainWorker(bootstrap_servers=servers, group_id="workers") as member:
            assert member.ensure_active_group(60)
            while not (groups := events.next()["groups"]) or groups[0]["state"] != "Stable":
                pass
            (group,) = groups
            assert group["group_id"] == "workers"
            assert [each["member_id"] for each in group["members"]] == [member.member_id()]
        while (state := events.next())["groups"][0]["state"] != "Empty":
            pass
        assert any("left" in each["text"] for each in state["events"])
        assert [name for _, name in state["groups"][0]["states"]][-1] == "Empty"
        assert state["cluster_id"]
        assert state["brokers"] == 1


def test_what_if_request_of_the_page_is_answered(shown: Shown) -> None:
    with closing(Events(shown.server.url)) as events:
        while events.next()["problem"] is not None:
            pass
    status, _, body = ask(shown.server.url, "/what-if?group=a%20b&assignor=sticky", "POST")
    assert (status, json.loads(body)["text"]) == (200, "sticky would move nothing in a b")
    for query, message in (
        ("group=none&assignor=range", "group 'none' has no members that read topics"),
        ("group=a&assignor=os:system", "there is no assignor 'os:system'"),
        ("group=a", "group and assignor are missing"),
    ):
        status, _, body = ask(shown.server.url, f"/what-if?{query}", "POST")
        assert (status, json.loads(body)["message"]) == (400, message)


def test_names_of_others_sites_and_their_pages_are_refused(shown: Shown) -> None:
    assert ask(shown.server.url, "/", Host="evil.example")[0] == 421
    assert ask(shown.server.url, "/events", Host="evil.example")[0] == 421
    asked = "/what-if?group=a&assignor=sticky"
    assert ask(shown.server.url, asked, "POST", Origin="http://evil.example")[0] == 403
    # as an image, which has no Origin; addresses without TLS do not even get Sec-Fetch-Site
    assert ask(shown.server.url, asked)[0] == 405
    assert ask(shown.server.url, "/events", **{"Sec-Fetch-Site": "cross-site"})[0] == 403


def test_a_password_is_needed_beyond_the_loopback() -> None:
    with pytest.raises(ConfigError, match="user"):
        HttpSettings(host="0.0.0.0", port=0)
    settings = HttpSettings(port=0, user="alice", password="pass")
    with EmbeddedBroker() as broker, PageServer(page_of(broker), settings) as server:
        right = "Basic " + base64.b64encode(b"alice:pass").decode()
        for path in ("/", "/events", "/what-if", "/page.js"):
            status, headers, _ = ask(server.url, path)
            assert status == 401
            assert headers["www-authenticate"].startswith("Basic")
        assert ask(server.url, "/", Authorization=right)[0] == 200


def test_a_port_in_use_is_said(shown: Shown) -> None:
    port = urlsplit(shown.server.url).port
    assert port is not None
    second = PageServer(page_of(shown.broker), HttpSettings(port=port))
    with pytest.raises(ConfigError, match=f"cannot listen on 127.0.0.1:{port}; is the port in use"):
        second.start()
    second.stop()


def test_a_cluster_that_is_away_is_said_on_the_page() -> None:
    with EmbeddedBroker() as broker:
        page = page_of(broker)
    with PageServer(page, HttpSettings(port=0)) as server, closing(Events(server.url)) as events:
        assert events.next()["problem"]


def test_a_server_that_ends_ends_open_pages_in_good_order(
    caplog: pytest.LogCaptureFixture,
) -> None:
    with EmbeddedBroker() as broker:
        server = PageServer(page_of(broker), HttpSettings(port=0))
        server.start()
        with closing(Events(server.url)) as events:
            events.next()
            server.stop()
            while events.answer.fp.readline():
                pass
    assert [
        each for each in caplog.records if each.name == "uvicorn.error" and each.levelno > 20
    ] == []
