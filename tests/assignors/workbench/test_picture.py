"""Test that the picture is well formed and shows what it should."""

import xml.etree.ElementTree as ET

from assignors.workbench.picture import picture
from tests.assignors.workbench.outcomes import outcome


SVG = "{http://www.w3.org/2000/svg}"
LONG = "something that takes many words to say, and more"


def drawn(*rows: list[object]) -> ET.Element:
    outcomes = [
        [outcome("one", "e", moves=moves) for moves in row if isinstance(moves, int)]
        for row in rows
    ]
    events = [f"event {number}" for number in range(len(outcomes))]
    names = [f"assignor {number}" for number in range(len(outcomes[0]))]
    return ET.fromstring(picture(names, events, outcomes))


def texts(root: ET.Element) -> list[str]:
    return [each.text or "" for each in root.iter(f"{SVG}text")]


def colour_widths(root: ET.Element, colour: str) -> list[float]:
    bars = [each for each in root.iter(f"{SVG}rect") if each.get("fill") == colour]
    # the first one is in the legend
    return [float(each.get("width", "0")) for each in bars[1:]]


def test_every_event_and_assignor_is_named() -> None:
    root = drawn([0, 10], [5, 20])

    assert {"event 0", "event 1", "assignor 0", "assignor 1"} <= set(texts(root))
    assert {"Partitions moved", "Loads, least to greatest", "CPU time of the leader"} <= set(
        texts(root)
    )
    assert {"0", "10", "5", "20", "2 to 3", "1.00"} <= set(texts(root))


def test_bars_are_in_proportion() -> None:
    root = drawn([40, 10], [5, 20])

    # of each assignor: the moves of both events, then loads, then time
    first, second = (colour_widths(root, colour) for colour in ("#0072b2", "#e69f00"))
    assert first[:2] == [210.0, 26.2]
    assert second[:2] == [52.5, 105.0]


def test_everything_is_inside() -> None:
    root = drawn([1_000_000, 0, 3], [2, 1, 0])
    width, height = float(root.get("width", "0")), float(root.get("height", "0"))

    for rect in root.iter(f"{SVG}rect"):
        x, y = float(rect.get("x", "0")), float(rect.get("y", "0"))
        assert 0 <= x <= x + float(rect.get("width", "0")) <= width
        assert 0 <= y <= y + float(rect.get("height", "0")) <= height
    for text in root.iter(f"{SVG}text"):
        assert 0 <= float(text.get("x", "0")) + 5 * len(text.text or "") <= width


def test_picture_refers_to_nothing_outside() -> None:
    text = picture(["one"], ["e"], [[outcome("one", "e")]])

    assert text.count("http") == 1
    assert "<script" not in text


def test_names_are_escaped_and_long_ones_cut() -> None:
    text = picture(["<one> & two"], [LONG], [[outcome("one", "e")]])
    root = ET.fromstring(text)

    assert "<one> & two" in texts(root)
    assert "something that takes many words to…"[:33] in " ".join(texts(root))
    assert LONG not in text


def test_assignment_that_could_be_fairer_is_marked() -> None:
    text = picture(["one"], ["e"], [[outcome("one", "e", is_fairest=False)]])

    assert "2 to 3 *" in text


def test_nothing_moved_anywhere() -> None:
    assert colour_widths(drawn([0], [0]), "#0072b2")[:2] == [1.5, 1.5]
