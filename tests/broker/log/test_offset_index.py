"""The offset index finds positions, and its file is Kafka's."""

import pytest
from hypothesis import given, strategies as st

from groupsdk.broker.log.indexes import CorruptIndexError, OffsetIndex


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
    index.truncate(120)
    assert len(index.offsets) == 1
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


@pytest.mark.parametrize(
    "data", ["00", "0000000a00000032" * 2, "0000000a0000005b", "ffffffff00000001"]
)
def test_damaged_offset_index_is_refused(data: str) -> None:
    with pytest.raises(CorruptIndexError):
        OffsetIndex.decode(bytes.fromhex(data), 100, 91)


@given(st.binary(max_size=64))
def test_any_bytes_are_an_offset_index_or_refused(data: bytes) -> None:
    try:
        index = OffsetIndex.decode(data, 0, 1000)
    except CorruptIndexError:
        return
    assert index.encode() == data[: len(index.offsets) * 8]
