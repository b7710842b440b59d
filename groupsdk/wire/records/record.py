"""Read and write the records of a batch (Kafka: DefaultRecord, MemoryRecordsBuilder)."""

import struct
from collections.abc import Iterable, Iterator, Sequence
from functools import lru_cache
from itertools import chain, repeat
from typing import Final, NamedTuple

import google_crc32c

from groupsdk.errors import DecodeError, EncodeError
from groupsdk.limits import MAX_INT64
from groupsdk.wire.records import compression as codecs
from groupsdk.wire.records.batch import (
    CONTROL,
    DELETE_HORIZON,
    HEADER_SIZE,
    LOG_APPEND_TIME,
    MAGIC,
    TRANSACTIONAL,
    BatchHeader,
    Buffer,
    CorruptBatchError,
    crc32c,
    read_header,
)
from groupsdk.wire.records.headers import Header, read_headers, write_headers
from groupsdk.wire.records.varint import (
    NULL,
    SMALL,
    SMALL_COUNT,
    continue_varint,
    negative_length,
    varint,
    zigzag,
)


_HEAD: Final = struct.Struct(">qiibI")
_SUMMED: Final = struct.Struct(">hiqqqhii")
_TO_CHECKSUM: Final = 9
"""Behind a batch's length stand leader epoch, magic and checksum."""
_SOME: Final = 8
_MAX_KEPT: Final = 1024
_LEAST_RECORD: Final = 7
"""A record without key, value and headers: every length in one byte."""


class Record(NamedTuple):
    """One record of a batch: its `offset`, timestamp, `key`, `value` and `headers`. None is a null key or value.

    A tuple, as loading a log creates millions of them; a frozen dataclass takes several times as long.
    """

    offset: int
    timestamp: int
    """Milliseconds since 1970."""
    key: bytes | None = None
    value: bytes | None = None
    headers: tuple[Header, ...] = ()


_new_record = tuple.__new__


def build_batch(
    records: Sequence[Record],
    base_offset: int = 0,
    leader_epoch: int = -1,
    producer_id: int = -1,
    producer_epoch: int = -1,
    base_sequence: int = -1,
    *,
    transactional: bool = False,
    control: bool = False,
    compression: int = 0,
    timestamp_type: int = 0,
    last_offset: int | None = None,
    max_timestamp: int | None = None,
    delete_horizon_ms: int | None = None,
) -> bytes:
    """Write a batch of records, which keep their offsets.

    Args:
        records: in ascending order of offset, none below `base_offset`; there may be gaps.
        base_offset: the offset that the deltas of the batch count from.
        leader_epoch: of the partition's leader; -1: not known.
        producer_id: of an idempotent or transactional producer; -1: none.
        base_sequence: the sequence number of the first offset.
        compression: see `Compression`.
        timestamp_type: 1: the time of the log, `max_timestamp`, is that of all records.
        last_offset: the last offset of the batch, where its last record was compacted away.
        max_timestamp: what the header says; otherwise the latest of the records.
        delete_horizon_ms: when compaction may drop the batch's tombstones.

    Raises:
        EncodeError: a number does not fit its field, or offsets do not ascend.
        ValueError: there is no such compression.
    """
    attributes = compression | (LOG_APPEND_TIME if timestamp_type else 0)
    attributes |= (TRANSACTIONAL if transactional else 0) | (CONTROL if control else 0)
    if delete_horizon_ms is not None:
        attributes |= DELETE_HORIZON
        base_timestamp = delete_horizon_ms
    else:
        base_timestamp = records[0].timestamp if records else -1
    try:
        body, latest = _records(records, base_offset, base_timestamp)
        if compression:
            body = codecs.compress(compression, body)
        last = records[-1].offset if records else base_offset
        if last_offset is not None:
            if records and last_offset < last:
                raise EncodeError(
                    f"the last offset {last_offset} is below that of a record, {last}"
                )
            last = last_offset
        return _batch(
            body,
            base_offset,
            leader_epoch,
            _SUMMED.pack(
                *(attributes, last - base_offset, base_timestamp),
                latest if max_timestamp is None else max_timestamp,
                *(producer_id, producer_epoch, base_sequence, len(records)),
            ),
        )
    except struct.error as error:
        raise EncodeError(
            f"a record batch at offset {base_offset} cannot be written: {error}"
        ) from error


