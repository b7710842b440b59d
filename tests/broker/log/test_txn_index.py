"""The index of aborted transactions answers what overlaps, and its file is Kafka's."""

import pytest
from hypothesis import given, strategies as st

from groupsdk.broker.log.indexes import AbortedTxn, CorruptIndexError, TxnIndex


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
    assert len(index) == len(index.entries) == 3
    index.clear()
    assert collect(0, 30) == ([], False)


def test_txn_index_file_has_kafkas_format() -> None:
    entry = AbortedTxn(7, 10, 20, 21)
    assert entry.encode().hex() == (
        "00000000000000000007000000000000000a00000000000000140000000000000015"
    )
    assert TxnIndex.decode(entry.encode(), 15).entries == [entry]


def test_damaged_txn_index_is_refused() -> None:
    good = AbortedTxn(7, 10, 20, 21).encode()
    for data, base in ((good[:-1], 0), (good * 2, 0), (b"\0\1" + good[2:], 0), (good, 21)):
        with pytest.raises(CorruptIndexError):
            TxnIndex.decode(data, base)


@given(st.binary(max_size=140))
def test_any_bytes_are_a_txn_index_or_refused(data: bytes) -> None:
    try:
        index = TxnIndex.decode(data, 0)
    except CorruptIndexError:
        return
    assert index.encode() == data
