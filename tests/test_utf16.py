"""Holds the order of text to Java's."""

from hypothesis import given, strategies as st

from groupsdk.utf16 import utf16_key, utf16_sorted


def test_upper_case_comes_before_lower_case() -> None:
    assert utf16_sorted(["aa", "Bb", "ZZ"]) == ["Bb", "ZZ", "aa"]


def test_characters_beyond_the_first_plane_come_before_the_last_of_the_first() -> None:
    names = ["\ufffd", "\U0001f600", "\ue000", "z"]

    assert utf16_sorted(names) == ["z", "\U0001f600", "\ue000", "\ufffd"]
    assert sorted(names) != utf16_sorted(names)


def test_half_a_surrogate_pair_is_sorted_too() -> None:
    assert utf16_sorted(["\ud83dx", "a"]) == ["a", "\ud83dx"]


@given(st.lists(st.text(alphabet=st.characters(min_codepoint=1), max_size=4)))
def test_all_texts_are_sorted_by_their_key(texts: list[str]) -> None:
    assert utf16_sorted(texts) == sorted(texts, key=utf16_key)