def _batch(body: bytes, base_offset: int, leader_epoch: int, summed: bytes) -> bytes:
    covered = summed + body
    size = len(covered) + _TO_CHECKSUM
    return _HEAD.pack(base_offset, size, leader_epoch, MAGIC, crc32c(covered)) + covered


def _records(records: Sequence[Record], base_offset: int, base_timestamp: int) -> tuple[bytes, int]:
    """Encode the records; gives them with the latest of their timestamps, -1 without any."""
    small, top, join = SMALL, SMALL_COUNT, b"".join
    out: list[bytes] = []
    previous = base_offset - 1
    latest = -1
    for offset, timestamp, key, value, headers in records:
        if offset <= previous:
            raise EncodeError(f"the record offset {offset} comes after {previous}")
        previous = offset
        if timestamp > latest:
            latest = timestamp
        delta = offset - base_offset
        time = timestamp - base_timestamp
        key_size = -1 if key is None else len(key)
        value_size = -1 if value is None else len(value)
        body = join(
            (
                b"\0",
                small[time] if 0 <= time < top else zigzag(time),
                small[delta] if delta < top else zigzag(delta),
                small[key_size] if 0 <= key_size < top else zigzag(key_size),
                key or b"",
                small[value_size] if 0 <= value_size < top else zigzag(value_size),
                value or b"",
                write_headers(headers) if headers else b"\0",
            )
        )
        size = len(body)
        out += (small[size] if size < top else zigzag(size), body)
    return join(out), latest


def build_pairs(
    pairs: Sequence[tuple[bytes | None, bytes | None]],
    timestamp: int,
    base_offset: int = 0,
    leader_epoch: int = -1,
    producer_id: int = -1,
    producer_epoch: int = -1,
    base_sequence: int = -1,
    *,
    transactional: bool = False,
    compression: int = 0,
) -> tuple[BatchHeader, bytes]:
    """Encode a batch of records that have one timestamp, consecutive offsets and no headers, as coordinators write.

    Faster than `build_batch`, with the same result. Kafka's coordinators write a `base_sequence` of 0, with a producer
    and without one; no reader looks at it.

    Args:
        base_sequence: the producer's sequence number of the first record; -1 for none.

    Raises:
        EncodeError: a number does not fit its field.
    """
    count = len(pairs)
    if isinstance(pairs, EncodedPairs):
        body = pairs.body
    else:
        body = (_alike(pairs, count) if count >= _SOME else None) or _one_by_one(pairs)
    if compression:
        body = codecs.compress(compression, body)
    # what the checksum covers of the header, and the numbers before it
    end = (
        *(compression | (TRANSACTIONAL if transactional else 0), max(count - 1, 0)),
        *(timestamp, timestamp, producer_id, producer_epoch, base_sequence, count),
    )
    try:
        covered = _SUMMED.pack(*end) + body
        size, crc = len(covered) + _TO_CHECKSUM, google_crc32c.value(covered)
        start = (base_offset, size, leader_epoch, MAGIC, crc)
        header: BatchHeader = tuple.__new__(BatchHeader, start + end)
        return header, _HEAD.pack(*start) + covered
    except struct.error as error:
        raise EncodeError(
            f"a record batch at offset {base_offset} cannot be written: {error}"
        ) from error


