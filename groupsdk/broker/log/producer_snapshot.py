"""Save and load what a partition knows of its producers (Kafka: the .snapshot files).

A snapshot says how it was at an offset, so that a start has to read the log from there only. It holds the
last batch of each producer, in version 1: checksum, then the producers.
"""

import struct
from collections.abc import Iterable
from typing import Final

from groupsdk.broker.log.producer_state import BatchMetadata, ProducerEntry
from groupsdk.wire.records.checksum import crc32c


_HEAD: Final = struct.Struct(">hI")
_COUNT: Final = struct.Struct(">i")
_ENTRY: Final = struct.Struct(">qhiqiqiq")
_VERSION: Final = 1


class CorruptSnapshotError(ValueError):
    """A snapshot is damaged, or of another version; the log can tell what it should say."""


def encode(entries: Iterable[ProducerEntry]) -> bytes:
    """Write a snapshot."""
    packed = [
        _ENTRY.pack(
            entry.producer_id,
            entry.epoch,
            entry.last_sequence,
            entry.last_offset,
            entry.batches[-1].offset_delta if entry.batches else 0,
            entry.last_timestamp,
            entry.coordinator_epoch,
            -1 if entry.txn_first_offset is None else entry.txn_first_offset,
        )
        for entry in entries
    ]
    body = _COUNT.pack(len(packed)) + b"".join(packed)
    return _HEAD.pack(_VERSION, crc32c(body)) + body


def decode(data: bytes) -> list[ProducerEntry]:
    """Read a snapshot.

    Raises:
        CorruptSnapshotError: it is damaged, or of another version.
    """
    try:
        version, checksum = _HEAD.unpack_from(data)
        (count,) = _COUNT.unpack_from(data, _HEAD.size)
    except struct.error:
        raise CorruptSnapshotError(f"{len(data)} bytes are no producer snapshot") from None
    if version != _VERSION:
        raise CorruptSnapshotError(f"the version {version} is not {_VERSION}")
    found = crc32c(data[_HEAD.size :])
    if found != checksum:
        raise CorruptSnapshotError(f"the checksum is {found:#010x}, not {checksum:#010x}")
    start = _HEAD.size + _COUNT.size
    if count < 0 or len(data) - start != count * _ENTRY.size:
        raise CorruptSnapshotError(f"{count} producers do not take {len(data) - start} bytes")
    return [_entry(*values) for values in _ENTRY.iter_unpack(data[start:])]


def _entry(
    producer_id: int,
    epoch: int,
    last_sequence: int,
    last_offset: int,
    offset_delta: int,
    timestamp: int,
    coordinator_epoch: int,
    txn_first_offset: int,
) -> ProducerEntry:
    batch = BatchMetadata(last_sequence, last_offset, offset_delta, timestamp)
    return ProducerEntry(
        producer_id,
        epoch,
        coordinator_epoch,
        timestamp,
        txn_first_offset if txn_first_offset >= 0 else None,
        (batch,) if last_offset >= 0 else (),
    )
