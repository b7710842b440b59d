"""Tests what is escaped of foreign strings, and what stays."""

import json
import sys
import unicodedata

from groupsdk.printable import _JSON, printable, printable_json, printable_lines


STEERING = ("Cc", "Cf", "Cs", "Zl", "Zp")
JOINERS = "\u200c\u200d"


def test_no_character_that_steers_a_terminal_or_hides_text_stays() -> None:
    every = "".join(map(chr, range(sys.maxunicode + 1)))
    for shown in (printable(every), json.loads(f'"{printable_json(JOINERS)}"')):
        left = {each for each in shown if unicodedata.category(each) in STEERING}
        assert left == set(JOINERS)
    assert printable("\x1b]8;;\x07\x7f\x9b\u202e\u2066\U000e0041\ud800") == (
        r"\x1b]8;;\x07\x7f\x9b\u202e\u2066\U000e0041\ud800"
    )


def test_words_of_every_script_stay() -> None:
    for text in (
        "",
        "orders-1",
        "Bestellungen für Köln",
        "क्\u200dष",
        "注文",
        "👩\u200d🔧",
        "a\u00a0b",
    ):
        assert printable(text) == printable_lines(text) == printable_json(text) == text


def test_lines_and_tabs_stay_where_a_string_has_lines() -> None:
    assert printable_lines("a\tb\r\n\x1b[2Jc\rd\n") == "a\tb\n\\x1b[2Jc\\x0dd\n"
    assert printable("a\nb\tc") == "a\\x0ab\\x09c"


def test_json_of_all_characters_is_as_if_each_were_escaped_alone() -> None:
    every = "".join(map(chr, range(sys.maxunicode + 1)))
    assert printable_json(every) == "".join(map(printable_json, every))
    assert len(_JSON) <= 10_000


def test_json_keeps_its_value() -> None:
    value = {"\x9b\x7f": ["\u202e", "\U000e0041", "\ud800", "a\nb", "é"]}
    for indent in (None, 2):
        shown = printable_json(json.dumps(value, ensure_ascii=False, indent=indent))
        assert json.loads(shown) == value
        assert all(each.isprintable() for each in shown.splitlines())
        assert "é" in shown
