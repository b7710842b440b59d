"""Tests the choice of partitions against Java's."""

import pytest

from groupsdk.wire.coordinator_records.partitioner import java_hash, partition_for


@pytest.mark.parametrize(
    ("text", "hash_code", "partition"),
    [
        ("g", 103, 3),
        ("test-group", 627841412, 12),
        ("connect-cluster", 1440343063, 13),
        ("my-consumer-group", 1513705513, 13),
        ("", 0, 0),
        ("polygenelubricants", -2147483648, 0),
        ("grüppe", -1233264812, 12),
        # two UTF-16 code units: 31 * 0xd83d + 0xdc18
        ("\U0001f418", 31 * 0xD83D + 0xDC18, 11),
    ],
)
def test_the_partition_is_that_of_java(text: str, hash_code: int, partition: int) -> None:
    assert java_hash(text) == hash_code
    assert partition_for(text, 50) == partition


def test_half_of_a_character_has_a_hash_too() -> None:
    assert java_hash("\ud83d") == 0xD83D


def test_there_has_to_be_a_partition() -> None:
    with pytest.raises(ValueError, match="partition_count must be at least 1, not 0"):
        partition_for("g", 0)
