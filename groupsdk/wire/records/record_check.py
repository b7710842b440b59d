"""Check the records of a batch without making them: what a broker does with all that is produced."""

import struct
from collections.abc import Iterator
from typing import Final, NamedTuple

from groupsdk.errors import DecodeError
from groupsdk.wire.records import compression as codecs
from groupsdk.wire.records.batch import HEADER_SIZE, BatchHeader, Buffer
from groupsdk.wire.records.headers import skip_headers
from groupsdk.wire.records.varint import continue_varint, negative_length, read_length


STEP_RECORDS: Final = 4096
"""How many records are walked at once: some milliseconds' work."""
_STEP_BYTES: Final = 64 * 1024
"""From how many bytes on a record with headers ends a step: a header may take two bytes."""
_NULL: Final = 1
_FIRST_KNOWN: Final = 64
_DELTAS: Final = tuple((number % 64 << 1 | 128) << 24 | number >> 6 << 16 for number in range(8192))
"""Where offset deltas of two bytes stand in the first eight bytes of a record; the first 64 take one byte."""
_FAR: Final = 1 << 64
"""Beyond all timestamp deltas, and beyond the first eight bytes of a record."""
_LONG_LENGTH: Final = 1 << 63
"""From here on the first eight bytes of a record begin with a length of two bytes or more."""
_head = struct.Struct(">QB").unpack_from
_MAX_UNKNOWN: Final = 256
"""After so many records of unknown heads and a quarter of all, the rest is walked without a look at heads."""

_Found = tuple[int, int, int, int, bool]
"""Of records that were walked: the position and number behind them, their lowest and highest timestamp delta, and
whether one has no key."""


class _Heads:
    """The heads of records that were found right in one batch: see `_walk_known`."""

    __slots__ = ("known", "repeat", "unknown")

    def __init__(self) -> None:
        self.known: dict[int, tuple[int, int]] = {}
        """The size of a keyless record whose first eight bytes are these, without timestamp and offset delta; and its
        ninth byte, where that belongs to the length of the value, or else -1."""
        self.unknown = 0
        """How many records had another head."""
        self.repeat = True
        """Whether so many have the head of one before that it pays to look."""


class Walked(NamedTuple):
    """What the records of a batch are."""

    earliest: int
    """No record has a timestamp below this one, in milliseconds."""
    latest: int
    """The latest timestamp of a record."""
    keyless: bool
    """Whether a record has no key."""


class IncompleteBatchError(DecodeError):
    """The records of a batch are not as its header counts them, or one is not as its lengths say."""


def body_of(
    batch: Buffer, header: BatchHeader, position: int = 0, max_bytes: int = codecs.MAX_DECOMPRESSED
) -> bytes:
    """Return the records of a batch as bytes, decompressed.

    Args:
        header: the batch's, which has to be there as a whole.
        max_bytes: how much may come out of a compressed batch.

    Raises:
        DecodeError: they are not compressed as the header says, or become more than `max_bytes`.
    """
    body = bytes(memoryview(batch)[position + HEADER_SIZE : position + header.size_in_bytes])
    return codecs.decompress(header.compression, body, max_bytes) if header.compression else body


def walk(body: bytes, header: BatchHeader) -> Iterator[Walked | None]:
    """Check all records of a batch: their lengths, their count, and that their offsets have no gaps.

    Gives None after every `STEP_RECORDS` records, for others to have their turn, and at the end what was
    found. Values and headers' names may be anything.

    Raises:
        IncompleteBatchError: they are not what the header or their own lengths say. (Kafka: InvalidRecordException
            of DefaultRecord.readFrom and of LogValidator.)
    """
    position, done, count = 0, 0, header.records_count
    earliest, latest, keyless = 0, -1, False
    single = LEAST  # how many records are walked one by one before it is tried whether the next ones are alike
    pause = STEP_RECORDS
    heads = _Heads()
    try:
        while done < count:
            if done >= pause:
                yield None
                pause = done + STEP_RECORDS
            run = (
                equal_run(body, position, done, min(pause, count))
                if count - done >= LEAST
                else None
            )
            if run is not None:
                low, high, without = 0, run.latest_delta, run.keyless
                position += run.records * run.size
                stop = done + run.records
                single = LEAST
            else:
                stop = asked = min(done + single, pause, count)
                if done < len(_DELTAS) < stop:
                    stop = asked = len(_DELTAS)
                found = (
                    _walk_known(body, position, done, stop, heads)
                    if done >= _FIRST_KNOWN and stop <= len(_DELTAS) and heads.repeat
                    else _walk(body, position, done, stop)
                )
                position, stop, low, high, without = found
                single *= 2
                if stop < asked:
                    pause = stop
            earliest = min(low, earliest)
            latest = high if high > latest or not done else latest
            keyless = keyless or without
            done = stop
    except IndexError:
        raise IncompleteBatchError(
            f"{len(body)} bytes end within one of the {count} records that the batch counts"
        ) from None
    except IncompleteBatchError:
        raise
    except DecodeError as error:
        raise IncompleteBatchError(str(error)) from error
    if position != len(body):
        raise IncompleteBatchError(
            f"{len(body) - position} bytes are left over behind the last of {count} records"
        )
    base = header.base_timestamp
    yield Walked(base + earliest, base + latest, keyless)


