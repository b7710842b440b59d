"""Looks at the history's report in a real browser: light, dark, on a phone, printed, and searched."""

from pathlib import Path

import pytest
from playwright.sync_api import Browser, expect

from examples.history_log import LogWriter, Seat, commit, generation
from groupsdk.history.fleet.clusters import ClusterSource, Fleet
from groupsdk.history.fleet.running import ClusterRun, directory_of
from groupsdk.history.fleet.summary import summarise, write_page
from groupsdk.history.local import run
from groupsdk.history.pipeline import Options
from groupsdk.history.report.data import collect
from groupsdk.history.report.page import render
from groupsdk.history.report.tables import ParquetTables
from groupsdk.history.sources.segment_files import segment_tasks
from tests.history.fleet.fleets import write_cluster
from tests.web.conftest import opened


START_MS = 1_790_899_200_000
GROUPS = 60


@pytest.fixture(scope="module")
def report(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The report of sixty groups, two of them with a storm."""
    root = tmp_path_factory.mktemp("report")
    with LogWriter(root / "log", 0) as log:
        for number in range(GROUPS):
            group = f"team-{number}-orders"
            many = 40 if number < 2 else 3
            for n in range(many):
                now = START_MS + 60_000 * number + 5_000 * n
                seats = {
                    "steady": Seat("steady", {"orders": [0]}),
                    f"m{n}": Seat("flapping", {"orders": [1, 2]}),
                }
                log.append(now, generation(group, n + 1, seats, ts_ms=now))
                log.append(now + 1_000, commit(group, "orders", n % 3, n, now + 1_000))
    run(segment_tasks(str(root / "log")), str(root / "out"), Options(assignors=("sticky",)))
    page = root / "report.html"
    page.write_text(render(collect(ParquetTables(str(root / "out")))), encoding="utf-8")
    return page


_CONTRAST = """() => {
  const light = (text) => {
    const [r, g, b] = text.match(/[0-9.]+/g).map(Number).map((c) => c / 255)
      .map((c) => (c <= 0.03928 ? c / 12.92 : ((c + 0.055) / 1.055) ** 2.4));
    return 0.2126 * r + 0.7152 * g + 0.0722 * b;
  };
  const paper = light(getComputedStyle(document.body).backgroundColor);
  const found = ["body", "a", "figcaption", "svg text", "p.question", "th"].map((name) => {
    const style = getComputedStyle(document.querySelector(name) ?? document.body);
    const ink = light(name === "svg text" ? style.fill : style.color);
    return [name, (Math.max(ink, paper) + 0.05) / (Math.min(ink, paper) + 0.05)];
  });
  return {paper, found};
}"""


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_report_has_enough_contrast_in_light_and_dark(
    browser: Browser, report: Path, scheme: str
) -> None:
    with opened(browser, report.as_uri(), color_scheme=scheme) as page:
        measured = page.evaluate(_CONTRAST)
        assert (measured["paper"] < 0.1) == (scheme == "dark")
        # WCAG's AA for small text
        assert {name: ratio for name, ratio in measured["found"] if ratio < 4.5} == {}


def test_a_phone_scrolls_pictures_and_tables_but_not_the_page(
    browser: Browser, report: Path
) -> None:
    with opened(browser, report.as_uri(), viewport={"width": 390, "height": 844}) as page:
        width = page.evaluate("document.documentElement.scrollWidth")
        assert width <= 390
        # which are scrolled in their own frames
        assert page.evaluate(
            "[...document.querySelectorAll('.wide')].some((e) => e.scrollWidth > e.clientWidth)"
        )
        expect(page.get_by_role("region", name="Advice")).to_be_visible()


def test_groups_are_found_by_a_part_of_their_name(browser: Browser, report: Path) -> None:
    with opened(browser, report.as_uri()) as page:
        rows = page.locator("#overview ~ details").first.locator("tbody tr:visible")
        every = rows.count()
        assert every > 20
        page.fill("#find", "TEAM-1-")
        expect(rows).to_have_count(1)
        expect(rows).to_contain_text("team-1-orders")
        sections = page.locator("section[data-group]:visible")
        expect(sections).to_have_count(1)
        expect(page.locator("#found")).to_have_text("1 with pictures")
        page.fill("#find", "nobody has this name")
        expect(rows).to_have_count(0)
        expect(sections).to_have_count(0)
        page.fill("#find", "")
        expect(rows).to_have_count(every)


def test_each_storm_leads_to_its_picture(browser: Browser, report: Path) -> None:
    with opened(browser, report.as_uri()) as page:
        links = page.locator("#storms ~ details").first.locator("tbody a")
        assert links.count() >= 2
        for number in range(links.count()):
            target = links.nth(number).get_attribute("href") or ""
            links.nth(number).click()
            assert page.url.endswith(target)
            picture = page.locator(target)
            expect(picture).to_be_in_viewport()
            expect(picture.locator("svg").first).to_be_visible()
    hrefs = "[...document.querySelectorAll('a[href^=\"#\"]')].map((a) => a.getAttribute('href'))"
    with opened(browser, report.as_uri()) as page:
        missing = [each for each in page.evaluate(hrefs) if not page.locator(each).count()]
        assert missing == []


def test_report_prints_black_on_white_without_screen_parts(browser: Browser, report: Path) -> None:
    with opened(browser, report.as_uri(), color_scheme="dark") as page:
        page.emulate_media(media="print", color_scheme="dark")
        colours = page.evaluate(
            "[getComputedStyle(document.body).color, getComputedStyle(document.body).backgroundColor]"
        )
        assert colours == ["rgb(0, 0, 0)", "rgb(255, 255, 255)"]
        expect(page.locator("nav").first).to_be_hidden()
        expect(page.locator("#find")).to_be_hidden()
        assert len(page.pdf()) > 10_000


def test_fleet_is_a_list_of_names_and_values_on_a_phone(browser: Browser, tmp_path: Path) -> None:
    log = write_cluster(tmp_path / "log", stopped=True)
    run(segment_tasks(str(log)), str(directory_of(str(tmp_path), "sick")))
    fleet = Fleet([ClusterSource(each, {}) for each in ("sick", "gone")], [])
    runs = [ClusterRun("sick", "done", "", 1.5), ClusterRun("gone", "failed", "no such host", 0.1)]
    found = write_page(summarise(fleet, runs, str(tmp_path)), str(tmp_path))
    with opened(browser, found.as_uri(), viewport={"width": 375, "height": 800}) as page:
        size = "[document.documentElement.scrollWidth, document.documentElement.scrollHeight]"
        width, height = page.evaluate(size)
        assert width <= 375
        assert height < 1_500
        # a name is not broken into its letters
        assert page.get_by_text("sales(0-2)").bounding_box()["height"] < 30  # type: ignore[index]
        gone = page.locator("tr", has_text="no such host")
        expect(gone.locator("td[data-of=groups]")).to_be_hidden()
