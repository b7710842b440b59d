"""A cluster with groups, the page that shows it, and a browser."""

import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any, Final

import pytest
from playwright.sync_api import Browser, Page, expect, sync_playwright

from groupsdk.admin.cluster import ClusterClient
from groupsdk.broker.embedded import EmbeddedBroker
from groupsdk.errors import ConfigError
from groupsdk.http.settings import HttpSettings
from groupsdk.web.page import ClusterPage
from groupsdk.web.server import PageServer
from tests.support.missing import BROWSER, lacking


@dataclass(frozen=True, slots=True)
class Shown:
    broker: EmbeddedBroker
    server: PageServer


async def what_if(client: ClusterClient, group_id: str, assignor: str) -> str:
    if group_id == "none":
        raise ConfigError("group 'none' has no members that read topics")
    return f"{assignor} would move nothing in {group_id}"


def page_of(broker: EmbeddedBroker) -> ClusterPage:
    settings = {"bootstrap.servers": broker.bootstrap_servers}
    return ClusterPage(settings, interval_s=0.05, assignors=["range", "sticky"], what_if=what_if)


@pytest.fixture
def shown() -> Iterator[Shown]:
    """An embedded broker and its page."""
    with (
        EmbeddedBroker(topics={"t": 4}) as broker,
        PageServer(page_of(broker), HttpSettings(port=0)) as server,
    ):
        yield Shown(broker, server)


_PATIENCE_MS: Final = 60_000


@pytest.fixture(scope="module")
def browser() -> Iterator[Browser]:
    """Chromium, as Debian packages it, or Chrome."""
    names = ("chromium", "chromium-browser", "google-chrome")
    found = next((path for path in map(shutil.which, names) if path), None)
    if found is None:
        lacking(f"no {' or '.join(names)}: apt-get install chromium", BROWSER)
    with sync_playwright() as playwright:
        # no sandbox: tests may run as root, and open no page but ours
        launched = playwright.chromium.launch(executable_path=found, args=["--no-sandbox"])
        yield launched
        launched.close()


@contextmanager
def opened(browser: Browser, url: str, **settings: Any) -> Iterator[Page]:
    """Open a page; it must cause no error in the browser and ask no other site."""
    usual = {"viewport": {"width": 1200, "height": 900}, "color_scheme": "light"}
    context = browser.new_context(**{**usual, **settings})
    page = context.new_page()
    page.set_default_timeout(_PATIENCE_MS)
    expect.set_options(timeout=_PATIENCE_MS)
    problems: list[str] = []
    ours = (url.partition("#")[0], "data:")
    page.on("console", lambda message: problems.append(message.text))
    page.on("pageerror", lambda error: problems.append(str(error)))
    page.on(
        "request",
        lambda asked: None if asked.url.startswith(ours) else problems.append(asked.url),
    )
    page.goto(url)
    yield page
    context.close()
    assert problems == []
