"""Looks at the page in a real browser while members join, are killed and leave."""

from collections.abc import Iterator

import pytest
from playwright.sync_api import Browser, Page, expect

from groupsdk import GroupMembershipOperation
from tests.support.plain_workers import PlainWorker
from tests.web.conftest import Shown, opened


@pytest.fixture
def page(browser: Browser, shown: Shown) -> Iterator[Page]:
    """The page, open."""
    with opened(browser, shown.server.url) as page:
        yield page


def test_a_group_is_followed_through_joins_a_death_and_a_leave(page: Page, shown: Shown) -> None:
    servers = shown.broker.bootstrap_servers
    first = PlainWorker(bootstrap_servers=servers, group_id="jobs", client_id="one")
    assert first.ensure_active_group(60)
    page.get_by_role("button", name="jobs").click()
    rows = page.locator("#members tbody tr")
    expect(rows).to_have_count(1)
    with PlainWorker(
        bootstrap_servers=servers,
        group_id="jobs",
        client_id="two",
        # a stall of the machine does not end it before its time
        session_timeout_ms=10_000,
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
    name = "<img src=x onerror=alert(1)><script>alert(2)</script>'\"&\x9b\u202e\u200d"
    shown_name = name.replace("\x9b", "\\x9b").replace("\u202e", "\\u202e")
    with PlainWorker(
        bootstrap_servers=shown.broker.bootstrap_servers, group_id=name, client_id="<b>c</b>"
    ) as member:
        assert member.ensure_active_group(60)
        page.locator("nav button").first.click()
        expect(page.locator("#name")).to_have_text(shown_name)
        expect(page.locator("#members tbody")).to_contain_text("<b>c</b>")
        assert page.locator("nav img, nav script, #detail b, #detail img").count() == 0


def test_keys_search_and_what_if(page: Page, shown: Shown) -> None:
    servers = shown.broker.bootstrap_servers
    with (
        PlainWorker(bootstrap_servers=servers, group_id="alpha") as alpha,
        PlainWorker(bootstrap_servers=servers, group_id="beta") as beta,
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
    with PlainWorker(
        bootstrap_servers=shown.broker.bootstrap_servers, group_id="g" * 100
    ) as member:
        assert member.ensure_active_group(60)
        page.locator("nav button").first.click()
        page.set_viewport_size({"width": 360, "height": 740})
        expect(page.locator("#members")).to_be_visible()
        width = page.evaluate("document.documentElement.scrollWidth")
        assert width <= 360, "the page itself does not scroll sideways"