class EncodedPairs(list[tuple[bytes, bytes | None]]):
    """Records of one batch that are encoded as they are added, so that `build_pairs` need not encode them at once."""

    __slots__ = ("_parts",)

    def __init__(
        self, pairs: Iterable[tuple[bytes, bytes | None]] = (), parts: Iterable[bytes] = ()
    ) -> None:
        super().__init__(pairs)
        self._parts = list(parts)

    def add(self, pairs: Sequence[tuple[bytes, bytes | None]]) -> None:
        """Add records, and encode them."""
        self._parts.append(_one_by_one(pairs, len(self)))
        self += pairs

    def followed_by(self, pairs: Sequence[tuple[bytes, bytes | None]]) -> "EncodedPairs":
        """Return these records with others behind them."""
        made = EncodedPairs(self, self._parts)
        made.add(pairs)
        return made

    @property
    def body(self) -> bytes:
        """The records as they are in the batch."""
        return b"".join(self._parts)


def _one_by_one(pairs: Sequence[tuple[bytes | None, bytes | None]], first: int = 0) -> bytes:
    small, top = SMALL, SMALL_COUNT
    out: list[bytes] = []
    for count, (key, value) in enumerate(pairs, first):
        # an attributes byte of 0 and a time delta of 0
        body = b"\0\0" + (small[count] if count < top else zigzag(count))
        if key is None:
            body += NULL
        else:
            size = len(key)
            body += (small[size] if size < top else zigzag(size)) + key
        if value is None:
            body += b"\1\0"
        else:
            size = len(value)
            body += (small[size] if size < top else zigzag(size)) + value + b"\0"
        size = len(body)
        out += (small[size] if size < top else zigzag(size), body)
    return b"".join(out)


def _alike(pairs: Sequence[tuple[bytes | None, bytes | None]], count: int) -> bytes | None:
    """Write records whose keys are of one size, and their values, in a third of the time; None: they are not.

    So are the offsets of many partitions of a topic.
    """
    keys, values = zip(*pairs, strict=True)
    try:
        (key_size,), (value_size,) = set(map(len, keys)), set(map(len, values))
    except (ValueError, TypeError):  # of several sizes, or null
        return None
    heads = (_heads if count <= _MAX_KEPT else _heads.__wrapped__)(count, key_size, value_size)
    parts = zip(heads, keys, repeat(varint(value_size)), values, repeat(b"\0"))
    return b"".join(chain.from_iterable(parts))


@lru_cache(maxsize=64)
def _heads(count: int, key_size: int, value_size: int) -> list[bytes]:
    """Make what stands before each key, where all keys and all values are of one size."""
    key_head = varint(key_size)
    size = len(key_head) + key_size + len(varint(value_size)) + value_size + 3
    # an attributes byte of 0 and a time delta of 0; at the end there are no headers
    return [
        varint(size + len(delta)) + b"\0\0" + delta + key_head
        for delta in map(varint, range(count))
    ]


def build_empty(header: BatchHeader) -> bytes:
    """Write what compaction leaves of a batch whose records are all gone.

    The header stays, so that the producer's last sequence number is known still (Kafka:
    DefaultRecordBatch.writeEmptyHeader).
    """
    return build_batch(
        (),
        header.base_offset,
        header.partition_leader_epoch,
        header.producer_id,
        header.producer_epoch,
        header.base_sequence,
        transactional=header.is_transactional,
        control=header.is_control,
        timestamp_type=header.timestamp_type,
        last_offset=header.last_offset,
        max_timestamp=header.max_timestamp,
    )


def read_records(
    batch: Buffer, position: int = 0, *, max_bytes: int = codecs.MAX_DECOMPRESSED
) -> Iterator[Record]:
    """Read the records of the batch that starts at `position`, one after the other.

    What is wrong with the batch as a whole is raised at once, what is wrong with a record when it is that
    record's turn: a few bytes may be decompressed to millions of records, and are never held all at once.
    The checksum is not looked at: see `verify`.

    Args:
        max_bytes: how much may come out of a compressed batch.

    Raises:
        DecodeError: the bytes are no record batch that is there as a whole.
        CorruptBatchError: its records are not what its header says, or cannot be decompressed.
    """
    header = read_header(batch, position)
    stop = position + header.size_in_bytes
    if stop > len(batch):
        raise DecodeError(
            f"the record batch with base offset {header.base_offset} takes {header.size_in_bytes} bytes,"
            f" of which {len(batch) - position} are there"
        )
    body = bytes(batch[position + HEADER_SIZE : stop])
    if header.compression:
        try:
            body = codecs.decompress(header.compression, body, max_bytes)
        except DecodeError as error:
            raise _corrupt(header, error) from error
    if header.records_count * _LEAST_RECORD > len(body):
        raise _corrupt(header, f"{header.records_count} records where {len(body)} bytes are left")
    return read_body(body, header)