def _walk_known(data: bytes, p: int, first: int, stop: int, heads: _Heads) -> _Found:
    """Walk records in half the time where they have no key, values of all sizes, and timestamps that seldom change.

    All that is to be checked of such a record is in its head, which is its first nine bytes, and in its last one, which
    says that it has no headers. But for timestamp and offset delta heads repeat: one that was right is right again.
    """
    earliest, latest, keyless = 0, -_FAR, False
    time = _FAR  # so that the first record is walked, as with every new time
    left = _STEP_BYTES
    unpack, known = _head, heads.known
    rest = stop
    for delta in _DELTAS[first:stop]:
        try:
            head, ninth = unpack(data, p)
        except struct.error:  # the last records may be shorter
            rest = _number(delta)
            break
        if head < _LONG_LENGTH:
            head >>= 8  # its length takes one byte: as if a 0 were before it
        head -= delta + time
        if head in known:
            size, last = known[head]
            if (last < 0 or last == ninth) and not data[p + size - 1]:
                p += size
                continue
        start = p
        number = _number(delta)
        p, _, low, high, without = _walk(data, p, number, number + 1)
        earliest, latest, keyless = min(earliest, low), max(latest, high), keyless or without
        heads.unknown += 1
        at = start if data[start] > 127 else start - 1
        if _is_plain(data, at, p):
            head += time
            time = data[at + 3] << 32
            known[head - time] = p - start, ninth if data[at + 7] > 127 else -1
        else:
            left -= p - start
        if left < 0:
            return p, number + 1, earliest, latest, keyless
        if heads.unknown > _MAX_UNKNOWN + (number >> 2):
            heads.repeat = False
            rest = number + 1
            break
    if rest < stop:
        p, stop, low, high, without = _walk(data, p, rest, stop)
        earliest, latest, keyless = min(earliest, low), max(latest, high), keyless or without
    return p, stop, earliest, latest, keyless


def _number(delta: int) -> int:
    """Return the number of a record whose offset delta is this one of `_DELTAS`."""
    return delta >> 25 & 63 | (delta >> 16 & 127) << 6


def _is_plain(data: bytes, at: int, end: int) -> bool:
    """Return whether a record that was found right is one whose head tells all that is to be checked of it.

    Its length takes two bytes from `at` on, or one behind it; its timestamp delta takes one byte and is not negative; its
    key is null; the length of its value takes one byte or two; the number of its headers is 0.
    """
    length_end, _, time, _, _, key, value = data[at + 1 : at + 8]
    if length_end > 127 or time > 127 or time & 1 or key != _NULL or value == _NULL:
        return False
    values = at + 8
    if value > 127:
        if data[at] < 128 or data[values] > 127:
            return False
        value += (data[values] << 7) - 128
        values += 1
    return values + (value >> 1) + 1 == end and not data[end - 1]


def _walk(  # noqa: C901 - one loop, for its speed
    data: bytes, p: int, first: int, stop: int
) -> _Found:
    """Walk the records of these numbers, one field after the other.

    The numbers of one and of two bytes are read in place: calls would double the time. A length that runs over
    the end shows at the end.
    """
    highest, lowest, odd_highest = -1, 0, 0
    keyless = False
    enough = p + _STEP_BYTES
    long = continue_varint
    for delta in range(first << 1, stop << 1, 2):
        number = data[p]
        p += 1
        if number > 127:
            byte = data[p]
            if byte < 128:
                number += (byte << 7) - 128
                p += 1
            else:
                number, p = long(data, p, number)
        end = p + (number >> 1)
        if number & 1:
            raise negative_length(number)
        number = data[p + 1]  # behind the attributes, which mean nothing yet
        p += 2
        if number > 127:
            byte = data[p]
            if byte < 128:
                number += (byte << 7) - 128
                p += 1
            else:
                number, p = long(data, p, number)
        if number & 1:
            # before the batch's first timestamp, which is rare
            lowest = max(lowest, number)
            odd_highest = min(odd_highest or number, number)
        elif number > highest:
            highest = number
        number = data[p]
        p += 1
        if number > 127:
            byte = data[p]
            if byte < 128:
                number += (byte << 7) - 128
                p += 1
            else:
                number, p = long(data, p, number)
        if number != delta:
            raise _wrong_delta(number, delta)
        number = data[p]
        p += 1
        if number > 127:
            byte = data[p]
            if byte < 128:
                number += (byte << 7) - 128
                p += 1
            else:
                number, p = long(data, p, number)
        if not number & 1:
            p += number >> 1
        elif number == _NULL:
            keyless = True
        else:
            raise negative_length(number)
        number = data[p]
        p += 1
        if number > 127:
            byte = data[p]
            if byte < 128:
                number += (byte << 7) - 128
                p += 1
            else:
                number, p = long(data, p, number)
        if not number & 1:
            p += number >> 1
        elif number != _NULL:
            raise negative_length(number)
        has_headers = data[p]
        p = skip_headers(data, p, end) if has_headers else p + 1
        if p != end:
            raise IncompleteBatchError(
                f"a record that should end at byte {end} of {len(data)} ends at {p}"
            )
        if has_headers and p > enough:
            stop = (delta >> 1) + 1
            break
    latest = highest >> 1 if highest >= 0 else -(odd_highest >> 1) - 1
    return p, stop, -(lowest >> 1) - 1 if lowest else 0, latest, keyless


def _wrong_delta(number: int, delta: int) -> IncompleteBatchError:
    found = (number >> 1) ^ -(number & 1)
    return IncompleteBatchError(f"record {delta >> 1} of a batch has the offset delta {found}")


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
