"""Checks the words of findings."""

import pytest

from groupsdk.verdict.rules.rule import length, names, plural


@pytest.mark.parametrize(
    ("milliseconds", "text"),
    [
        (0, "0 s"),
        (119_000, "119 s"),
        (120_000, "2 min"),
        (7_200_000, "2 hours"),
        (172_800_000, "2 days"),
    ],
)
def test_a_length_has_a_unit_that_fits(milliseconds: int, text: str) -> None:
    assert length(milliseconds) == text


def test_numbers_and_names_are_readable() -> None:
    assert plural(1, "record") == "1 record"
    assert plural(1_194, "record") == "1,194 records"
    assert names("abc", 2) == "a, b and 1 more"
