"""Looks at the page in a real browser while members join, are killed and leave."""

import random
import unicodedata
from collections.abc import Callable, Iterator
from typing import Any, Final

import pytest
from playwright.sync_api import Browser, Page, expect

from groupsdk import GroupMembershipOperation
from groupsdk.http.settings import HttpSettings
from groupsdk.web.server import PageServer
from tests.support.plain_workers import PlainWorker
from tests.web.conftest import Shown, opened
from tests.web.made_up_groups import HOSTILE, MadeUpPage, big_group, empty_with_lag, group_of, names


_NARROW: Final = 375


@pytest.fixture
def page(browser: Browser, shown: Shown) -> Iterator[Page]:
    with opened(browser, shown.server.url) as page:
        yield page


def test_a_group_is_followed_through_joins_a_death_and_a_leave(page: Page, shown: Shown) -> None:
    servers = shown.broker.bootstrap_servers
    first = PlainWorker(bootstrap_servers=servers, group_id="jobs", client_id="one")
    assert first.ensure_active_group(60)
    page.get_by_role("link", name="jobs").click()
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
    expect(page.locator("#badges")).to_contain_text("empty")
    expect(page.locator("#timeline rect.stable").first).to_be_visible()
    expect(page.locator("#timeline rect.empty").last).to_be_visible()


def test_names_are_text_whatever_they_are(page: Page, shown: Shown) -> None:
    name = "<img src=x onerror=alert(1)><script>alert(2)</script>'\"&\x9b\u202e\u200d"
    shown_name = name.replace("\x9b", "\\x9b").replace("\u202e", "\\u202e")
    with PlainWorker(
        bootstrap_servers=shown.broker.bootstrap_servers, group_id=name, client_id="<b>c</b>"
    ) as member:
        assert member.ensure_active_group(60)
        page.locator("#groups tbody a").first.click()
        expect(page.locator("#name")).to_have_text(shown_name)
        expect(page.locator("#name bdi")).to_have_text(shown_name)
        expect(page.locator("#members tbody")).to_contain_text("<b>c</b>")
        assert page.locator("main img, main script, main b").count() == 0


def test_keys_search_and_what_if(page: Page, shown: Shown) -> None:
    servers = shown.broker.bootstrap_servers
    with (
        PlainWorker(bootstrap_servers=servers, group_id="alpha", client_id="carol") as alpha,
        PlainWorker(bootstrap_servers=servers, group_id="beta") as beta,
    ):
        assert alpha.ensure_active_group(60)
        assert beta.ensure_active_group(60)
        links = page.locator("#groups tbody a")
        expect(links).to_have_count(2)
        page.keyboard.press("j")
        page.keyboard.press("j")
        assert page.evaluate("document.activeElement.dataset.group") == "beta"
        page.keyboard.press("k")
        page.keyboard.press("Enter")
        expect(page.locator("#name")).to_have_text("alpha")
        page.keyboard.press("Escape")
        expect(links).to_have_count(2)
        expect(page.locator("#groups tbody a:focus")).to_have_text("alpha")
        page.keyboard.press("/")
        page.keyboard.type("bet")
        expect(links).to_have_count(1)
        page.keyboard.press("Escape")
        expect(links).to_have_count(2)
        page.keyboard.press("/")
        # no group has this name: the server finds the member's
        page.keyboard.type("CAROL")
        expect(links).to_have_text(["alpha"])


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
        page.set_viewport_size({"width": 360, "height": 740})
        page.locator("#groups tbody a").first.click()
        expect(page.locator("#members")).to_be_visible()
        assert _width(page) <= 360, "the page itself does not scroll sideways"


def test_view_is_in_the_address_and_opens_the_same_elsewhere(browser: Browser) -> None:
    groups = [big_group(), empty_with_lag("abandoned"), group_of("quiet", members=2)]
    with PageServer(MadeUpPage(groups), HttpSettings(port=0)) as server:
        with opened(browser, server.url) as page:
            links = page.locator("#groups tbody a")
            expect(links.first).to_have_text("abandoned")
            page.get_by_role("button", name="empty with lag").click()
            expect(links).to_have_text(["abandoned"])
            page.get_by_role("button", name="empty with lag").click()
            page.get_by_role("button", name="Lag", exact=True).click()
            expect(links).to_have_text(["big-one", "abandoned", "quiet"])
            page.locator("#search").fill("o")
            expect(links).to_have_text(["big-one", "abandoned"])
            address = page.url
            links.first.click()
            expect(page.locator("#name")).to_have_text("big-one")
            group_address = page.url
            page.go_back()
            expect(links).to_have_text(["big-one", "abandoned"])
        with opened(browser, address) as page:
            expect(page.locator("#groups tbody a")).to_have_text(["big-one", "abandoned"])
            expect(page.locator("#groups th[aria-sort]")).to_have_text("Lag")
        with opened(browser, group_address) as page:
            expect(page.locator("#name")).to_have_text("big-one")


