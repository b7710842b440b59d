"""Looks at the page in a real browser while members join, are killed and leave."""

import os
import shutil
from collections.abc import Iterator
from typing import Final

import pytest
from playwright.sync_api import Browser, Page, expect, sync_playwright

from groupsdk import GroupMembershipOperation
from tests.telemetry.members import Quiet
from tests.web.conftest import Shown


_PATIENCE_MS: Final = 60_000
_REQUIRED: Final = "GROUPSDK_REQUIRE_BROWSER"


@pytest.fixture(scope="module")
def browser() -> Iterator[Browser]:
    """Chromium, as Debian packages it, or Chrome."""
    names = ("chromium", "chromium-browser", "google-chrome")
    found = next((path for path in map(shutil.which, names) if path), None)
    if found is None:
        if os.environ.get(_REQUIRED):
            pytest.fail(f"{_REQUIRED} is set, and there is no {' or '.join(names)}")
        pytest.skip("no Chromium: apt-get install chromium")
    with sync_playwright() as playwright:
        # no sandbox: tests may run as root, and open no page but ours
        launched = playwright.chromium.launch(executable_path=found, args=["--no-sandbox"])
        yield launched
        launched.close()


@pytest.fixture
def page(browser: Browser, shown: Shown) -> Iterator[Page]:
    """The page, open; it must cause no error in the browser and ask no other site."""
    context = browser.new_context(viewport={"width": 1200, "height": 900}, color_scheme="light")
    opened = context.new_page()
    opened.set_default_timeout(_PATIENCE_MS)
    expect.set_options(timeout=_PATIENCE_MS)
    problems: list[str] = []
    opened.on("console", lambda message: problems.append(message.text))
    opened.on("pageerror", lambda error: problems.append(str(error)))
    opened.on(
        "request",
        lambda asked: (
            None
            if asked.url.startswith((shown.server.url, "data:"))
            else problems.append(asked.url)
        ),
    )
    opened.goto(shown.server.url)
    yield opened
    context.close()
    assert problems == []


def test_a_group_is_followed_through_joins_a_death_and_a_leave(page: Page, shown: Shown) -> None:
    servers = shown.broker.bootstrap_servers
    first = Quiet(bootstrap_servers=servers, group_id="jobs", client_id="one")
    assert first.ensure_active_group(60)
    page.get_by_role("button", name="jobs").click()
    rows = page.locator("#members tbody tr")
    expect(rows).to_have_count(1)
    with Quiet(
        bootstrap_servers=servers,
        group_id="jobs",
        client_id="two",
        session_timeout_ms=1_000,
        heartbeat_interval_ms=200,
    ) as second:
        while not all([first.poll(0.05), second.poll(0.05)]):
            pass
        expect(rows).to_have_count(2)
        expect(page.locator("#changes li").first).to_contain_text("joined")
        # gone without a word, as a process that was killed: the session ends
        second.close(operation=GroupMembershipOperation.REMAIN_IN_GROUP)
        while first.generation().generation_id < 3:
            first.poll(0.05)
        expect(rows).to_have_count(1)
        expect(rows).to_contain_text("one")
        expect(page.locator("#changes li").first).to_contain_text("two")
    first.close()
    expect(page.locator("#facts")).to_contain_text("Empty")
    expect(page.locator("#timeline rect.stable").first).to_be_visible()
    expect(page.locator("#timeline rect.empty").last).to_be_visible()


def test_names_are_text_whatever_they_are(page: Page, shown: Shown) -> None:
    name = "<img src=x onerror=alert(1)><script>alert(2)</script>'\"&"
    with Quiet(
        bootstrap_servers=shown.broker.bootstrap_servers, group_id=name, client_id="<b>c</b>"
    ) as member:
        assert member.ensure_active_group(60)
        page.locator("nav button").first.click()
        expect(page.locator("#name")).to_have_text(name)
        expect(page.locator("#members tbody")).to_contain_text("<b>c</b>")
        assert page.locator("nav img, nav script, #detail b, #detail img").count() == 0


def test_keys_search_and_what_if(page: Page, shown: Shown) -> None:
    servers = shown.broker.bootstrap_servers
    with (
        Quiet(bootstrap_servers=servers, group_id="alpha") as alpha,
        Quiet(bootstrap_servers=servers, group_id="beta") as beta,
    ):
        assert alpha.ensure_active_group(60)
        assert beta.ensure_active_group(60)
        buttons = page.locator("nav button")
        expect(buttons).to_have_count(2)
        page.keyboard.press("ArrowDown")
        expect(page.locator("#name")).to_have_text("alpha")
        page.keyboard.press("ArrowDown")
        expect(page.locator("#name")).to_have_text("beta")
        assert page.evaluate("document.activeElement.dataset.group") == "beta"
        page.keyboard.press("/")
        page.keyboard.type("alp")
        expect(buttons).to_have_count(1)
        page.keyboard.press("Escape")
        expect(buttons).to_have_count(2)
        page.keyboard.press("Escape")
        expect(page.locator("#name")).to_have_text("Choose a group")
        page.reload()
        expect(buttons).to_have_count(2)


def test_light_dark_and_a_phones_width(page: Page, shown: Shown) -> None:
    def background() -> str:
        return str(page.evaluate("getComputedStyle(document.body).backgroundColor"))

    light = background()
    page.get_by_role("button", name="Switch between light and dark").click()
    assert background() != light
    page.reload()
    assert background() != light, "the choice is kept"
    with Quiet(bootstrap_servers=shown.broker.bootstrap_servers, group_id="g" * 100) as member:
        assert member.ensure_active_group(60)
        page.locator("nav button").first.click()
        page.set_viewport_size({"width": 360, "height": 740})
        expect(page.locator("#members")).to_be_visible()
        width = page.evaluate("document.documentElement.scrollWidth")
        assert width <= 360, "the page itself does not scroll sideways"
