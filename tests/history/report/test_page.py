"""The report as one file: every number of a picture stands in a table, and nothing is fetched."""

import re
from dataclasses import replace
from html.parser import HTMLParser
from typing import Any

from typing_extensions import override

from groupsdk.history.report.data import StormLine, WhatIf
from groupsdk.history.report.drawing import ownership
from groupsdk.history.report.page import (
    advice_text,
    anchor_of,
    around,
    best_assignor,
    generation_anchor,
    letters,
    render,
    storms_to_show,
    svg_file,
)
from groupsdk.verdict import Finding, Severity
from tests.history.report.small import END, NAME, START, at, small_report


class Texts(HTMLParser):
    """Collects tags, addresses, and the texts of cells."""

    def __init__(self) -> None:
        super().__init__()
        self.tags: list[str] = []
        self.addresses: list[str] = []
        self.cells: list[str] = []
        self._in_cell = False

    @override
    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append(tag)
        self.addresses += [v or "" for k, v in attrs if k in ("href", "src", "xlink:href")]
        self._in_cell = tag == "td"
        if self._in_cell:
            self.cells.append("")

    @override
    def handle_data(self, data: str) -> None:
        if self._in_cell:
            self.cells[-1] += data

    @override
    def handle_endtag(self, tag: str) -> None:
        self._in_cell = False


def parsed(page: str) -> Texts:
    """Take a page apart."""
    found = Texts()
    found.feed(page)
    return found


def test_the_page_needs_nothing_but_itself() -> None:
    found = parsed(render(small_report()))
    assert "script" in found.tags
    assert "link" not in found.tags
    assert all(address.startswith("#") for address in found.addresses)
    assert not re.findall(r"@import|url\((?!#)", render(small_report()))


def test_the_seven_pictures_are_there() -> None:
    page = render(small_report())
    for title in (
        *("1. Overview", "2. Causes", "3. Costs", "4. Ownership", "5. Members"),
        *("6. What if", "7. Data quality"),
    ):
        assert title in page
    # and the common clock, and the largest storm once more, closer
    assert parsed(page).tags.count("svg") == 9
    assert f'id="storm-1-{anchor_of(NAME)}"' in page
    assert f'href="#storm-1-{anchor_of(NAME)}"' in page


def test_the_numbers_stand_in_tables() -> None:
    cells = parsed(render(small_report())).cells
    for text in ("4,321", "1,234", "join", "client-1", "t-0", "8.250", "sticky", "17"):
        assert text in cells, text


def test_findings_stand_first() -> None:
    finding = Finding("growing_lag", Severity.WARNING, NAME, "saw <i>", "cost", "change", 0.8)
    page = render(replace(small_report(), findings=[finding]))
    assert "saw &lt;i&gt;. Cost: cost. To change: change (80 % sure)" in page
    assert page.index("What was found") < page.index("What would have helped")
    assert "What was found" not in render(small_report())


def test_names_of_groups_are_no_markup() -> None:
    page = render(small_report())
    assert NAME == "<b>g</b> $x_1$"
    assert "<b>g</b>" not in page
    assert "&lt;b&gt;g&lt;/b&gt;" in page


def test_how_far_to_trust_it_comes_first() -> None:
    data = small_report()
    page = render(data)
    assert page.index("How far to trust this") < page.index("1. Overview")
    assert "90.0 % of the offsets" in page
    assert "Record types that are not known: 99: 2" in page
    clean = replace(data, quality=[(1, 0, 9, 10, 0, 0, 0, "", 0, START, END)], rejects=[])
    assert "compacted" not in render(clean)
    assert "compacted" in page


def test_a_log_without_rebalances_is_a_report_as_well() -> None:
    empty: dict[str, Any] = dict.fromkeys(
        ("overview", "causes_by_time", "gaps", "lag", "storms", "pages", "costs", "clock"), ()
    )
    nothing = replace(small_report(), **empty, start=None, end=None, n_generations=0)
    page = render(nothing)
    assert "no rebalances" in page
    assert parsed(page).tags.count("svg") == 1


def test_the_first_picture_is_told_for_what_it_shows() -> None:
    data = small_report()
    still = [data.overview[0]._replace(stalled_ms=0)]
    assert "Partition-seconds without progress by group and cause; paler" in render(data)
    page = render(replace(data, overview=still))
    assert "Rebalances by group and cause; paler" in page
    assert "(1 row)" in page


def test_rebalances_an_hour_stand_among_the_numbers() -> None:
    data = small_report()
    line = data.overview[0]._replace(generations=1_234, hours=1)
    assert '<td class="n">1,234.0</td>' in render(replace(data, overview=[line]))


def what_if(assignor: str, moves: int, problems: int = 0) -> WhatIf:
    """Make a row."""
    return WhatIf(assignor, 5, moves, moves, 0.5, 1, problems, 1)


