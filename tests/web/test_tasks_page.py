"""Looks at Connect's groups on the live page, in a real browser."""

from collections.abc import Iterable
from typing import Any

from playwright.sync_api import Browser, expect
from typing_extensions import override

from groupsdk.broker.embedded import EmbeddedBroker
from groupsdk.connect.app import Worker
from groupsdk.connect.tasks.task import Connector, StandbyContext, Task, TaskContext
from groupsdk.http.settings import HttpSettings
from groupsdk.web.server import PageServer
from groupsdk.wire.connect_protocol import ConnectorTaskId
from tests.connect.workers import app, eventually
from tests.web.conftest import opened, page_of


NAME = "last <img src=x onerror=alert(1)>'\"&"


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


def test_a_cluster_shows_tasks_with_their_standbys_and_moves(browser: Browser) -> None:
    with EmbeddedBroker() as broker:
        programs = [
            program(
                group="copies",
                bootstrap_servers=broker.bootstrap_servers,
                worker_id=f"w{number}:8083",
                task_restart_max=0,
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
            leader.admin.put_connector(NAME, {"connector.class": "Failing"}).result(60)
            with (
                PageServer(page_of(broker), HttpSettings(port=0)) as server,
                opened(browser, server.url) as page,
            ):
                overview = page.locator("#groups tbody tr")
                expect(overview.locator(".why")).to_have_text("1 failed task", timeout=30_000)
                expect(overview.locator(".mark")).to_have_text("◆")
                page.get_by_role("link", name="copies").click()
                expect(page.locator("#badges")).to_contain_text("◆ warning")
                expect(page.locator("#badges")).to_contain_text("1 failed task")
                rows = page.locator("#connectors tbody tr.task")
                expect(rows.nth(1)).to_contain_text(NAME)
                expect(rows.nth(1).locator(".why")).to_have_text(
                    "ValueError: this one always fails"
                )
                assert page.locator("#connect img, #changes img").count() == 0
                row = rows.first
                expect(row).to_contain_text("running")
                owner = next(
                    n
                    for n, each in enumerate(workers)
                    if ConnectorTaskId("c", 0) in each.owned.tasks
                )
                cells = row.locator("td")
                expect(cells.nth(2)).to_have_text(f"w{owner}:8083")
                expect(cells.nth(3)).to_have_text(f"w{1 - owner}:8083")
                expect(page.locator("#what-if")).to_be_hidden()
                programs[owner].stop()
                expect(cells.nth(2)).to_have_text(f"w{1 - owner}:8083")
                expect(page.locator("#changes")).to_contain_text(
                    f"c-0 moved from w{owner}:8083 to w{1 - owner}:8083"
                )
        finally:
            for each in programs:
                each.stop()
