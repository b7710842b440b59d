"""Tests what a reset is told in words and files; what it plans stands beside Kafka's tool in tests/cli."""

import pytest

from groupsdk.admin.offset_reset import (
    Reset,
    parse_datetime,
    parse_duration,
    read_offsets,
    write_offsets,
)
from groupsdk.assignment import TopicPartition
from groupsdk.errors import ConfigError
from tests.support.cases import each_case


@each_case(
    ("text", "expected_ms"),
    [
        ("90m", 5_400_000),
        ("1.5h", 5_400_000),
        ("250ms", 250),
        ("P1D", 86_400_000),
        ("PT1H30M", 5_400_000),
        ("P1DT2H3M4.5S", 93_784_500),
    ],
)
def test_duration_is_parsed_in_milliseconds(text: str, expected_ms: int) -> None:
    assert parse_duration(text) == expected_ms


@each_case("text", ["", "P", "PT", "90", "1w", "P1Y", "-5m"])
def test_text_that_is_not_a_duration_is_refused(text: str) -> None:
    with pytest.raises(ConfigError, match="PT1H30M or 90m"):
        parse_duration(text)


def test_times_are_utc_unless_they_name_a_zone() -> None:
    assert parse_datetime("1970-01-01T00:00:01.500") == 1_500
    assert parse_datetime("1970-01-01T02:00:00+02:00") == 0
    with pytest.raises(ConfigError, match="--to-datetime must be a time"):
        parse_datetime("yesterday")


def test_files_of_offsets_are_read_and_written() -> None:
    expected = {TopicPartition("t", 0): 5, TopicPartition("a,b", 1): 6}
    assert read_offsets('t,0,5\n"a,b",1,6\n\n', "f", "g") == expected
    # of several groups, as Kafka's tool exports them
    assert read_offsets('"g","t",0,5\n"other","t",0,9\n', "f", "g") == {TopicPartition("t", 0): 5}
    plan = [Reset("t", 0, None, 5, 0, 9), Reset("a,b", 1, 3, 6, 0, 9)]
    assert read_offsets(write_offsets(plan), "f", "g") == expected
    for text in ("t,0", "t,x,5", "t,0,-1", "g,,0,1"):
        with pytest.raises(ConfigError, match="f, line 1: must be topic,partition,offset"):
            read_offsets(text, "f", "g")
    with pytest.raises(ConfigError, match="no offsets for group 'g'"):
        read_offsets("other,t,0,9\n", "f", "g")
