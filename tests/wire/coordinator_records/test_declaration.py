"""Tests the framing of coordinators' records: types, versions, tombstones, and bytes that are wrong."""

import contextlib

import pytest
from hypothesis import given, strategies as st

from groupsdk.errors import DecodeError, EncodeError
from groupsdk.wire.coordinator_records import offsets_log, transaction_log
from groupsdk.wire.coordinator_records.declaration import (
    CoordinatorKey,
    CoordinatorValue,
    read_key,
    read_value,
    write,
    write_key,
    write_value,
)
from groupsdk.wire.coordinator_records.group_metadata import GroupMetadataKey, GroupMetadataValue
from groupsdk.wire.coordinator_records.offset_commit import OffsetCommitKey, OffsetCommitValue
from tests.wire.coordinator_records.record_cases import KEYS
from tests.wire.strategies import structs


KEY = OffsetCommitKey("g", "t", 2)


@st.composite
def records(draw: st.DrawFn) -> tuple[CoordinatorKey, CoordinatorValue, int]:
    """A record of any type: its key, its value and a version that can carry it."""
    declared = draw(st.sampled_from(KEYS))
    version = draw(st.integers(0, declared.value_class.api.max_version))
    flexible = declared.value_class.api.is_flexible(version)
    key = draw(structs(declared, 0, flexible=False))
    value = draw(structs(declared.value_class, version, flexible=flexible))
    return key, value, version


def keys_of(key: CoordinatorKey) -> dict[int, type[CoordinatorKey]]:
    return {key.record_type: type(key)}


@given(records())
def test_written_coordinator_record_is_read_back(
    record: tuple[CoordinatorKey, CoordinatorValue, int],
) -> None:
    key, value, version = record

    key_data, value_data = write(key, value, version)

    assert read_key(keys_of(key), key_data) == key
    assert read_value(key, value_data) == value
    assert write(key, None) == (key_data, None)
    assert read_value(key, None) is None


@given(records(), st.data())
def test_a_cut_is_always_seen(
    record: tuple[CoordinatorKey, CoordinatorValue, int], data: st.DataObject
) -> None:
    key, value, version = record
    key_data, value_data = write_key(key), write_value(value, version)

    with pytest.raises(DecodeError):
        read_key(keys_of(key), key_data[: data.draw(st.integers(0, len(key_data) - 1))])
    with pytest.raises(DecodeError):
        read_value(key, value_data[: data.draw(st.integers(0, len(value_data) - 1))])


@given(records(), st.data())
def test_changed_bytes_raise_nothing_else(
    record: tuple[CoordinatorKey, CoordinatorValue, int], data: st.DataObject
) -> None:
    key, value, version = record
    for original in (write_key(key), write_value(value, version)):
        changed = bytearray(original)
        for _ in range(data.draw(st.integers(1, 4))):
            changed[data.draw(st.integers(0, len(changed) - 1))] ^= 1 << data.draw(
                st.integers(0, 7)
            )
        try:
            read_key(keys_of(key), bytes(changed))
            read = read_value(key, bytes(changed))
        except DecodeError:
            continue
        assert isinstance(read, key.value_class)


@given(st.sampled_from(KEYS), st.binary(max_size=60), st.integers(0, 4))
def test_any_bytes_of_a_declared_record_are_read_or_refused(
    declared: type[CoordinatorKey], data: bytes, version: int
) -> None:
    for read in (
        lambda: read_key({5: declared}, b"\0\5" + data),
        lambda: read_value(declared(), version.to_bytes(2) + data),
    ):
        with contextlib.suppress(DecodeError):
            assert read() is not None


def test_types_that_are_not_known_are_told_apart_from_bytes_that_are_wrong() -> None:
    assert read_key(offsets_log.KEYS, bytes.fromhex("0009ffff")) is None
    assert read_key(offsets_log.KEYS, bytes.fromhex("ffff")) is None
    for size in (0, 1):
        with pytest.raises(
            DecodeError, match=f"{size} bytes is too short for the key of a coordinator record"
        ):
            read_key(offsets_log.KEYS, bytes(size))
        with pytest.raises(
            DecodeError, match=f"{size} bytes is too short for the value of a coordinator"
        ):
            read_value(KEY, bytes(size))
    with pytest.raises(DecodeError, match="OffsetCommitKey v0: 1 of 13 bytes are left over"):
        read_key(offsets_log.KEYS, write_key(KEY) + b"\0")


@pytest.mark.parametrize("version", [-1, 5, 99])
def test_versions_that_are_not_known_are_refused(version: int) -> None:
    data = version.to_bytes(2, signed=True) + bytes(30)

    with pytest.raises(DecodeError, match=f"Value has version {version}; 0 to 4 are known"):
        read_value(KEY, data)
    with pytest.raises(EncodeError, match=f"declared for the versions 0 to 4, not for {version}"):
        write(KEY, OffsetCommitValue(), version)


def test_a_value_belongs_to_its_key() -> None:
    with pytest.raises(EncodeError, match="of OffsetCommitKey is a OffsetCommitValue, not a Group"):
        write(KEY, GroupMetadataValue())


def test_the_version_that_is_written_is_that_of_kafka() -> None:
    written = {
        key.__name__: write_value(key.value_class())[:2].hex()
        for key in KEYS
        if key.value_class.api.written != 0
    }

    assert written == {
        "OffsetCommitKey": "0004",
        "GroupMetadataKey": "0003",
        "TransactionLogKey": "0001",
    }
    assert write(GroupMetadataKey("g"), GroupMetadataValue())[0] == bytes.fromhex("0002000167")
    assert transaction_log.KEYS.keys() == {0}
