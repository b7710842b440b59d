"""The pictures: what is in them, and that odd data draws as well."""

from dataclasses import replace
from datetime import UTC, datetime
from itertools import pairwise
from xml.etree import ElementTree as ET

from groupsdk.history.report import drawing
from groupsdk.history.report.costs import NO_REBALANCE, CausePart
from groupsdk.history.report.data import GenerationMark, MembershipBar, OwnershipSpan
from groupsdk.history.report.drawing import Picture
from groupsdk.history.report.page import svg_file
from tests.history.report.small import END, at, small_page, small_report


def texts(picture: Picture | None) -> list[str]:
    """List the texts of a picture, which has to be XML."""
    assert picture is not None
    root = ET.fromstring(svg_file(picture))
    return ["".join(each.itertext()).strip() for each in root.iter() if each.tag.endswith("text")]


def test_the_overview_stacks_what_each_cause_cost() -> None:
    picture = drawing.overview(small_report())
    assert {"<b>g</b> $x_1$", "8", "join", NO_REBALANCE} <= set(texts(picture))
    assert picture is not None
    bars = [(bar.x, bar.width, bar.opacity) for bar in picture.bars]
    # one begins where the one before ends; what is not sure is paler
    assert all(x == before + width for (before, width, _), (x, _, _) in pairwise(bars))
    assert [opacity for *_, opacity in bars] == [1.0, 0.45, 1.0]
    assert [round(width / bars[2][1], 2) for _, width, _ in bars] == [6.0, 1.25, 1.0]


def test_the_overview_counts_rebalances_where_nothing_stood_still() -> None:
    data = small_report()
    parts = [CausePart("join", 3, 1, 0, 0)]
    picture = drawing.overview(
        replace(data, overview=[data.overview[0]._replace(stalled_ms=0, parts=parts)])
    )
    assert {"3", "join"} <= set(texts(picture))


def test_groups_stand_still_on_one_clock_with_the_brokers() -> None:
    data = small_report()
    picture = drawing.clock(data)
    assert {"other coordinators", "<b>g</b> $x_1$", "join"} <= set(texts(picture))
    assert picture is not None
    assert any("another broker leads" in bar.title for bar in picture.bars)
    assert any("6.0 partition-seconds" in bar.title for bar in picture.bars)
    assert drawing.clock(replace(data, clock=())) is None


def test_ownership_shows_partitions_in_order_clients_and_causes() -> None:
    found = texts(drawing.ownership(small_page()))
    assert found.index("t-0") < found.index("t-10")
    assert {"client-1", "client-2", "J", "X", "?"} <= set(found)


def test_a_period_is_shown_closer() -> None:
    whole = drawing.ownership(small_page())
    closer = drawing.ownership(small_page(), (at(590), at(640)))
    assert whole != closer
    assert "?" not in texts(closer)
    assert drawing.ownership(small_page(), (at(0), at(1))) is None


def test_the_ends_of_stays_are_told_by_their_colours() -> None:
    assert {"client-1", "client-2", "expiry", "leave", "stays"} <= set(
        texts(drawing.members(small_page()))
    )


def test_a_clock_that_was_astray_gets_no_more_labels_than_others() -> None:
    late = replace(small_page(), end=datetime(9999, 1, 1, tzinfo=UTC))
    picture = drawing.members(late)
    assert picture is not None
    assert any(each.startswith("9") for each in texts(picture))
    assert len(picture.texts) < 30


def test_causes_costs_what_if_and_quality_are_drawn() -> None:
    data = small_report()
    assert {"join", "something new"} <= set(texts(drawing.causes(data)))
    assert "join" in texts(drawing.gaps(data))
    assert {"sticky", "actual", "17", "40"} <= set(texts(drawing.what_if(small_page())))
    assert "broken" not in texts(drawing.what_if(small_page()))
    own = replace(small_page(), own_assignors=("range", "sticky"))
    assert "range and sticky (actual)" in texts(drawing.what_if(own))
    assert "partition 1" in texts(drawing.quality(data))


def test_report_without_data_draws_no_picture() -> None:
    data = replace(small_report(), overview=(), causes_by_time=(), gaps=(), quality=())
    draw = (drawing.overview, drawing.causes, drawing.gaps, drawing.quality)
    assert [each(data) for each in draw] == [None] * 4
    still = replace(small_page(), what_if=[small_page().what_if[0]._replace(moves=0)])
    assert drawing.what_if(still) is None
    page = replace(small_page(), ownership=(), stays=(), what_if=())
    assert [each(page) for each in (drawing.ownership, drawing.members, drawing.what_if)] == [
        None,
        None,
        None,
    ]


def test_hundreds_of_generations_stay_readable() -> None:
    marks = [
        GenerationMark(n, n, at(n), "join", "log", 1.0, "", 1, 0, None, False) for n in range(400)
    ]
    ownership = [OwnershipSpan("t-0", "c", at(0), at(400), 1.0)]
    page = replace(small_page(), generations=marks, ownership=ownership, end=at(400))
    letters = [text for text in texts(drawing.ownership(page)) if text == "J"]
    assert 10 < len(letters) <= 150


def test_one_moment_long_names_and_shares_of_topics_are_drawn() -> None:
    ownership = [OwnershipSpan("t", f"c-{n}", END, END, 0.5) for n in range(2)]
    page = replace(
        small_page(),
        generations=[GenerationMark(0, 1, END, "join", "log", 1.0, "", 1, 0, None, False)],
        ownership=[*ownership, OwnershipSpan("n" * 200, "c", END, END, 1.0)],
        by_topic=True,
        stays=[MembershipBar("c" * 100, "m", END, END, "leave")],
        end=END,
    )
    assert any("…" in text for text in texts(drawing.ownership(page)))
    assert texts(drawing.members(page))
