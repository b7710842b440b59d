"""Looks at the page of a worker, and at Connect's groups on that of a cluster, in a real browser."""

from collections.abc import Iterable
from typing import Any

from playwright.sync_api import Browser, expect
from typing_extensions import override

from groupsdk.broker.embedded import EmbeddedBroker
from groupsdk.connect.app import Worker
from groupsdk.connect.rest.api import RestServer
from groupsdk.connect.task import Connector, StandbyContext, Task, TaskContext
from groupsdk.http.settings import HttpSettings
from groupsdk.web.server import PageServer
from tests.connect.workers import app, eventually, standalone
from tests.web.conftest import opened, page_of


NAME = "<img src=x onerror=alert(1)>'\"&"


class Warm(Connector):
    """One task, which waits, and may be kept warm."""

    @override
    def plan(self) -> Iterable[Task]:
        return [Task("only")]

    @override
    def run(self, task: Task, context: TaskContext) -> None:
        context.stop.wait()

    @override
    def standby(self, task: Task, context: StandbyContext) -> None:
        context.stop.wait()


def program(**settings: Any) -> Worker:
    made = app(**settings)
    made.connector(Warm)
    return made


def test_a_worker_shows_connectors_tasks_and_their_failures(browser: Browser) -> None:
    with (
        standalone(worker_id="w:1", task_restart_max=0) as worker,
        RestServer(worker, HttpSettings(port=0)) as server,
        opened(browser, f"{server.url}page/") as page,
    ):
        expect(page.locator("#name")).to_have_text("w:1")
        expect(page.locator("#facts")).to_contain_text("healthy")
        expect(page.locator("nav")).to_be_hidden()
        rows = page.locator("#connectors tbody tr")
        expect(rows).to_have_count(0)
        worker.admin.put_connector(NAME, {"connector.class": "Failing"}).result(60)
        expect(rows).to_have_count(2)
        expect(rows.nth(0)).to_contain_text(NAME)
        expect(rows.nth(1)).to_contain_text("failed")
        expect(rows.nth(1).locator(".why")).to_have_text("ValueError: this one always fails")
        assert page.locator("#connect img, #changes img").count() == 0
        worker.admin.put_connector("c", {"connector.class": "Counting", "count": "3"}).result(60)
        expect(rows).to_have_count(6)
        expect(page.locator("#workers tbody tr td").nth(2)).to_have_text("4")
        page.keyboard.press("/")
        page.keyboard.type("c-1")
        expect(rows).to_have_count(1)
        page.keyboard.press("Escape")
        expect(rows).to_have_count(6)
        worker.admin.delete_connector("c").result(60)
        expect(page.locator("#changes li").first).to_contain_text("is gone")
        light = page.evaluate("getComputedStyle(document.body).backgroundColor")
        page.get_by_role("button", name="Switch between light and dark").click()
        assert page.evaluate("getComputedStyle(document.body).backgroundColor") != light
        page.set_viewport_size({"width": 360, "height": 740})
        expect(page.locator("#name")).to_have_text("w:1")
        width = page.evaluate("document.documentElement.scrollWidth")
        assert width <= 360, "the page itself does not scroll sideways"


def test_a_cluster_shows_tasks_with_their_standbys_and_moves(browser: Browser) -> None:
    with EmbeddedBroker() as broker:
        programs = [
            program(
                group="copies",
                bootstrap_servers=broker.bootstrap_servers,
                worker_id=f"w{number}:8083",
            )
            for number in range(2)
        ]
        workers = [
            each.start(url=f"http://w{number}:8083/") for number, each in enumerate(programs)
        ]
        try:
            leader = eventually(lambda: next((w for w in workers if w.is_leader), None))
            config = {"connector.class": "Warm", "standby.replicas": "1"}
            leader.admin.put_connector("c", config).result(60)
            with (
                PageServer(page_of(broker), HttpSettings(port=0)) as server,
                opened(browser, server.url) as page,
            ):
                row = page.locator("#connectors tbody tr.task")
                expect(row).to_contain_text("running")
                owner = next(n for n, each in enumerate(workers) if each.owned.tasks)
                cells = row.locator("td")
                expect(cells.nth(2)).to_have_text(f"w{owner}:8083")
                expect(cells.nth(3)).to_have_text(f"w{1 - owner}:8083")
                page.locator("nav button").first.click()
                expect(page.locator("#what-if")).to_be_hidden()
                programs[owner].stop()
                expect(cells.nth(2)).to_have_text(f"w{1 - owner}:8083")
                expect(page.locator("#changes")).to_contain_text(
                    f"c-0 moved from w{owner}:8083 to w{1 - owner}:8083"
                )
        finally:
            for each in programs:
                each.stop()
