"""Holds the live page of a worker: what it shows, and who may see it."""

import asyncio
import http.client
import json
from collections.abc import Iterator
from contextlib import closing, contextmanager

import pytest

from groupsdk.connect.config_backing_store import TargetState
from groupsdk.connect.rest.api import RestServer
from groupsdk.connect.rest.page import WorkerPage
from groupsdk.errors import ConfigError
from groupsdk.http.settings import HttpSettings
from tests.connect.workers import eventually, standalone, states


@contextmanager
def asked(server: RestServer, path: str, **headers: str) -> Iterator[http.client.HTTPResponse]:
    """Ask a server, and leave the answer open."""
    with closing(http.client.HTTPConnection("127.0.0.1", server.port, timeout=60)) as connection:
        connection.request("GET", path, headers=headers)
        yield connection.getresponse()


def test_connectors_tasks_and_their_changes_are_shown() -> None:
    async def look(page: WorkerPage) -> int:
        version = await page.wait(-1, 0)
        await page.look()
        return version

    with standalone(worker_id="w:1") as worker:
        page = WorkerPage(worker)
        assert asyncio.run(look(page)) == -1
        config = {"connector.class": "Counting", "count": "2"}
        worker.admin.put_connector("c", config).result(60)
        eventually(lambda: list(states(worker).values()).count("RUNNING") == 3)
        assert asyncio.run(look(page)) == 1
        state = page.state()
        assert json.loads(json.dumps(state)) == state | {"events": list(state["events"])}
        assert [each["name"] for each in state["tasks"]] == ["c", "c-0", "c-1"]
        assert {each["worker"] for each in state["tasks"]} == {"w:1"}
        assert state["worker"]["worker_id"] == "w:1"
        assert state["worker"]["is_leader"]
        assert state["worker"]["health"] == "healthy"
        assert asyncio.run(look(page)) == 2
        assert asyncio.run(look(page)) == 2, "nothing has changed since"
        worker.admin.set_target_state("c", TargetState.PAUSED).result(60)
        eventually(lambda: list(states(worker).values()).count("PAUSED") == 3)
        asyncio.run(look(page))
        texts = [each["text"] for each in page.state()["events"]]
        assert "c-0 is paused, was running" in texts
        with pytest.raises(ConfigError, match="tries no assignors"):
            asyncio.run(page.what_if("g", "range"))


def test_the_page_stands_behind_the_checks_of_rest_and_runs_nothing_of_others() -> None:
    with standalone() as worker, RestServer(worker, HttpSettings(port=0)) as server:
        with asked(server, "/page/") as answer:
            assert answer.status == 200
            assert "default-src 'none'" in (answer.getheader("content-security-policy") or "")
            assert b"page.js" in answer.read()
        with asked(server, "/page/events") as answer:
            assert answer.getheader("content-type") == "text/event-stream; charset=utf-8"
            first = answer.readline()
            assert json.loads(first.removeprefix(b"data: "))["worker"]["worker_id"]
        for path, headers, status in (
            ("/page/events", {"Host": "evil.example"}, 421),
            ("/page/", {"Origin": "http://evil.example"}, 403),
            ("/page/../api.py", {}, 404),
            ("/page/metrics", {}, 404),
        ):
            with asked(server, path, **headers) as answer:
                assert answer.status == status, path
    settings = HttpSettings(port=0, user="alice", password="pass")
    with standalone() as worker, RestServer(worker, settings) as server:
        for path in ("/page/", "/page/events", "/page/page.js"):
            with asked(server, path) as answer:
                assert answer.status == 401
