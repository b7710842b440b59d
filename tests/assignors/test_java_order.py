"""Holds Java's orders of strings to what Java printed."""

import pytest
from hypothesis import given, settings, strategies as st

from assignors.subscribers import java_hash, java_map_order


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("", 0),
        ("a", 97),
        ("Aa", 2112),
        ("BB", 2112),
        ("hello world", 1794106052),
        # Java says -2147483648: here the number is unsigned
        ("polygenelubricants", 0x80000000),
        ("\u00df", 0xDF),
        ("\U0001f600", 0xD83D * 31 + 0xDE00),
    ],
)
def test_java_hash_equals_javas_string_hash(text: str, expected: int) -> None:
    assert java_hash(text) == expected


def test_java_map_order_equals_javas_hash_map() -> None:
    names = ["C0", "C1", "C2", "C10", "Aa", "BB"]

    assert java_map_order(names) == ["Aa", "BB", "C10", "C0", "C1", "C2"]


def test_names_in_one_bucket_stay_in_the_order_in_which_they_were_put_in() -> None:
    assert java_map_order(["BB", "Aa"]) == ["BB", "Aa"]


def test_map_order_after_the_map_has_grown() -> None:
    # 13 strings are more than three quarters of 16 buckets
    names = [f"consumer-{number}" for number in range(14)]

    order = [11, 10, 6, 5, 4, 3, 2, 13, 1, 12, 0, 9, 8, 7]

    assert java_map_order(names) == [f"consumer-{number}" for number in order]


@settings(deadline=None)
@given(st.sets(st.text(max_size=5), max_size=60))
def test_map_order_loses_and_adds_nothing(names: set[str]) -> None:
    assert sorted(java_map_order(sorted(names))) == sorted(names)
