"""Tests the fast way to write and read committed offsets against the declared one."""

from uuid import UUID

import pytest
from hypothesis import given, strategies as st

from groupsdk.errors import DecodeError, EncodeError
from groupsdk.wire.coordinator_records.declaration import read_value, write, write_value
from groupsdk.wire.coordinator_records.offset_commit import (
    OffsetCommitKey,
    OffsetCommitValue,
    StoredOffset,
    read_offset,
    read_plain_offset,
    write_offset_key,
    write_offset_value,
)
from groupsdk.wire.coordinator_records.offsets_log import read_key
from groupsdk.wire.schema import NO_UUID


KEY = OffsetCommitKey("g", "t", 2)
TOPIC_ID = UUID(int=(1 << 64) + 2)
TEXT = st.text(st.characters(codec="utf-8"), max_size=30)
INT64 = st.integers(-(2**63), 2**63 - 1)


texts = st.text(st.characters(exclude_categories=["Cs"]), max_size=20) | st.sampled_from(
    ["a" * 125, "a" * 126, "a" * 127, "ä" * 63, "ä" * 64, "a" * 16382, "a" * 16383, "a" * 32767]
)
int32s = st.integers(-(2**31), 2**31 - 1)
int64s = st.integers(-(2**63), 2**63 - 1)


@given(texts, texts, int32s)
def test_the_fast_key_is_the_declared_one(group: str, topic: str, partition: int) -> None:
    declared = write(OffsetCommitKey(group, topic, partition), None)

    assert (write_offset_key(group, topic, partition), None) == declared
    assert read_key(declared[0]) == OffsetCommitKey(group, topic, partition)


@given(int64s, int32s, texts, int64s, st.uuids() | st.just(UUID(int=0)) | st.just(NO_UUID))
def test_the_fast_value_is_the_declared_one(
    offset: int, leader_epoch: int, metadata: str, timestamp: int, topic_id: UUID
) -> None:
    value = OffsetCommitValue(offset, leader_epoch, metadata, timestamp, topic_id=topic_id)

    fast = write_offset_value(offset, leader_epoch, metadata, timestamp, topic_id)

    assert fast == write_value(value)
    assert read_value(KEY, fast) == value


@pytest.mark.parametrize(
    ("group", "topic", "partition", "problem"),
    [
        ("g" * 32768, "t", 0, "group has 32768 bytes in UTF-8, over the limit"),
        ("g", "\ud800", 0, "topic has a character that UTF-8 cannot carry"),
        ("g", "t", 2**31, "partition is 2147483648, which does not fit 32 bits"),
    ],
)
def test_a_key_that_does_not_fit_is_refused(
    group: str, topic: str, partition: int, problem: str
) -> None:
    with pytest.raises(EncodeError, match=problem):
        write_offset_key(group, topic, partition)


@pytest.mark.parametrize(
    ("offset", "metadata", "timestamp", "problem"),
    [
        (2**63, "", 0, "offset is 9223372036854775808, which does not fit 64 bits"),
        (0, "m" * 32768, 0, "metadata has 32768 bytes in UTF-8, over the limit"),
        (0, "\udfff", 0, "metadata has a character that UTF-8 cannot carry"),
        (0, "", -(2**63) - 1, "commit_timestamp is -9223372036854775809"),
    ],
)
def test_a_value_that_does_not_fit_is_refused(
    offset: int, metadata: str, timestamp: int, problem: str
) -> None:
    with pytest.raises(EncodeError, match=problem):
        write_offset_value(offset, -1, metadata, timestamp)


def read_slowly(key: bytes, value: bytes) -> StoredOffset | None:
    """Read a record by the declared classes; None where it is no plain offset, or none at all."""
    try:
        name = read_key(key)
        if not isinstance(name, OffsetCommitKey):
            return None
        found = read_value(name, value)
    except DecodeError:
        return None
    if not isinstance(found, OffsetCommitValue):
        return None
    return StoredOffset(
        *(name.group, name.topic, name.partition, found.offset, found.leader_epoch),
        *(found.metadata, found.commit_timestamp, found.topic_id),
    )


@given(
    TEXT,
    TEXT,
    st.integers(0, 2**31 - 1),
    INT64,
    st.integers(-1, 9),
    TEXT,
    INT64,
    st.sampled_from([NO_UUID, TOPIC_ID]),
)
@pytest.mark.parametrize("version", [3, 4])
def test_the_fast_reader_takes_what_is_written(
    version: int,
    group: str,
    topic: str,
    partition: int,
    offset: int,
    epoch: int,
    metadata: str,
    at: int,
    topic_id: UUID,
) -> None:
    value = OffsetCommitValue(offset, epoch, metadata, at, topic_id=topic_id)
    key, data = write(OffsetCommitKey(group, topic, partition), value, version)
    assert data is not None
    kept = topic_id if version == 4 else NO_UUID
    found = (group, topic, partition, offset, epoch, metadata, at, kept)
    assert read_offset(key, data) == StoredOffset(*found)
    if version == 4 and not metadata:
        assert read_plain_offset(data) == (offset, epoch, at, kept)


@given(st.data())
def test_the_fast_reader_leaves_what_is_unusual_to_the_declared_one(data: st.DataObject) -> None:
    key = bytearray(write_offset_key("group", "topic", 7))
    topic_id = data.draw(st.sampled_from([NO_UUID, TOPIC_ID]))
    value = bytearray(write_offset_value(1, 2, data.draw(TEXT), 3, topic_id))
    for damaged in (key, value):
        for _ in range(data.draw(st.integers(0, 2))):
            damaged[data.draw(st.integers(0, len(damaged) - 1))] = data.draw(st.integers(0, 255))
        if data.draw(st.booleans()):
            del damaged[data.draw(st.integers(0, len(damaged))) :]
    fast = read_offset(bytes(key), bytes(value))
    assert fast is None or fast == read_slowly(bytes(key), bytes(value))


@pytest.mark.parametrize(
    ("version", "value"),
    [
        (0, OffsetCommitValue(1, metadata="m", commit_timestamp=2)),
        (1, OffsetCommitValue(1, metadata="m", commit_timestamp=2, expire_timestamp=3)),
        (4, OffsetCommitValue(1, metadata="m" * 127, commit_timestamp=2)),
    ],
)
def test_the_fast_reader_does_not_take(version: int, value: OffsetCommitValue) -> None:
    key, data = write(KEY, value, version)
    assert data is not None
    assert read_offset(key, data) is None
