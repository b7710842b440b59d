"""Tests the indexes of a segment: by offset, by time, and of aborted transactions; their files are Kafka's."""

from collections.abc import Callable

import pytest
from hypothesis import given, strategies as st

from groupsdk.broker.log.indexes import (
    AbortedTxn,
    CorruptIndexError,
    OffsetIndex,
    TimeIndex,
    TxnIndex,
)


ABORTED = AbortedTxn(7, 10, 20, 21)
ENCODED = "00000000000000000007000000000000000a00000000000000140000000000000015"


def offset_index(data: bytes) -> OffsetIndex:
    return OffsetIndex.decode(data, 100, 91)


def time_index(data: bytes) -> TimeIndex:
    return TimeIndex.decode(data, 100)


def txn_index(data: bytes) -> TxnIndex:
    return TxnIndex.decode(data, 0)


def test_positions_are_found() -> None:
    index = OffsetIndex(100)
    assert index.lookup(500) == (-1, 0)
    for offset, position in ((110, 50), (120, 90), (150, 300)):
        index.append(offset, position)
    assert [index.lookup(each) for each in (100, 110, 119, 120, 999)] == [
        (-1, 0),
        (110, 50),
        (110, 50),
        (120, 90),
        (150, 300),
    ]
    assert [index.before(each) for each in (50, 51, 300, 999)] == [0, 50, 90, 300]
    assert [index.offset_behind(each) for each in (0, 50, 51, 301)] == [110, 110, 120, None]
    index.clear()
    assert len(index.offsets) == 0


def test_offset_index_file_has_kafkas_format() -> None:
    index = OffsetIndex(100)
    index.append(110, 50)
    index.append(120, 90)
    assert index.encode().hex() == "0000000a00000032000000140000005a"
    # what Kafka leaves of a file that it made in advance
    again = OffsetIndex.decode(index.encode() + bytes(32), 100, 91)
    assert again.lookup(999) == (120, 90)
    assert again.encode() == index.encode()


def test_offsets_are_found_below_which_all_is_earlier() -> None:
    index = TimeIndex(100)
    assert index.last == (-1, 100)
    assert index.lookup(5) == 100
    for timestamp, offset in ((1000, 110), (1000, 115), (2000, 120)):
        index.maybe_append(timestamp, offset)
    assert len(index._offsets) == 2
    assert index.last == (2000, 120)
    # a record with exactly the time may be at the entry or before it: the search starts earlier
    assert [index.lookup(each) for each in (999, 1000, 1001, 2000, 2001)] == [
        100,
        100,
        110,
        110,
        120,
    ]
    index.clear()
    assert index.last == (-1, 100)


def test_time_index_file_has_kafkas_format() -> None:
    index = TimeIndex(100)
    index.maybe_append(1000, 110)
    assert index.encode().hex() == "00000000000003e80000000a"
    again = TimeIndex.decode(index.encode() + bytes(24), 100)
    assert again.last == (1000, 110)


def test_overlapping_transactions_are_collected() -> None:
    index = TxnIndex()
    for entry in (AbortedTxn(1, 0, 5, 3), AbortedTxn(2, 3, 9, 10), AbortedTxn(1, 12, 20, 21)):
        index.append(entry)

    def collect(start: int, end: int) -> tuple[list[int], bool]:
        found: list[AbortedTxn] = []
        done = index.collect(start, end, found)
        return [each.last_offset for each in found], done

    assert collect(0, 3) == ([5], True)
    assert collect(4, 10) == ([5, 9], True)
    assert collect(6, 15) == ([9, 20], True)
    assert collect(10, 12) == ([], True)
    assert collect(21, 30) == ([], False)
    index.clear()
    assert collect(0, 30) == ([], False)


def test_txn_index_file_has_kafkas_format() -> None:
    assert ABORTED.encode().hex() == ENCODED
    assert TxnIndex.decode(ABORTED.encode(), 15)._entries == [ABORTED]
    with pytest.raises(CorruptIndexError):
        TxnIndex.decode(ABORTED.encode(), 21)


@pytest.mark.parametrize(
    ("decode", "data"),
    [
        *((offset_index, each) for each in ("00", "0000000a00000032" * 2, "0000000a0000005b")),
        (offset_index, "ffffffff00000001"),
        *((time_index, each) for each in ("00", "00000000000003e80000000a" * 2)),
        (time_index, "00000000000003e8ffffffff"),
        *((txn_index, each) for each in (ENCODED[:-2], ENCODED * 2, "0001" + ENCODED[4:])),
    ],
)
def test_damaged_index_is_refused(decode: Callable[[bytes], object], data: str) -> None:
    with pytest.raises(CorruptIndexError):
        decode(bytes.fromhex(data))


@pytest.mark.parametrize(
    "decode",
    [
        lambda data: OffsetIndex.decode(data, 0, 1000),
        lambda data: TimeIndex.decode(data, 0),
        lambda data: TxnIndex.decode(data, 0),
    ],
    ids=["offset", "time", "txn"],
)
@given(data=st.binary(max_size=140))
def test_any_bytes_are_an_index_or_refused(
    decode: Callable[[bytes], OffsetIndex | TimeIndex | TxnIndex], data: bytes
) -> None:
    try:
        found = decode(data)
    except CorruptIndexError:
        return
    assert data.startswith(found.encode())
    # behind the entries of the other two is what Kafka leaves of a file that it made in advance
    assert not isinstance(found, TxnIndex) or found.encode() == data
