"""Print segments of a coordinator's log as Kafka's `kafka-dump-log.sh` does with its decoders.

The messages of consumers within the records of classic groups are declared here field by field, as they are encoded.
Those who act on them use `groupsdk.wire.consumer_protocol`.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Annotated, Any, ClassVar, Final

from groupsdk.errors import DecodeError
from groupsdk.wire.compiler import decoder
from groupsdk.wire.coordinator_records import declaration
from groupsdk.wire.coordinator_records.declaration import (
    INT16,
    CoordinatorKey,
    CoordinatorValue,
    KeyClasses,
    RecordVersions,
    read_prefix,
)
from groupsdk.wire.coordinator_records.formatter import Json, json_line, to_json
from groupsdk.wire.coordinator_records.group_metadata import GroupMetadataValue
from groupsdk.wire.records.batch import BatchHeader, Buffer, CorruptBatchError, batches, verify
from groupsdk.wire.records.compression import Compression
from groupsdk.wire.records.control import read_marker
from groupsdk.wire.records.record import Record, read_records
from groupsdk.wire.schema import IGNORABLE, Int32, Struct, nullable, since


_CONSUMER_VERSIONS: Final = RecordVersions(3, first_flexible=None, written=3)
_TIMESTAMP_TYPES: Final = ("CreateTime", "LogAppendTime")
_CONTROL_KINDS: Final = {
    2: "LEADER_CHANGE",
    3: "SNAPSHOT_HEADER",
    4: "SNAPSHOT_FOOTER",
    5: "KRAFT_VERSION",
    6: "KRAFT_VOTERS",
}


@dataclass(frozen=True, slots=True)
class TopicPartition(Struct):
    """Name partitions of one topic."""

    topic: str = ""
    partitions: tuple[Int32, ...] = ()


@dataclass(frozen=True, slots=True)
class Subscription(CoordinatorValue):
    """The topics that a consumer wants, and what it owns (Kafka: ConsumerProtocolSubscription)."""

    api: ClassVar[Any] = _CONSUMER_VERSIONS

    topics: tuple[str, ...] = ()
    user_data: Annotated[bytes | None, nullable()] = None
    owned_partitions: Annotated[tuple[TopicPartition, ...], since(1), IGNORABLE] = ()
    generation_id: Annotated[Int32, since(2), IGNORABLE] = -1
    rack_id: Annotated[str | None, since(3), nullable(3), IGNORABLE] = None


@dataclass(frozen=True, slots=True)
class Assignment(CoordinatorValue):
    """The partitions that a consumer is assigned (Kafka: ConsumerProtocolAssignment)."""

    api: ClassVar[Any] = _CONSUMER_VERSIONS

    assigned_partitions: tuple[TopicPartition, ...] = ()
    user_data: Annotated[bytes | None, nullable()] = None


def read_embedded(
    declared: type[CoordinatorValue], data: bytes
) -> tuple[CoordinatorValue, int] | None:
    """Decode a consumer's subscription or assignment. Return it and its version; None if it cannot be decoded.

    Members may send any bytes, so tools show bytes that are not a valid message as they are.

    Args:
        declared: `Subscription` or `Assignment`.
    """
    try:
        version = read_prefix(data, "message")
        if version not in declared.api:
            return None
        found: CoordinatorValue = decoder(declared, version)(data, 2)
    except DecodeError:
        return None
    return found, version


def dump_segment(segment: Buffer, keys: KeyClasses) -> Iterator[str]:
    """Print a segment: a line for each batch, and one for each of its records.

    The tool's first lines, with the name of the file, are left to the caller.

    Raises:
        DecodeError: the segment has bytes that are not a record batch.
        CorruptBatchError: the records of a batch cannot be decoded.
    """
    for header, position in batches(segment):
        yield batch_line(segment, header, position)
        if header.is_control:
            yield from _control_lines(segment, header, position)
            continue
        for record in read_records(segment, position):
            yield _record_head(record, header) + record_text(record, keys)


def batch_line(segment: Buffer, header: BatchHeader, position: int) -> str:
    """Return the line of the batch with this `header` at byte `position` of a `segment`."""
    try:
        verify(segment, header, position)
        is_valid = True
    except CorruptBatchError:
        is_valid = False
    horizon = (
        f"OptionalLong[{header.base_timestamp}]"
        if header.has_delete_horizon
        else "OptionalLong.empty"
    )
    return (
        f"baseOffset: {header.base_offset} lastOffset: {header.last_offset}"
        f" count: {header.records_count} baseSequence: {header.base_sequence}"
        f" lastSequence: {header.last_sequence} producerId: {header.producer_id}"
        f" producerEpoch: {header.producer_epoch}"
        f" partitionLeaderEpoch: {header.partition_leader_epoch}"
        f" isTransactional: {_java(header.is_transactional)} isControl: {_java(header.is_control)}"
        f" deleteHorizonMs: {horizon} position: {position}"
        f" {_TIMESTAMP_TYPES[header.timestamp_type]}: {header.max_timestamp}"
        f" size: {header.size_in_bytes} magic: {header.magic}"
        f" compresscodec: {_codec(header.compression)} crc: {header.crc}"
        f" isvalid: {_java(is_valid)}"
    )


def _codec(compression: int) -> str:
    try:
        return Compression(compression).name.lower()
    except ValueError:
        return str(compression)


def _java(value: bool) -> str:
    return "true" if value else "false"


def _record_head(record: Record, header: BatchHeader) -> str:
    sequence = header._replace(last_offset_delta=record.offset - header.base_offset).last_sequence
    names = ",".join(name for name, _ in record.headers)
    return (
        f"| offset: {record.offset} {_TIMESTAMP_TYPES[header.timestamp_type]}: {record.timestamp}"
        f" keySize: {_size(record.key)} valueSize: {_size(record.value)} sequence: {sequence}"
        f" headerKeys: [{names}]"
    )


def _size(data: bytes | None) -> int:
    return -1 if data is None else len(data)


def _control_lines(segment: Buffer, header: BatchHeader, position: int) -> Iterator[str]:
    for record in read_records(segment, position):
        marker = read_marker(segment, position)
        if marker is None:
            kind = int.from_bytes((record.key or b"")[2:4], signed=True)
            text = f" controlType: {_CONTROL_KINDS.get(kind, 'UNKNOWN')}({kind})"
        else:
            outcome = "COMMIT" if marker.committed else "ABORT"
            text = f" endTxnMarker: {outcome} coordinatorEpoch: {marker.coordinator_epoch}"
        yield _record_head(record, header) + text


def record_text(record: Record, keys: KeyClasses) -> str:
    """Return the text of a record's key and value, or of the error if it cannot be decoded."""
    if record.key is None:
        # where Kafka's tool ends with an error
        return f" key: Error at offset {record.offset}, skipping. The record has no key."
    try:
        key = declaration.read_key(keys, record.key)
        if key is None:
            kind = read_prefix(record.key, "key")
            return f" key: Unknown record type {kind} at offset {record.offset}, skipping."
        return f" key: {_key_text(key)} payload: {_value_text(key, record.value)}"
    except DecodeError as error:
        return f" key: Error at offset {record.offset}, skipping. {error}"


def _key_text(key: CoordinatorKey) -> str:
    return json_line({"type": str(key.record_type), "data": to_json(key, 0)})


def _value_text(key: CoordinatorKey, data: bytes | None) -> str:
    value = declaration.read_value(key, data)
    if value is None or data is None:
        return "<DELETE>"
    (version,) = INT16.unpack_from(data)
    found = to_json(value, version)
    if isinstance(value, GroupMetadataValue) and value.protocol_type == "consumer":
        found["members"] = [
            _with_messages(to_json(member, version), member.subscription, member.assignment)
            for member in value.members
        ]
    return json_line({"version": str(version), "data": found})


def _with_messages(
    member: dict[str, Json], subscription: bytes, assignment: bytes
) -> dict[str, Json]:
    """Put a consumer's messages in the place of their bytes, where they can be read."""
    messages: tuple[tuple[str, type[CoordinatorValue], bytes], ...] = (
        ("subscription", Subscription, subscription),
        ("assignment", Assignment, assignment),
    )
    for name, declared, data in messages:
        found = read_embedded(declared, data)
        if found is not None:
            member[name] = to_json(*found)
    return member
