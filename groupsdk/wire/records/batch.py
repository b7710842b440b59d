"""Read the headers of record batches (message format 2), check them, and change them in place.

A broker writes offset, leader epoch and latest timestamp into the header, and keeps the records as they are once
it has walked over them: see `walk` (Kafka: DefaultRecordBatch).
"""

import struct
from collections.abc import Iterator
from typing import Final, NamedTuple

import google_crc32c

from groupsdk.errors import DecodeError, EncodeError
from groupsdk.limits import MAX_INT32


Buffer = bytes | bytearray | memoryview
"""What record batches are read from; a view has to be of single bytes."""
HEADER_SIZE: Final = 61
"""How many bytes stand before the records of a batch."""
MAGIC: Final = 2
"""The message format that is read and written here."""

COMPRESSION_MASK: Final = 0x07
LOG_APPEND_TIME: Final = 0x08
TRANSACTIONAL: Final = 0x10
CONTROL: Final = 0x20
DELETE_HORIZON: Final = 0x40

LENGTH_END: Final = 12
"""Base offset and length come first; the length counts what follows them."""
CRC_START: Final = 21
"""From here on the checksum covers a batch: offset and leader epoch may change without a new one."""
MAGIC_POSITION: Final = 16

_HEADER: Final = struct.Struct(">qiibIhiqqqhii")
_BASE_OFFSET: Final = struct.Struct(">q")
_LEADER_EPOCH: Final = struct.Struct(">i")
_CRC: Final = struct.Struct(">I")
_ATTRIBUTES: Final = struct.Struct(">h")
_TIMESTAMP: Final = struct.Struct(">q")
_MAX_TIMESTAMP_POSITION: Final = 35
_new_tuple = tuple.__new__  # as the named tuple does, in half the time


class CorruptBatchError(DecodeError):
    """A corrupt record batch: its checksum or its records are invalid."""


class BatchHeader(NamedTuple):
    """The header of a record batch, with fields in the order of the log (Kafka: `DefaultRecordBatch`).

    `partition_leader_epoch`, `producer_id`, `producer_epoch` and `base_sequence` are -1 for none. `magic` is the message
    format, 2, and `crc` the CRC-32C of everything from `attributes` on. `attributes` is a bit field with a property for
    each bit. Record N of the batch has the offset `base_offset` + its delta, up to `last_offset_delta`; compaction may
    leave fewer records, `records_count`. `max_timestamp` is the latest timestamp, in milliseconds since 1970.

    A tuple, as one is read for every batch that is produced, fetched or loaded; creating a frozen dataclass takes four
    times as long.
    """

    base_offset: int
    batch_length: int
    """The number of bytes of the batch after this field."""
    partition_leader_epoch: int
    magic: int
    crc: int
    attributes: int
    last_offset_delta: int
    base_timestamp: int
    """Milliseconds since 1970; with `has_delete_horizon`, the time from which compaction may drop the tombstones."""
    max_timestamp: int
    producer_id: int
    producer_epoch: int
    base_sequence: int
    records_count: int

    @property
    def compression(self) -> int:
        """The compression of the records, a `compression.Compression`."""
        return self.attributes & COMPRESSION_MASK

    @property
    def timestamp_type(self) -> int:
        """0 if the timestamps are the producer's; 1 if all are `max_timestamp`, the time of the append."""
        return 1 if self.attributes & LOG_APPEND_TIME else 0

    @property
    def is_transactional(self) -> bool:
        """Return whether the batch belongs to a transaction of its producer."""
        return self.attributes & TRANSACTIONAL != 0

    @property
    def is_control(self) -> bool:
        """Return whether the batch holds a control record, such as the end of a transaction."""
        return self.attributes & CONTROL != 0

    @property
    def has_delete_horizon(self) -> bool:
        """Return whether compaction has recorded when the batch's tombstones may be deleted."""
        return self.attributes & DELETE_HORIZON != 0

    @property
    def last_offset(self) -> int:
        """The offset of the last record as it was written; it may have been compacted away."""
        return self.base_offset + self.last_offset_delta

    @property
    def last_sequence(self) -> int:
        """The sequence number of the last record; -1 where the producer has none. It wraps to 0."""
        if self.base_sequence < 0:
            return -1
        return self.base_sequence + self.last_offset_delta & MAX_INT32

    @property
    def size_in_bytes(self) -> int:
        """How many bytes the batch takes, its header included."""
        return LENGTH_END + self.batch_length


def read_header(buffer: Buffer, position: int = 0) -> BatchHeader:
    """Decode the header of the batch that starts at byte `position` of `buffer`.

    The buffer need not hold the whole batch: see `batches` and `verify`. Raises DecodeError if the bytes end
    within the header, the message format is not 2, or a length in it is invalid.
    """
    try:
        header: BatchHeader = _new_tuple(BatchHeader, _HEADER.unpack_from(buffer, position))
    except struct.error:
        raise _no_header(buffer, position) from None
    if header.magic != MAGIC:
        raise _other_format(header.magic, position)
    if header.batch_length < HEADER_SIZE - LENGTH_END:
        raise DecodeError(
            f"the record batch at byte {position} has the length {header.batch_length}, where its header"
            f" alone takes {HEADER_SIZE - LENGTH_END}"
        )
    if header.last_offset_delta < 0 or header.records_count < 0:
        raise DecodeError(
            f"the record batch at byte {position} counts {header.records_count} records up to the offset"
            f" delta {header.last_offset_delta}; neither can be negative"
        )
    return header


