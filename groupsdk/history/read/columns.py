"""Read numbers and strings at many positions of one buffer at once."""

from typing import Any, Final

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from groupsdk.history.times import LAST_MS


Longs = npt.NDArray[np.int64]
Flags = npt.NDArray[np.bool_]
Bytes = npt.NDArray[np.uint8]

MAX_VARINT: Final = 5
"""How many bytes a 32-bit number takes at most, seven bits each."""
MAX_VARLONG: Final = 9
"""How many bytes are read of a 64-bit number: times that take a tenth lie hundreds of centuries away."""

_MS_A_DAY: Final = 86_400_000
_CONTINUES: Final = 128


def as_bytes(data: bytes) -> Bytes:
    return np.frombuffer(data, dtype=np.uint8)


def varints(data: Bytes, positions: Longs, most: int = MAX_VARINT) -> tuple[Longs, Longs, Flags]:
    """Read the unsigned variable-length number at every position, of at most `most` bytes.

    Returns the numbers, the positions behind them, and which took more bytes. Positions behind the end are read as the last byte: the
    caller finds out by where they lead.
    """
    last = len(data) - 1
    first = data[np.minimum(positions, last)]
    values = (first & 127).astype(np.int64)
    after = positions + 1
    too_long = np.zeros(len(positions), dtype=np.bool_)
    more = np.flatnonzero(first >= _CONTINUES)
    shift = 7
    while len(more):
        if shift == 7 * most:
            too_long[more] = True
            break
        byte = data[np.minimum(after[more], last)]
        values[more] |= (byte & 127).astype(np.int64) << shift
        after[more] += 1
        more = more[byte >= _CONTINUES]
        shift += 7
    return values, after, too_long


def zigzag(values: Longs) -> Longs:
    """Undo the zigzag coding of signed numbers, in which 0, -1, 1, -2 are 0, 1, 2, 3."""
    return (values >> 1) ^ -(values & 1)


def big_endian(data: bytes, kind: str, positions: Longs) -> Longs:
    """Read the signed number of `kind` ("i1", "i2", "i4" or "i8") at every position, over the end as far before it as need be."""
    dtype = np.dtype(">" + kind)
    count = len(data) - dtype.itemsize + 1
    if count <= 0:
        return np.zeros(len(positions), dtype=np.int64)
    view = np.ndarray((count,), dtype=dtype, buffer=data, strides=(1,))
    return view[np.clip(positions, 0, count - 1)].astype(np.int64)


def slices(data: bytes, starts: Longs, sizes: Longs, missing: Flags | None = None) -> Any:
    """Cut a `pyarrow.BinaryArray` out at ascending starts, none before the end of the one before it; some are null instead.

    The buffer is copied once, and no string apart.
    """
    count = len(starts)
    if count == 0:
        return pa.array([], type=pa.binary())
    # an Arrow string array is one buffer with offsets: every second string here is a gap
    borders = np.empty(2 * count, dtype=np.int32)
    borders[0::2] = starts
    borders[1::2] = starts + sizes
    every = pa.BinaryArray.from_buffers(
        pa.binary(), 2 * count - 1, [None, pa.py_buffer(borders), pa.py_buffer(data)]
    )
    return every.take(pa.array(np.arange(0, 2 * count, 2, dtype=np.int64), mask=missing))


def timestamps(milliseconds: Longs) -> Any:
    """Convert milliseconds to UTC timestamps; null if missing (-1) or out of range."""
    wrong = (milliseconds < 0) | (milliseconds > LAST_MS)
    return pa.array(
        np.where(wrong, 0, milliseconds) * 1000, type=pa.timestamp("us", tz="UTC"), mask=wrong
    )


def days(milliseconds: Longs) -> Any:
    """Convert milliseconds to UTC dates; null as in `timestamps`."""
    wrong = (milliseconds < 0) | (milliseconds > LAST_MS)
    whole = (np.where(wrong, 0, milliseconds) // _MS_A_DAY).astype(np.int32)
    return pa.array(whole, type=pa.date32(), mask=wrong)