def test_the_best_assignor_is_said_in_one_sentence() -> None:
    rows = [what_if("actual", 200), what_if("range", 150), what_if("sticky", 50)]
    assert best_assignor(rows) == (
        "With sticky, 75 % fewer partitions would have moved: 50 instead of 200."
    )
    assert best_assignor(rows, ["range"]).startswith("With sticky in the place of range, 75 %")
    assert best_assignor([what_if("actual", 0), what_if("range", 0)]) == "Nothing moved."
    assert "No assignor" in best_assignor([what_if("actual", 10), what_if("range", 10)])
    assert best_assignor([what_if("actual", 10), what_if("mine", 0, problems=1)]) == ""
    assert best_assignor([]) == ""


def test_a_storm_is_shown_closer_where_it_is_narrow() -> None:
    data = small_report()
    (storm,) = storms_to_show(data.pages[0], data)
    shown = around(storm)
    assert shown[0] < at(600) < at(660) < shown[1]
    wide = replace(data, storms=[StormLine(NAME, START, END, 9, 1, "", "", 0)])
    assert storms_to_show(data.pages[0], wide) == []
    assert storms_to_show(data.pages[0], replace(data, storms=[])) == []


def test_advice_stands_before_everything_else_with_its_number() -> None:
    data = small_report()
    page = render(data)
    assert page.index("What would have helped") < page.index("How far to trust this")
    said = advice_text(data.advice[0])
    assert said == (
        "static membership would have avoided 2 of 3 rebalances, 5 moves of partitions and"
        " 8.2 partition-seconds without progress, and cost 1.0 partition-seconds without progress"
        " (10 records late), as nobody takes over while a member is away (1 time); 1 member went for"
        " good, and the partitions of each would have waited for the end of its session:"
    )
    assert said in page
    dear = data.advice[0]._replace(pays=False, added_ms=90_000, back=0, gone=0)
    page = render(replace(data, advice=[dear]))
    assert "What would have helped" not in page
    assert "but cost more than it spared" in page
    assert "but cost more: 90.0 partition-seconds" in page
    assert "What would have helped" not in render(replace(data, advice=[]))


def test_advice_leads_to_its_generations() -> None:
    data = small_report()
    page = render(data)
    anchors = [generation_anchor(NAME, seq) for seq, _ in data.advice[0].evidence]
    for anchor, (_, number) in zip(anchors, data.advice[0].evidence, strict=True):
        assert f'<a id="{anchor}">{number}</a>' in page
        # at the top, and in the table of all advice
        assert page.count(f'<a href="#{anchor}">{number}</a>') == 2
    assert "and 4 more" in page
    # of groups without a page there is nothing to lead to
    assert f'href="#{anchors[0]}"' not in render(replace(data, pages=()))


def test_partition_seconds_and_how_sure_causes_are_stand_where_they_are_counted() -> None:
    page = render(small_report())
    assert "stood still for 8.2 partition-seconds, 100 % of it in" in page
    assert "most for join" in page
    assert '<td>something new</td><td class="n">1</td><td class="n">0</td>' in page
    assert "paler: the cause is not sure" in page


def test_objectives_that_are_missed_are_said_at_the_top() -> None:
    data = small_report()
    page = render(data)
    assert page.index("Objectives that are missed") < page.index("1. Overview")
    assert "(98.750 % of 99.5 %)" in page
    assert "99.5 % within 30 s in 1 days" in page
    kept = data.budgets[0]._replace(budget_left=0.5)
    assert "Objectives that are missed" not in render(replace(data, budgets=[kept]))
    assert "Objectives</h3>" not in render(replace(data, budgets=()))


def test_a_picture_is_a_file_of_its_own() -> None:
    picture = ownership(small_report().pages[0])
    assert picture is not None
    text = svg_file(picture)
    assert text.startswith("<svg xmlns=")
    assert parsed(text).tags.count("rect") > 3


def test_dark_phones_and_paper_are_thought_of() -> None:
    page = render(small_report())
    for rule in ("prefers-color-scheme: dark", "@media print", "width=device-width", "overflow-x"):
        assert rule in page, rule


def test_the_letters_above_the_ownership_are_explained() -> None:
    page = small_report().pages[0]
    marks = [page.generations[0]._replace(cause=each) for each in ("expiry", "join", "new")]
    assert letters(marks) == "J join, X expiry, ? any other"
    assert f"with its cause: {letters(page.generations)}." in render(small_report())


def test_missing_generations_are_explained() -> None:
    data = small_report()
    assert "A generation is missing where" in render(data)
    clean = replace(data, quality=[(1, 0, 9, 10, 0, 0, 0, "", 0, START, END)], rejects=[])
    assert "A generation is missing where" not in render(clean)
    assert "of 1 partition of the log" in render(clean)
