"""Holds what is sent to a page to the changes of what it shows."""

import json
from typing import Any

from hypothesis import given, strategies as st

from groupsdk.web.sections import Sections, encoded, message


def applied(shown: dict[str, dict[str, Any]], line: str) -> dict[str, dict[str, Any]]:
    """Applies a message as the page does."""
    sections = json.loads(line)
    shown = {} if sections.pop("whole", False) else {name: dict(of) for name, of in shown.items()}
    for name, entries in sections.items():
        section = shown.setdefault(name, {})
        for key, value in entries.items():
            if value is None:
                section.pop(key, None)
            else:
                section[key] = value
    return {name: section for name, section in shown.items() if section}


def sections_of(values: dict[str, dict[str, Any]]) -> Sections:
    return {name: encoded(entries).texts for name, entries in values.items()}


NAMES = st.text(max_size=5)
VALUES = st.dictionaries(
    st.sampled_from(["groups", "lags", "members"]),
    st.dictionaries(NAMES, st.integers() | NAMES | st.lists(NAMES, max_size=2), max_size=4),
)


@given(st.lists(VALUES, max_size=4))
def test_page_has_what_is_shown_after_each_message_whatever_the_names(
    states: list[dict[str, dict[str, Any]]],
) -> None:
    names = ("groups", "lags", "members")
    shown: dict[str, dict[str, Any]] = {}
    sent: Sections | None = None
    for state in states:
        now = sections_of({name: state.get(name, {}) for name in names})
        line = message(sent, now)
        assert line.isascii()
        assert "\n" not in line
        shown = applied(shown, line)
        assert shown == {name: entries for name, entries in state.items() if entries}
        sent = now


def test_unchanged_entries_are_not_sent_again() -> None:
    first = sections_of({"lags": {"a": 1, "b": 2, "c": 3}, "groups": {"a": {}}})
    assert json.loads(message(None, first))["whole"] is True
    second = sections_of({"lags": {"a": 1, "b": 5}, "groups": {"a": {}}})
    assert json.loads(message(first, second)) == {"lags": {"b": 5, "c": None}}
    assert message(second, second) == "{}"


def test_section_that_is_sent_once_stays() -> None:
    first = sections_of({"trends": {"a": [1]}, "lags": {"a": 1}})
    assert json.loads(message(first, sections_of({"lags": {"a": 2}}))) == {"lags": {"a": 2}}


def test_equal_entries_are_encoded_once() -> None:
    before = encoded({"a": {"members": 3}, "b": 1})
    after = encoded({"a": {"members": 3}, "b": 2}, before)
    assert after.texts["a"] is before.texts["a"]
    assert after.texts["b"] == "2"
