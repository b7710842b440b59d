"""Colours and letters of the pictures."""

from groupsdk.history.explain.changes import Cause
from groupsdk.history.report.drawing import CAUSES, LETTERS, SERIES, colour_of


def test_every_cause_has_a_colour_and_a_letter_of_its_own() -> None:
    assert set(CAUSES) == set(LETTERS) == {str(cause) for cause in Cause}
    assert len(set(CAUSES.values())) == len(CAUSES)
    assert len(set(LETTERS.values())) == len(LETTERS)


def test_names_keep_their_colours() -> None:
    names = [f"client-{n:02}" for n in range(20)]
    colours = colour_of(names)
    assert colour_of([*reversed(names), *names]) == colours
    assert [colours[name] for name in names[:16]] == list(SERIES)
