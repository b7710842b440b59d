"""Read and write the markers that end transactions (Kafka: EndTransactionMarker, ControlRecordType)."""

import struct
from dataclasses import dataclass
from typing import Final

from groupsdk.errors import DecodeError, EncodeError
from groupsdk.wire.records.batch import Buffer, CorruptBatchError, read_header
from groupsdk.wire.records.record import Record, build_batch, read_records


ABORT: Final = 0
COMMIT: Final = 1

_KEY: Final = struct.Struct(">hh")
_VALUE: Final = struct.Struct(">hi")


@dataclass(frozen=True, slots=True)
class Marker:
    """The end of a transaction in one partition.

    Attributes:
        committed: whether the transaction was committed; otherwise it was aborted.
        coordinator_epoch: the epoch of the transaction coordinator that wrote the marker.
        timestamp: milliseconds since 1970.
    """

    offset: int
    producer_id: int
    producer_epoch: int
    committed: bool
    coordinator_epoch: int
    timestamp: int


def build_marker(
    producer_id: int,
    producer_epoch: int,
    *,
    committed: bool,
    coordinator_epoch: int,
    timestamp_ms: int,
    base_offset: int = 0,
    leader_epoch: int = -1,
) -> bytes:
    """Encode the control batch that ends a producer's transaction in a partition; it takes one offset.

    Args:
        base_offset: the offset in the log; a log sets it, too (`batch.place`).

    Raises:
        EncodeError: a number does not fit its field.
    """
    try:
        value = _VALUE.pack(0, coordinator_epoch)
    except struct.error as error:
        raise EncodeError(f"the coordinator epoch {coordinator_epoch}: {error}") from error
    key = _KEY.pack(0, COMMIT if committed else ABORT)
    return build_batch(
        (Record(base_offset, timestamp_ms, key, value),),
        base_offset,
        leader_epoch,
        producer_id,
        producer_epoch,
        transactional=True,
        control=True,
    )


def read_marker(batch: Buffer, position: int = 0) -> Marker | None:
    """Read the control batch that starts at `position`; None where it is of a kind that ends nothing.

    A batch whose record was compacted away is None, too. Newer versions of key and value are read by
    what they share with the first, as Kafka does.

    Raises:
        DecodeError: the bytes are no control batch that is there as a whole.
        CorruptBatchError: its record is no control record.
    """
    header = read_header(batch, position)
    if not header.is_control:
        raise DecodeError(
            f"the record batch with base offset {header.base_offset} is not a control batch"
        )
    record = next(read_records(batch, position), None)
    if record is None:
        return None
    try:
        version, kind = _KEY.unpack_from(record.key or b"")
        if version < 0:
            raise CorruptBatchError(f"the control record at {record.offset} has version {version}")
        if kind not in (ABORT, COMMIT):
            return None
        version, coordinator_epoch = _VALUE.unpack_from(record.value or b"")
    except struct.error as error:
        raise CorruptBatchError(
            f"the control record at offset {record.offset} is too short: {error}"
        ) from error
    if version < 0:
        raise CorruptBatchError(f"the marker at offset {record.offset} has version {version}")
    return Marker(
        offset=record.offset,
        producer_id=header.producer_id,
        producer_epoch=header.producer_epoch,
        committed=kind == COMMIT,
        coordinator_epoch=coordinator_epoch,
        timestamp=record.timestamp,
    )