def test_many_partitions_are_a_range_on_a_phone(browser: Browser) -> None:
    with (
        PageServer(MadeUpPage([big_group()]), HttpSettings(port=0)) as server,
        opened(browser, f"{server.url}#group=big-one") as page,
    ):
        page.set_viewport_size({"width": _NARROW, "height": 800})
        rows = page.locator("#members tbody tr")
        expect(rows.first.locator(".has")).to_contain_text("big(0-666)")
        expect(rows.nth(1).locator(".has")).to_contain_text("to come big(500-666)")
        host = rows.first.locator(".host").bounding_box()
        assert host is not None
        assert host["height"] < 40
        assert _width(page) <= _NARROW
        assert page.evaluate("document.documentElement.scrollHeight") < 3_000


def test_five_hundred_members_come_by_pages_and_are_found(browser: Browser) -> None:
    with (
        PageServer(MadeUpPage([group_of("crowd", members=500)]), HttpSettings(port=0)) as server,
        opened(browser, f"{server.url}#group=crowd") as page,
    ):
        rows = page.locator("#members tbody tr")
        expect(rows).to_have_count(100)
        page.locator("#more-members").click()
        expect(rows).to_have_count(200)
        page.locator("#member-search").fill("client-crowd-499")
        expect(rows).to_have_count(1)
        expect(page.locator("#members-count")).to_have_text("1 of 500")


def test_two_thousand_groups_come_by_pages_with_trouble_first(browser: Browser) -> None:
    groups = [group_of(f"group-{number:04d}", members=2) for number in range(2_000)]
    groups.append(empty_with_lag("zz-abandoned"))
    with (
        PageServer(MadeUpPage(groups), HttpSettings(port=0)) as server,
        opened(browser, server.url) as page,
    ):
        links = page.locator("#groups tbody a")
        expect(links).to_have_count(50)
        expect(links.first).to_have_text("zz-abandoned")
        expect(page.locator("#tiles")).to_contain_text("2,001")
        page.locator("#more").click()
        expect(links).to_have_count(100)
        page.locator("#search").fill("group-1999")
        expect(links).to_have_text(["group-1999"])


def test_silence_of_the_brokers_takes_the_colour_and_counts_the_seconds(browser: Browser) -> None:
    source = MadeUpPage([group_of("g", members=1)])
    with PageServer(source, HttpSettings(port=0)) as server, opened(browser, server.url) as page:
        expect(page.locator("#status")).to_have_text("live")
        source.fall_silent("connection refused <b>")
        expect(page.locator("#status")).to_contain_text("asking for")
        expect(page.locator("#problem")).to_contain_text("connection refused <b>")
        expect(page.locator("body")).to_have_class("stale")
        colour = "getComputedStyle(document.querySelector('#groups .dot')).backgroundColor"
        assert page.evaluate(colour) == "rgba(0, 0, 0, 0)"
        source.answer()
        expect(page.locator("#status")).to_have_text("live")
        expect(page.locator("#problem")).to_be_hidden()


def test_log_that_is_not_read_yet_is_said_until_it_is(browser: Browser, shown: Shown) -> None:
    never_reads = MadeUpPage([group_of("g", members=1)])
    with (
        PageServer(never_reads, HttpSettings(port=0)) as server,
        opened(browser, server.url) as page,
    ):
        said = "The groups' log is being read; what was before is unknown."
        expect(page.locator("#log")).to_have_text(said)
    with opened(browser, shown.server.url) as page:
        expect(page.locator("#status")).to_have_text("live")
        expect(page.locator("#log")).to_be_hidden()


def test_each_kind_of_group_shows_what_is_its_own(browser: Browser) -> None:
    with PageServer(MadeUpPage(names()), HttpSettings(port=0)) as server:
        for name, words in (
            ("sharing", ("share (KIP-932)", "t(0-1)", "record by record")),
            ("app", ("streams (KIP-1071)", "0_(0-1)", "standby 0_2")),
            ("tenants", ("shard-(0-79)", "draining", "rack zone-1")),
            ("modern", ("consumer (KIP-848)", "epoch 3", "to come")),
        ):
            with opened(browser, f"{server.url}#group={name}") as page:
                for each in words:
                    expect(page.locator("#group")).to_contain_text(each)


def _width(page: Page) -> Any:
    return page.evaluate("document.documentElement.scrollWidth")


