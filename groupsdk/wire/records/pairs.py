"""Read the keys and values of a coordinator's batches, fast: loading a log reads millions of them."""

from collections.abc import Iterator
from typing import Final

from groupsdk.wire.records.batch import HEADER_SIZE, LENGTH_END, BatchHeader


Pair = tuple[bytes, bytes | None]
"""The key and the value of a record."""

_ODD: Final = 1
_SOME: Final = 250
_END: Final = -1


def read_pairs(batch: bytes, header: BatchHeader, position: int = 0) -> Iterator[list[Pair]]:
    """Read the records of a batch that are as a coordinator writes them, some at a time, in half the time of `read_records`.

    Those are uncompressed, with a key, without headers, with lengths below 8,192, and with times less than 64 ms apart.
    It ends before records that are otherwise, or damaged: `read_records` reads them, or says what is wrong.
    """
    p, stop = position + HEADER_SIZE, position + LENGTH_END + header.batch_length
    if header.compression or stop > len(batch):
        return
    left = header.records_count
    while left > 0:
        count = min(left, _SOME)
        pairs: list[Pair] = []
        left -= count
        try:
            p = _read(batch, p, count, header.last_offset_delta << 1, pairs)
        except IndexError:
            return
        if p == _END or (p > stop if left else p != stop):
            return
        yield pairs


def _read(  # noqa: C901 - one loop, for its speed
    data: bytes, p: int, count: int, last_delta: int, pairs: list[Pair]
) -> int:
    """Read some records, and return the position behind them, or _END."""
    add = pairs.append
    for _ in range(count):
        number = data[p]
        p += 1
        if number > 127:
            byte = data[p]
            if byte > 127:
                return _END
            number += (byte << 7) - 128
            p += 1
        end = p + (number >> 1)
        if number & _ODD or data[p + 1] > 127:
            return _END
        number = data[p + 2]  # behind the attributes and the time
        p += 3
        if number > 127:
            byte = data[p]
            number += (byte << 7) - 128
            p += 1
            if byte > 127:
                byte = data[p]
                if byte > 127:
                    return _END
                number += (byte << 14) - (128 << 7)
                p += 1
        if number & _ODD or number > last_delta:
            return _END
        number = data[p]
        p += 1
        if number > 127:
            byte = data[p]
            if byte > 127:
                return _END
            number += (byte << 7) - 128
            p += 1
        if number & _ODD:
            return _END
        start = p
        p += number >> 1
        key = data[start:p]
        number = data[p]
        p += 1
        if number > 127:
            byte = data[p]
            if byte > 127:
                return _END
            number += (byte << 7) - 128
            p += 1
        if number & _ODD:
            if number != _ODD:
                return _END
            add((key, None))
        else:
            start = p
            p += number >> 1
            add((key, data[start:p]))
        if data[p] or p + 1 != end:
            return _END
        p = end
    return p
