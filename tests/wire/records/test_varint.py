"""Tests the numbers in records: zigzag, up to 64 bits, and lengths."""

import pytest
from hypothesis import given, strategies as st

from groupsdk.errors import DecodeError, EncodeError
from groupsdk.wire.records.varint import SMALL, SMALL_COUNT, read_length, varint, zigzag


@pytest.mark.parametrize(
    ("value", "encoded"),
    [
        (0, "00"),
        (-1, "01"),
        (63, "7e"),
        (-64, "7f"),
        (64, "8001"),
        (2047, "fe1f"),
        (2048, "8020"),
        (-(2**31), "ffffffff0f"),
        (2**63 - 1, "feffffffffffffffff01"),
    ],
)
def test_numbers_are_zigzag(value: int, encoded: str) -> None:
    assert varint(value).hex() == encoded


@given(st.integers(0, 2**31 - 1) | st.integers(0, 9000), st.binary(max_size=3))
def test_lengths_are_read_back(value: int, rest: bytes) -> None:
    encoded = varint(value)

    assert read_length(b"x" + encoded + rest, 1) == (value, 1 + len(encoded))


def test_the_table_holds_what_would_be_encoded() -> None:
    assert [zigzag(value) for value in range(SMALL_COUNT)] == list(SMALL)
    assert varint(SMALL_COUNT) == zigzag(SMALL_COUNT)


def test_null_is_the_only_negative_length() -> None:
    assert read_length(b"\1", 0) == (None, 1)
    for value in (-2, -64, -65, -(2**63)):
        with pytest.raises(DecodeError, match=f"invalid length {value}; the only"):
            read_length(varint(value), 0)


@pytest.mark.parametrize("encoded", ["ff" * 10, "ff" * 9 + "7f", "ff" * 9 + "02", "ff" * 11])
def test_numbers_of_more_than_64_bits_are_refused(encoded: str) -> None:
    with pytest.raises(DecodeError, match="has more than 64 bits"):
        read_length(bytes.fromhex(encoded), 0)


@pytest.mark.parametrize("size", [0, 1, 5, 9])
def test_a_number_that_is_cut_is_an_index_error(size: int) -> None:
    with pytest.raises(IndexError):
        read_length(b"\xff" * size, 0)


def test_numbers_of_more_than_64_bits_are_not_written() -> None:
    for value in (2**63, -(2**63) - 1):
        with pytest.raises(EncodeError, match=f"the number {value}, which does not fit 64 bits"):
            varint(value)