def hostile_name(source: random.Random) -> str:
    """Makes a name of markup, control characters, marks of direction, and scripts of all kinds."""
    kinds: list[Callable[[], str]] = [
        lambda: source.choice(HOSTILE),
        lambda: chr(source.choice([*range(1, 32), 0x7F, *range(0x80, 0xA0)])),
        lambda: source.choice("\u202a\u202b\u202d\u202e\u2066\u2067\u2069\u200e\u200f\u2028\ufeff"),
        lambda: source.choice("\u05d0\u0627\u4e2d\u0301\U0001f600\U000e0041"),
        lambda: source.choice("<>&\"'`=/ {}"),
    ]
    return "".join(source.choice(kinds)() for _ in range(source.randint(1, 12)))


def test_hostile_names_are_text_everywhere(browser: Browser) -> None:
    source = random.Random(848)
    hostile = [*HOSTILE, *(hostile_name(source) for _ in range(60))]
    groups = [group_of(name, members=1, client_id=name, topic=name) for name in set(hostile)]
    escaped = {"Cc", "Cf", "Cs", "Zl", "Zp"}
    with PageServer(MadeUpPage(groups), HttpSettings(port=0)) as server:
        with opened(browser, server.url) as page:
            links = page.locator("#groups tbody a")
            page.locator("#more").click()
            expect(links).to_have_count(len(groups))
            # each stands alone in an element that isolates its direction
            shown = page.evaluate(
                "[...document.querySelectorAll('#groups tbody a bdi')].map((e) => e.textContent)"
            )
            assert len(set(shown)) == len(groups)
            text = page.evaluate("document.body.textContent")
            joiners = "\u200c\u200d"
            left = {
                character
                for character in text
                if unicodedata.category(character) in escaped and character not in "\n\t" + joiners
            }
            assert left == set()
            _assert_only_ours(page)
        for name in hostile[:8]:
            with opened(browser, server.url) as page:
                page.evaluate(
                    "(name) => { location.hash = new URLSearchParams({ group: name }); }", name
                )
                expect(page.locator("#members tbody tr")).to_have_count(1)
                expect(page.locator("#topics tbody tr")).to_have_count(1)
                _assert_only_ours(page)


def _assert_only_ours(page: Page) -> None:
    """No element, and no attribute that runs code or loads anything, came from a name."""
    foreign = "main img, main script, main iframe, main b, main style, main object, main [onerror]"
    assert page.locator(foreign).count() == 0
    links = "[...document.querySelectorAll('main a')].map((e) => e.getAttribute('href'))"
    assert all(each.startswith("#") for each in page.evaluate(links))


CONTRASTS = """
(() => {
  const parse = (text) => text.match(/[\\d.]+/g).map(Number);
  const behind = (node) => {
    for (; node; node = node.parentElement) {
      const found = parse(getComputedStyle(node).backgroundColor);
      if (found.length < 4 || found[3] > 0) return found;
    }
    return [255, 255, 255];
  };
  const light = (rgb) => {
    const [r, g, b] = rgb.slice(0, 3).map((value) => {
      const part = value / 255;
      return part <= 0.03928 ? part / 12.92 : ((part + 0.055) / 1.055) ** 2.4;
    });
    return 0.2126 * r + 0.7152 * g + 0.0722 * b;
  };
  const found = [];
  for (const node of document.querySelectorAll("body *")) {
    const own = [...node.childNodes].some((each) => each.nodeType === 3 && each.textContent.trim());
    if (!own || !node.checkVisibility()) continue;
    const style = getComputedStyle(node);
    const colour = parse(node instanceof SVGElement ? style.fill : style.color);
    const [a, b] = [light(colour), light(behind(node))].sort((one, two) => two - one);
    const ratio = (a + 0.05) / (b + 0.05);
    if (ratio < 4.5) found.push(`${node.tagName} ${node.className} ${node.textContent.slice(0, 30)} ${ratio.toFixed(2)}`);
  }
  return found;
})()
"""


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_text_is_readable_and_controls_have_names(browser: Browser, scheme: str) -> None:
    groups = [big_group(), empty_with_lag("abandoned"), *names()]
    source = MadeUpPage(groups)
    with PageServer(source, HttpSettings(port=0)) as server:
        for where in ("", "#group=big-one", "#group=tenants"):
            with opened(browser, server.url + where) as page:
                if scheme == "dark":
                    page.get_by_role("button", name="Switch between light and dark").click()
                expect(page.locator("#status")).to_have_text("live")
                expect(page.locator("#groups tbody a, #members tbody tr").first).to_be_visible()
                assert page.evaluate(CONTRASTS) == []
                nameless = """
                    [...document.querySelectorAll('button, input, select, a')].filter((e) => e.checkVisibility()
                      && !(e.getAttribute('aria-label') || e.textContent.trim() || (e.labels && e.labels.length)))
                      .map((e) => e.outerHTML)
                """
                assert page.evaluate(nameless) == []
