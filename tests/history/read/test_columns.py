"""Numbers and strings, read at many positions at once."""

import datetime

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, strategies as st

from groupsdk.history.read.columns import (
    MAX_VARLONG,
    as_bytes,
    big_endian,
    days,
    slices,
    timestamps,
    varints,
    zigzag,
)
from groupsdk.history.times import LAST_MS
from groupsdk.wire.records.varint import varint


@given(st.lists(st.integers(-(2**31), 2**31 - 1), min_size=1, max_size=20))
def test_varints_are_read_as_they_were_written(numbers: list[int]) -> None:
    parts = [varint(number) for number in numbers]
    starts = np.cumsum([0, *map(len, parts)])[:-1].astype(np.int64)
    values, after, too_long = varints(as_bytes(b"".join(parts)), starts)
    assert zigzag(values).tolist() == numbers
    assert (after - starts).tolist() == [len(part) for part in parts]
    assert not too_long.any()


@given(st.integers(-(2**62), 2**62 - 1))
def test_long_numbers_are_read_where_they_are_asked_for(number: int) -> None:
    values, _, too_long = varints(as_bytes(varint(number)), np.array([0]), MAX_VARLONG)
    assert zigzag(values).tolist() == [number]
    assert not too_long.any()


def test_a_number_of_too_many_bytes_is_marked() -> None:
    data = as_bytes(bytes([0x80, 0x80, 0x80, 0x80, 0x80, 0x00, 0x04]))
    _, _, too_long = varints(data, np.array([0, 6]))
    assert too_long.tolist() == [True, False]


def test_positions_behind_the_end_are_no_error() -> None:
    values, after, _ = varints(as_bytes(b"\x02"), np.array([0, 5]))
    assert values.tolist() == [2, 2]
    assert after.tolist() == [1, 6]
    assert big_endian(b"\x00\x01\x02", "i2", np.array([1, 99])).tolist() == [258, 258]
    assert big_endian(b"\x00", "i2", np.array([0])).tolist() == [0]


@pytest.mark.parametrize(("kind", "size"), [("i1", 1), ("i2", 2), ("i4", 4), ("i8", 8)])
def test_numbers_stand_with_the_highest_byte_first(kind: str, size: int) -> None:
    data = b"".join(number.to_bytes(size, signed=True) for number in (-2, 5, 127))
    found = big_endian(data, kind, np.array([2 * size, 0, size]))
    assert found.tolist() == [127, -2, 5]


def test_strings_are_cut_out_between_gaps() -> None:
    found = slices(b"xxabyycdez", np.array([2, 6, 9]), np.array([2, 3, 0]))
    assert found.to_pylist() == [b"ab", b"cde", b""]
    missing = np.array([False, True, False])
    found = slices(b"xxabyycdez", np.array([2, 6, 9]), np.array([2, 0, 1]), missing)
    assert found.to_pylist() == [b"ab", None, b"z"]
    assert slices(b"", np.array([], np.int64), np.array([], np.int64)).to_pylist() == []


def test_times_are_utc_with_their_milliseconds() -> None:
    found = timestamps(np.array([1_500, -1, LAST_MS, LAST_MS + 1, 2**62])).cast(
        pa.timestamp("us", tz="UTC")
    )
    assert found.null_count == 3
    assert found[0].as_py() == datetime.datetime(1970, 1, 1, 0, 0, 1, 500_000, tzinfo=datetime.UTC)
    assert found[2].as_py().year == 9999


def test_days_change_at_midnight_utc() -> None:
    found = days(np.array([86_399_999, 86_400_000, -1]))
    assert found.to_pylist() == [datetime.date(1970, 1, 1), datetime.date(1970, 1, 2), None]
