"""Check records of one size at once: in a batch whose records are alike, a field of all of them is one slice."""

from typing import Final, NamedTuple

from groupsdk.errors import DecodeError
from groupsdk.wire.records.varint import read_length


LEAST: Final = 16
"""Fewer records are checked faster one by one."""
_ONE_BYTE: Final = 64
_TWO_BYTES: Final = 8192
_THREE_BYTES: Final = 1 << 20
"""Below these numbers the offset delta of a record takes so many bytes."""
_EVEN: Final = bytes(range(0, 128, 2))
"""The deltas from 0 to 63, as they are encoded."""
_LOW: Final = bytes(number | 128 for number in _EVEN) * (_TWO_BYTES // _ONE_BYTE + 1)
"""Their first byte where another one follows; repeats every 64 numbers."""
_HIGH: Final = bytes(number >> 6 for number in range(_TWO_BYTES))
_MIDDLE: Final = bytes(number >> 6 | 128 for number in range(_TWO_BYTES))
"""Their second byte; repeats every 8192 numbers."""


def _table(good: range) -> bytes:
    """Make a table for `bytes.translate` that turns the good bytes into 0 and the others into 1."""
    return bytes(byte not in good for byte in range(256))


_LAST: Final = _table(range(128))
_ONLY_EVEN: Final = _table(range(0, 128, 2))
_FIRST_EVEN: Final = _table(range(128, 256, 2))


class EqualRun(NamedTuple):
    """A run of consecutive valid records of equal size; `records` is how many."""

    records: int
    size: int
    """The bytes of each record, its length included."""
    latest_delta: int
    """The highest timestamp delta of them; none is negative."""
    keyless: bool
    """Whether they have no key."""


def equal_run(data: bytes, start: int, first: int, stop: int) -> EqualRun | None:
    """Find how many records from a position on are alike in every length, and have the offset deltas they should.

    The first record that is unlike ends the run, whether it is wrong or only different: it is for the caller to look at.
    The run ends as well where offset deltas begin to take another byte. Records with headers are never in one.

    Args:
        start: where the first one begins.
        first: its number in the batch, which its offset delta has to be.
        stop: the number before which to end.

    Returns:
        None where there are fewer than `LEAST`.
    """
    width = 1 if first < _ONE_BYTE else 2 if first < _TWO_BYTES else 3
    if first >= _THREE_BYTES:
        return None
    try:
        length, body = read_length(data, start)
        times = body + 1  # behind the attributes, which mean nothing yet
        deltas = times + (1 if data[times] < 128 else 2)
        keys = deltas + width
        key_size, key = read_length(data, keys)
        values = key + (key_size or 0)
        value_size, value = read_length(data, values)
        headers = value + (value_size or 0)
        if length is None or headers + 1 != body + length or data[headers]:
            return None
    except (DecodeError, IndexError):
        return None
    size = headers + 1 - start
    end_of_width = _ONE_BYTE if width == 1 else (first | _TWO_BYTES - 1) + 1
    count = min(min(stop, end_of_width) - first, (len(data) - start) // size)
    for at in (*range(start, body), *range(keys, key), *range(values, value), headers):
        column = data[at : at + count * size : size]
        count -= len(column.lstrip(column[:1]))
        if count < LEAST:
            return None

    def column_at(at: int) -> bytes:
        return data[at : at + count * size : size]

    if deltas - times == 1:
        count = _good(column_at(times), _ONLY_EVEN)
        highest = max(column_at(times), default=0)
    else:
        count = min(_good(column_at(times), _FIRST_EVEN), _good(column_at(times + 1), _LAST))
        pairs = zip(column_at(times + 1), column_at(times), strict=True)
        high, low = max(pairs, default=(0, 0))
        highest = high << 7 | low & 127
    if count < LEAST or not _deltas_are_right(data, deltas, size, first, count):
        return None
    return EqualRun(count, size, highest >> 1, key_size is None)


def _good(column: bytes, table: bytes) -> int:
    """Count the bytes up to the first one that a table does not take."""
    found = column.translate(table).find(1)
    return len(column) if found < 0 else found


def _deltas_are_right(data: bytes, at: int, size: int, first: int, count: int) -> bool:
    """Return whether the offset deltas at a position and every `size` bytes on are those of these numbers."""
    column = data[at : at + count * size : size]
    if first < _ONE_BYTE:
        return column == _EVEN[first : first + count]
    start = first % _ONE_BYTE
    if column != _LOW[start : start + count]:
        return False
    column = data[at + 1 : at + 1 + count * size : size]
    if first < _TWO_BYTES:
        return column == _HIGH[first : first + count]
    start = first % _TWO_BYTES
    third = data[at + 2 : at + 2 + count * size : size]
    return column == _MIDDLE[start : start + count] and third.count(first >> 13) == count
