"""Tests the message formatters against Kafka's own, as they answered and live where a JDK is."""

from typing import Any

import pytest

from groupsdk.errors import DecodeError
from groupsdk.wire.coordinator_records.formatter import format_offset, json_line
from tests.support.cases import each_case
from tests.wire.coordinator_records.record_cases import FORMATTERS, ask, formatted, read_golden
from tests.wire.coordinator_records.vectors import OFFSET_KEY


FORMATTED = list(formatted())


def as_bytes(text: str | None) -> bytes | None:
    return None if text is None else bytes.fromhex(text)


@each_case(("name", "question"), FORMATTED)
def test_record_is_printed_as_kafka_prints_it(name: str, question: dict[str, Any]) -> None:
    printed = FORMATTERS[question["format"]](as_bytes(question["key"]), as_bytes(question["value"]))

    assert printed == read_golden()[name]


def test_a_version_that_is_not_known_is_an_error() -> None:
    with pytest.raises(DecodeError, match="OffsetCommitValue has version 5; 0 to 4 are known"):
        format_offset(bytes.fromhex(OFFSET_KEY), bytes.fromhex("0005"))


@pytest.mark.kafka
@pytest.mark.timeout(300)
@pytest.mark.usefixtures("_java")
def test_the_golden_answers_are_what_kafka_says() -> None:
    assert ask() == read_golden()


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("\x00\x1f", r'"\u0000\u001F"'),
        ("\b\t\n\f\r", r'"\b\t\n\f\r"'),
        ('"\\/', r'"\"\\/"'),
        ("\x7fß\u2028\U0001f600", '"\x7fß\u2028\U0001f600"'),
        # what is an escape only to the eye stays as it is
        ("\\u001f", r'"\\u001f"'),
        ("\\\x1f", r'"\\\u001F"'),
    ],
)
def test_text_is_escaped_as_jackson_does(text: str, expected: str) -> None:
    assert json_line(text) == expected


def test_there_are_no_spaces() -> None:
    assert json_line({"a": [1, None, True], "b": {}}) == '{"a":[1,null,true],"b":{}}'
