"""Tests the building blocks of the protocol."""

import pytest
from hypothesis import given, strategies as st

from groupsdk.limits import MAX_INT32, MAX_UNKNOWN_TAGS
from groupsdk.wire.primitives import (
    FieldError,
    TaggedField,
    compact_string,
    compact_string_length,
    read_compact_bytes,
    read_compact_string,
    read_tag,
    read_unknown_tags,
    read_uvarint,
    uvarint,
    write_tags,
)


@pytest.mark.parametrize(
    ("value", "data"),
    [
        (0, "00"),
        (1, "01"),
        (127, "7f"),
        (128, "8001"),
        (300, "ac02"),
        (16383, "ff7f"),
        (16384, "808001"),
        (MAX_INT32, "ffffffff07"),
    ],
)
def test_uvarint_is_encoded_and_read(value: int, data: str) -> None:
    assert uvarint(value).hex() == data
    assert read_uvarint(b"\xee" + bytes.fromhex(data) + b"\xee", 1) == (value, len(data) // 2)


@given(st.integers(0, MAX_INT32))
def test_uvarints_are_read_back(value: int) -> None:
    data = uvarint(value)
    assert read_uvarint(data, 0) == (value, len(data) - 1)


@pytest.mark.parametrize("value", [-1, 1 << 32])
def test_a_uvarint_has_32_bits(value: int) -> None:
    with pytest.raises(FieldError, match="does not fit"):
        uvarint(value)


@pytest.mark.parametrize("data", ["ffffffff08", "ffffffff0f", "ffffffff7f"])
def test_a_count_over_the_limit_is_refused(data: str) -> None:
    with pytest.raises(FieldError, match="over the limit of 2147483647"):
        read_uvarint(bytes.fromhex(data), 0)


def test_an_endless_uvarint_is_refused() -> None:
    with pytest.raises(FieldError, match="more than five bytes"):
        read_uvarint(b"\xff" * 1000, 0)


def test_a_truncated_uvarint_is_an_index_error() -> None:
    with pytest.raises(IndexError):
        read_uvarint(b"\xff\xff", 0)


def test_compact_string_is_encoded_and_read() -> None:
    data = compact_string("ß".encode() * 100)

    assert data[:2] == uvarint(201)
    assert read_compact_string(b"." + data, 1) == ("ß" * 100, 1 + len(data))
    assert read_compact_bytes(data, 0) == ("ß".encode() * 100, len(data))


def test_a_compact_string_has_kafkas_limit() -> None:
    assert compact_string_length(32767) == uvarint(32768)
    with pytest.raises(FieldError, match="32768 bytes in UTF-8, over the limit of 32767"):
        compact_string_length(32768)
    with pytest.raises(FieldError, match="32768 bytes, over the limit of 32767"):
        read_compact_string(uvarint(32769) + b"x" * 32768, 0)
    assert read_compact_bytes(uvarint(32769) + b"x" * 32768, 0)[0] == b"x" * 32768


def test_null_is_refused() -> None:
    with pytest.raises(FieldError, match="is null"):
        read_compact_string(b"\0", 0)
    with pytest.raises(FieldError, match="is null"):
        read_compact_bytes(b"\0", 0)


def test_tags_are_written_in_order() -> None:
    data = write_tags([(5, b"five"), (0, b"")], [TaggedField(3, b"xyz")])

    assert data == bytes([3, 0, 0, 3, 3]) + b"xyz" + bytes([5, 4]) + b"five"
    assert read_unknown_tags(b".." + data, 2, 2 + len(data)) == (
        (TaggedField(0, b""), TaggedField(3, b"xyz"), TaggedField(5, b"five")),
        2 + len(data),
    )


@pytest.mark.parametrize("unknown", [[TaggedField(5, b"")], [TaggedField(-1, b"")]])
def test_tags_that_cannot_be_written(unknown: list[TaggedField]) -> None:
    with pytest.raises(FieldError, match="twice, or it is negative"):
        write_tags([(5, b"")], unknown)


def test_a_tag_may_not_run_over_the_end() -> None:
    assert read_tag(b"\x07\x02ab", 0, 4) == (7, 2, 4)
    with pytest.raises(FieldError, match="tagged field 7 of 3 bytes where 2 are left"):
        read_tag(b"\x07\x03ab", 0, 4)


def test_a_hostile_count_of_tags_ends_with_the_bytes() -> None:
    with pytest.raises(IndexError):
        read_unknown_tags(uvarint(MAX_UNKNOWN_TAGS) + b"\x01\x00" * 50, 0, 105)


def test_a_section_has_a_bounded_number_of_unknown_tags() -> None:
    data = uvarint(MAX_UNKNOWN_TAGS + 1) + b"\x01\x00" * (MAX_UNKNOWN_TAGS + 1)

    with pytest.raises(FieldError, match=r"has 10001 tagged fields, over the limit of 10000"):
        read_unknown_tags(data, 0, len(data))