def read_body(body: bytes, header: BatchHeader) -> Iterator[Record]:
    """Decode the decompressed records of a batch, `body`: see `walk.body_of`.

    Raises CorruptBatchError if the records do not match the header.
    """
    try:
        yield from _read(body, header)
    except IndexError as error:
        raise _corrupt(header, f"its {len(body)} bytes end within a record") from error
    except DecodeError as error:
        raise _corrupt(header, error) from error


def _corrupt(header: BatchHeader, problem: object) -> CorruptBatchError:
    return CorruptBatchError(f"the record batch with base offset {header.base_offset}: {problem}")


def _read(data: bytes, header: BatchHeader) -> Iterator[Record]:  # noqa: C901 - one loop, for its speed
    count, end = header.records_count, len(data)
    base_offset, last_delta = header.base_offset, header.last_offset_delta
    base_timestamp = header.base_timestamp
    log_time = header.max_timestamp if header.timestamp_type else None
    new, kind, long = _new_record, Record, continue_varint
    if base_offset + last_delta > MAX_INT64:
        raise DecodeError(f"its last offset, {base_offset + last_delta}, does not fit 64 bits")
    p = 0
    for _ in range(count):
        # the numbers of one and of two bytes in place: calls would double the time
        number = data[p]
        p += 1
        if number > 127:
            byte = data[p]
            if byte < 128:
                number += (byte << 7) - 128
                p += 1
            else:
                number, p = long(data, p, number)
        stop = p + (number >> 1)
        if number & 1 or stop > end:
            raise DecodeError(f"a record at byte {p} of {end} runs over the end")
        number = data[p + 1]  # behind the attributes, which mean nothing yet
        p += 2
        if number > 127:
            byte = data[p]
            if byte < 128:
                number += (byte << 7) - 128
                p += 1
            else:
                number, p = long(data, p, number)
        timestamp = base_timestamp + ((number >> 1) ^ -(number & 1))
        number = data[p]
        p += 1
        if number > 127:
            byte = data[p]
            if byte < 128:
                number += (byte << 7) - 128
                p += 1
            else:
                number, p = long(data, p, number)
        delta = number >> 1
        if number & 1 or delta > last_delta:
            raise DecodeError(f"a record's offset delta is not within 0 to {last_delta}")
        number = data[p]
        p += 1
        if number > 127:
            byte = data[p]
            if byte < 128:
                number += (byte << 7) - 128
                p += 1
            else:
                number, p = long(data, p, number)
        if number == 1:
            key = None
        elif number & 1:
            raise negative_length(number)
        else:
            start = p
            p += number >> 1
            key = data[start:p]
        number = data[p]
        p += 1
        if number > 127:
            byte = data[p]
            if byte < 128:
                number += (byte << 7) - 128
                p += 1
            else:
                number, p = long(data, p, number)
        if number == 1:
            value = None
        elif number & 1:
            raise negative_length(number)
        else:
            start = p
            p += number >> 1
            value = data[start:p]
        headers: tuple[Header, ...] = ()
        if data[p]:
            headers, p = read_headers(data, p, stop)
        else:
            p += 1
        if p != stop:
            raise DecodeError(f"a record that should end at byte {stop} of {end} ends at {p}")
        if log_time is not None:
            timestamp = log_time
        yield new(kind, (base_offset + delta, timestamp, key, value, headers))
    if p != end:
        raise DecodeError(f"{end - p} bytes are left over behind the last of {count} records")
