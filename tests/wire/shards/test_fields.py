"""Holds the fields that messages about shards are made of."""

import struct

import pytest
from hypothesis import given, strategies as st

from groupsdk.errors import DecodeError, EncodeError
from groupsdk.wire.shards.fields import GREATEST_LIST, GREATEST_STRING, Reader, Writer


@given(st.integers(0, 2**63 - 1))
def test_an_unsigned_varint_comes_back(value: int) -> None:
    writer = Writer()
    writer.uvarint(value)

    assert Reader(writer.finish(), "it").uvarint() == value


@pytest.mark.parametrize("value", [-1, 2**63])
def test_a_number_out_of_bounds_is_not_written(value: int) -> None:
    with pytest.raises(EncodeError, match="must be 0 to"):
        Writer().uvarint(value)


@pytest.mark.parametrize(
    ("data", "problem"),
    [
        (b"", "end within a number"),
        (b"\x80", "end within a number"),
        (b"\xff" * 9, "more than 63 bits"),
        (b"\xff" * 20, "more than 63 bits"),
    ],
)
def test_a_number_that_does_not_end_is_refused_with_its_place(data: bytes, problem: str) -> None:
    with pytest.raises(DecodeError, match=f"it: .*{problem}.*, at byte 0"):
        Reader(data, "it").uvarint()


@given(st.lists(st.tuples(st.integers(0, 20), st.integers(0, 2**20 - 1))))
def test_bits_come_back(drawn: list[tuple[int, int]]) -> None:
    width = max((value.bit_length() for _, value in drawn), default=1) or 1
    values = [value for _, value in drawn]
    writer = Writer()
    writer.bits(values, width)
    data = writer.finish()

    assert len(data) == (len(values) * width + 7) // 8
    assert Reader(data, "it").bits(len(values), width) == values


def test_bits_of_no_width_take_no_bytes() -> None:
    assert Reader(b"", "it").bits(3, 0) == [0, 0, 0]


def test_strings_out_of_bounds_are_not_written() -> None:
    writer = Writer()
    with pytest.raises(EncodeError, match=f"an endpoint must have at most {GREATEST_STRING} bytes"):
        writer.string("x" * (GREATEST_STRING + 1), "an endpoint")
    with pytest.raises(EncodeError, match="an endpoint cannot be encoded"):
        writer.string("\ud800", "an endpoint")
    with pytest.raises(EncodeError, match=f"capabilities must be at most {GREATEST_LIST}"):
        writer.strings(["x"] * (GREATEST_LIST + 1), "capabilities")


@pytest.mark.parametrize(
    ("data", "problem"),
    [
        (b"\x05abc", "5 bytes were expected, 3 are left"),
        (b"\x81\x20", "4097 bytes of a string, at most 4096"),
        (b"\x02\xff\xfe", "not UTF-8"),
    ],
)
def test_a_string_that_is_none_is_refused(data: bytes, problem: str) -> None:
    with pytest.raises(DecodeError, match=problem):
        Reader(data, "it").string()


def test_more_strings_than_are_allowed_are_refused_before_they_are_read() -> None:
    with pytest.raises(DecodeError, match="1001 strings, at most 1000"):
        Reader(b"\xe9\x07", "it").strings()


def test_fixed_numbers_come_back() -> None:
    layout = struct.Struct(">hd")
    writer = Writer()
    writer.fixed(layout, 3, 1.5)

    assert Reader(writer.finish(), "it").fixed(layout) == (3, 1.5)
