"""The time index bounds where a time begins, and its file is Kafka's."""

import pytest
from hypothesis import given, strategies as st

from groupsdk.broker.log.indexes import CorruptIndexError, TimeIndex


def test_offsets_are_found_below_which_all_is_earlier() -> None:
    index = TimeIndex(100)
    assert index.last == (-1, 100)
    assert index.lookup(5) == 100
    for timestamp, offset in ((1000, 110), (1000, 115), (2000, 120)):
        index.maybe_append(timestamp, offset)
    assert len(index) == 2
    assert index.last == (2000, 120)
    # a record with exactly the time may be at the entry or before it: the search starts earlier
    assert [index.lookup(each) for each in (999, 1000, 1001, 2000, 2001)] == [
        100,
        100,
        110,
        110,
        120,
    ]
    index.truncate(120)
    assert index.last == (1000, 110)
    index.clear()
    assert len(index) == 0


def test_time_index_file_has_kafkas_format() -> None:
    index = TimeIndex(100)
    index.maybe_append(1000, 110)
    assert index.encode().hex() == "00000000000003e80000000a"
    again = TimeIndex.decode(index.encode() + bytes(24), 100)
    assert again.last == (1000, 110)


@pytest.mark.parametrize("data", ["00", "00000000000003e80000000a" * 2, "00000000000003e8ffffffff"])
def test_damaged_time_index_is_refused(data: str) -> None:
    with pytest.raises(CorruptIndexError):
        TimeIndex.decode(bytes.fromhex(data), 100)


@given(st.binary(max_size=64))
def test_any_bytes_are_a_time_index_or_refused(data: bytes) -> None:
    try:
        index = TimeIndex.decode(data, 0)
    except CorruptIndexError:
        return
    assert index.encode() == data[: len(index) * 12]