def _no_header(buffer: Buffer, position: int) -> DecodeError:
    left = len(buffer) - position
    if position >= 0 and left > MAGIC_POSITION and buffer[position + MAGIC_POSITION] in (0, 1):
        return _other_format(buffer[position + MAGIC_POSITION], position)
    return DecodeError(
        f"{max(left, 0)} bytes at byte {position} is too short for the header of a record batch, {HEADER_SIZE} bytes"
    )


def _other_format(magic: int, position: int) -> DecodeError:
    text = (
        f"the record batch at byte {position} has the message format {magic}; only {MAGIC} is read"
    )
    if magic in (0, 1):
        text += ". Kafka wrote 0 and 1 before 0.11: an application on 3.x can rewrite such a log"
    return DecodeError(text)


def batches(buffer: Buffer, start: int = 0) -> Iterator[tuple[BatchHeader, int]]:
    """Iterate over the batches of a log or a fetch response, as pairs of the header and its position.

    Stops without an error at a batch that the buffer does not hold completely: a broker limits the size of a response,
    and a crash may truncate a file. Checksums are not checked: see `verify`. Raises DecodeError if the header of a
    batch is invalid, as with `read_header`.
    """
    end = len(buffer)
    position = start
    while end - position >= LENGTH_END:
        if end - position < HEADER_SIZE:
            # the rest of a batch that is cut, unless it is a whole one of an older format
            if end - position > MAGIC_POSITION and buffer[position + MAGIC_POSITION] in (0, 1):
                raise _other_format(buffer[position + MAGIC_POSITION], position)
            return
        header = read_header(buffer, position)
        following = position + LENGTH_END + header.batch_length
        if following > end:
            return
        yield header, position
        position = following


def verify(buffer: Buffer, header: BatchHeader, position: int = 0) -> None:
    """Check that a batch is complete and matches the checksum in its header.

    Raises CorruptBatchError if the batch is incomplete, or its checksum differs.
    """
    stop = position + LENGTH_END + header.batch_length
    if stop > len(buffer):
        raise CorruptBatchError(
            f"the record batch with base offset {header.base_offset} takes {header.size_in_bytes} bytes,"
            f" of which {len(buffer) - position} are there"
        )
    found = crc32c(memoryview(buffer)[position + CRC_START : stop])
    if found != header.crc:
        raise CorruptBatchError(
            f"the record batch with base offset {header.base_offset} at byte {position} has the checksum"
            f" {found:#010x}, but its header says {header.crc:#010x}"
        )


def place(batch: bytearray, base_offset: int, leader_epoch: int, position: int = 0) -> None:
    """Set the base offset and leader epoch in the header of a batch, in place; the checksum covers neither.

    Args:
        batch: the bytes of one batch, or of several; changed in place.

    Raises:
        EncodeError: one of them does not fit, or the bytes end within the header.
    """
    try:
        _LEADER_EPOCH.pack_into(batch, position + LENGTH_END, leader_epoch)
        _BASE_OFFSET.pack_into(batch, position, base_offset)
    except struct.error as error:
        raise EncodeError(
            f"a record batch cannot be placed at offset {base_offset}, leader epoch {leader_epoch}: {error}"
        ) from error


def stamp(
    batch: bytearray,
    header: BatchHeader,
    max_timestamp_ms: int,
    position: int = 0,
    *,
    log_append_time: bool = False,
) -> BatchHeader:
    """Set the latest timestamp and the timestamp type in the header of a batch. Return the new header.

    The checksum covers both, and is recomputed if one of them changes (Kafka: DefaultRecordBatch.setMaxTimestamp).

    Args:
        batch: the bytes of one batch, or of several; changed in place.
        header: the header of the batch, which must be complete.
        max_timestamp_ms: the latest timestamp of its records, or the time of the append.
        log_append_time: whether it is the time of the append, which all records get
            (`message.timestamp.type=LogAppendTime`).

    Raises:
        EncodeError: the time does not fit.
    """
    attributes = header.attributes & ~LOG_APPEND_TIME | (LOG_APPEND_TIME if log_append_time else 0)
    if (attributes, max_timestamp_ms) == (header.attributes, header.max_timestamp):
        return header
    try:
        _TIMESTAMP.pack_into(batch, position + _MAX_TIMESTAMP_POSITION, max_timestamp_ms)
    except struct.error as error:
        raise EncodeError(f"the timestamp {max_timestamp_ms} of a record batch: {error}") from error
    _ATTRIBUTES.pack_into(batch, position + CRC_START, attributes)
    stop = position + header.size_in_bytes
    crc = crc32c(memoryview(batch)[position + CRC_START : stop])
    _CRC.pack_into(batch, position + CRC_START - 4, crc)
    return header._replace(attributes=attributes, max_timestamp=max_timestamp_ms, crc=crc)


def crc32c(data: Buffer) -> int:
    """Return the CRC-32C (Castagnoli) of `data`, as java.util.zip.CRC32C computes it."""
    # the library takes nothing that could change under it
    checksum: int = google_crc32c.value(data if isinstance(data, bytes) else bytes(data))
    return checksum
