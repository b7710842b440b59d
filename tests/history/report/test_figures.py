"""The pictures: what is in them can be read as text, and odd data draws as well."""

from dataclasses import replace
from xml.etree import ElementTree as ET

import pytest


pytest.importorskip("pyspark")
pytest.importorskip("matplotlib")

from groupsdk.history.report import figures
from groupsdk.history.report.data import GenerationMark, Stay, Stretch
from tests.history.report.small import END, at, small_page, small_report


def texts(svg: str) -> list[str]:
    """List the texts of a picture, which has to be XML."""
    root = ET.fromstring(svg)
    return ["".join(each.itertext()).strip() for each in root.iter() if each.tag.endswith("text")]


def test_the_overview_names_groups_and_counts() -> None:
    found = texts(figures.overview(small_report()))
    assert "<b>g</b> $x_1$" in found
    assert any("3 (1 storm)" in text for text in found)


def test_ownership_shows_partitions_in_order_clients_and_causes() -> None:
    found = texts(figures.ownership(small_page()))
    assert found.index("t-10") < found.index("t-0")
    assert {"client-1", "client-2", "J", "X", "?"} <= set(found)


def test_a_period_is_shown_closer() -> None:
    whole = figures.ownership(small_page())
    closer = figures.ownership(small_page(), (at(590), at(640)))
    assert whole != closer
    assert "?" not in texts(closer)


def test_members_end_with_a_letter() -> None:
    page = small_page()
    apart = [each._replace(end=END) if each.member_id == "m-2" else each for each in page.stays]
    found = texts(figures.members(replace(page, stays=apart)))
    assert {"X", "D", "L", "client-1", "client-2"} <= set(found)


def test_letters_that_would_stand_on_each_other_are_left_out() -> None:
    found = texts(figures.members(small_page()))
    assert {"X", "L"} <= set(found)
    assert "D" not in found


def test_bars_of_nothing_have_their_number() -> None:
    page = small_page()
    even = [each._replace(mean_stddev=0.0) for each in page.what_if]
    assert "0.00" in texts(figures.what_if(replace(page, what_if=even)))


def test_causes_costs_what_if_and_quality_are_drawn() -> None:
    data = small_report()
    assert any("join" in text for text in texts(figures.causes(data)))
    assert "join" in texts(figures.gaps(data))
    assert {"sticky", "as it happened"} <= set(texts(figures.what_if(small_page())))
    assert "broken" not in texts(figures.what_if(small_page()))
    assert "partition 1" in texts(figures.quality(data))


def test_the_same_data_draws_the_same_picture() -> None:
    assert figures.ownership(small_page()) == figures.ownership(small_page())
    assert figures.causes(small_report()) == figures.causes(small_report())


def test_hundreds_of_generations_stay_readable() -> None:
    marks = [
        GenerationMark(n, n, at(n), "join", "log", 1.0, "", 1, 0, None, False) for n in range(400)
    ]
    page = replace(small_page(), generations=marks, end=at(400))
    letters = [text for text in texts(figures.ownership(page)) if text == "J"]
    assert 10 < len(letters) <= 100
    assert len(figures.ownership(page)) < 400_000


def test_one_moment_long_names_and_shares_of_topics_are_drawn() -> None:
    stretches = [Stretch("t", f"c-{n}", END, END, 0.5) for n in range(2)]
    page = replace(
        small_page(),
        generations=[GenerationMark(0, 1, END, "join", "log", 1.0, "", 1, 0, None, False)],
        stretches=[*stretches, Stretch("n" * 200, "c", END, END, 1.0)],
        by_topic=True,
        stays=[Stay("c" * 100, "m", END, END, "leave")],
        end=END,
    )
    assert any(text.endswith("…") for text in texts(figures.ownership(page)))
    assert texts(figures.members(page))
