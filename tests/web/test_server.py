"""Holds the page's server: files, events, what-if, and who may ask."""

import base64
import http.client
import json
from collections import defaultdict
from collections.abc import Callable
from contextlib import closing
from typing import Any
from urllib.parse import urlencode, urlsplit

import pytest

from groupsdk.broker.embedded import EmbeddedBroker
from groupsdk.errors import ConfigError
from groupsdk.http.settings import HttpSettings
from groupsdk.web.server import PageServer
from tests.broker.clients import commit_request, connect
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
    """Reads the server-sent events of a page, and applies them as the page does."""

    def __init__(self, url: str, group: str = "") -> None:
        place = urlsplit(url)
        self.http = http.client.HTTPConnection(place.hostname or "", place.port, timeout=60)
        self.http.request("GET", f"/events?{urlencode({'group': group})}" if group else "/events")
        self.answer = self.http.getresponse()
        assert self.answer.status == 200
        self.sections: dict[str, dict[str, Any]] = defaultdict(dict)
        self.size = 0
        """The length of the last event in bytes."""

    def next(self) -> dict[str, dict[str, Any]]:
        while not (line := self.answer.fp.readline()).startswith(b"data: "):
            assert line
        self.size = len(line)
        message = json.loads(line[6:])
        assert message.pop("whole", False) == (not self.sections)
        for name, entries in message.items():
            for key, value in entries.items():
                if value is None:
                    self.sections[name].pop(key, None)
                else:
                    self.sections[name][key] = value
        return self.sections

    def until(self, condition: Callable[[dict[str, dict[str, Any]]], bool]) -> None:
        while not condition(self.next()):
            pass

    def close(self) -> None:
        self.http.close()


def test_the_page_comes_whole_and_runs_nothing_of_others(shown: Shown) -> None:
    for path, media_type in (
        ("/", "text/html"),
        ("/page.js", "text/javascript"),
        ("/elements.js", "text/javascript"),
        ("/overview.js", "text/javascript"),
        ("/group.js", "text/javascript"),
        ("/connect.js", "text/javascript"),
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
        assert events.next()["groups"] == {}
        servers = shown.broker.bootstrap_servers
        with PlainWorker(bootstrap_servers=servers, group_id="workers") as member:
            assert member.ensure_active_group(60)
            events.until(lambda found: found["groups"].get("workers", {}).get("state") == "Stable")
            assert events.sections["groups"]["workers"]["members"] == 1
        events.until(lambda found: found["groups"]["workers"]["state"] == "Empty")
        assert events.sections["groups"]["workers"]["rebalances"] > 0
        assert events.sections["about"]["cluster_id"]
        assert events.sections["about"]["brokers"] == 1


def test_events_of_one_group_have_its_members_and_no_other_group(shown: Shown) -> None:
    servers = shown.broker.bootstrap_servers
    with (
        PlainWorker(bootstrap_servers=servers, group_id="workers") as member,
        PlainWorker(bootstrap_servers=servers, group_id="others") as other,
        closing(Events(shown.server.url, "workers")) as events,
    ):
        assert member.ensure_active_group(60)
        assert other.ensure_active_group(60)
        events.until(lambda found: found["group"].get("state") == "Stable")
        assert list(events.sections["members"]) == [member.member_id()]
        events.until(lambda found: found["about"].get("groups") == 2)
        assert list(events.sections["groups"]) == ["workers"]
        member.close()
        events.until(lambda found: found["group"]["state"] == "Empty")
        assert events.sections["members"] == {}
        assert [state for _, state in events.sections["group"]["states"]][-1] == "Empty"
        causes = [each["causes"] for each in events.sections["rebalances"].values()]
        assert any(cause["kind"] == "left" for found in causes for cause in found)


def test_event_after_a_look_without_changes_is_short_whatever_the_number_of_groups(
    shown: Shown,
) -> None:
    with connect(shown.broker) as client:
        for number in range(200):
            committed = client.ask(commit_request(f"group-{number}", 0), 9)
            assert committed.topics[0].partitions[0].error_code == 0
    with closing(Events(shown.server.url)) as events:
        events.until(lambda found: len(found["groups"]) == 200)
        # rebalances and verdicts of the first looks may still change
        events.until(lambda _: events.size < 1_000)
        assert len(events.sections["groups"]) == 200


def test_groups_are_found_by_their_members(shown: Shown) -> None:
    servers = shown.broker.bootstrap_servers
    with (
        closing(Events(shown.server.url)) as events,
        PlainWorker(bootstrap_servers=servers, group_id="g", client_id="Anna <b>") as member,
    ):
        assert member.ensure_active_group(60)
        events.until(lambda found: found["groups"].get("g", {}).get("members") == 1)
        asked = f"/find?{urlencode({'words': 'anna <B>'})}"
        assert json.loads(ask(shown.server.url, asked, "POST")[2]) == {"groups": ["g"]}
        assert json.loads(ask(shown.server.url, "/find?words=nobody", "POST")[2]) == {"groups": []}
    for words in ("", "+".join("abcdefghijklmnopqrstuvw")):
        assert ask(shown.server.url, f"/find?words={words}", "POST")[0] == 400
    assert ask(shown.server.url, "/find?words=a")[0] == 405


def test_what_if_request_of_the_page_is_answered(shown: Shown) -> None:
    with closing(Events(shown.server.url)) as events:
        events.until(lambda found: "problem" not in found["look"])
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
        events.until(lambda found: bool(found["look"].get("problem")))


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
