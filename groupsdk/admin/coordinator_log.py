"""Read the logs of the coordinators, `__consumer_offsets` and `__transaction_state`, record by record.

From the bytes of batches, whether a broker sent them or a file holds them; without Spark. What is read becomes a
`LogEntry`, which a command writes as a line or as JSON.
"""

import heapq
import json
import re
from base64 import urlsafe_b64decode
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from datetime import UTC, datetime
from enum import StrEnum
from pathlib import Path
from typing import Any, Final
from urllib.parse import unquote, urlsplit
from uuid import UUID

from groupsdk.admin.descriptions import read_assignment, read_subscription
from groupsdk.admin.log_text import TopicNames, describe_record
from groupsdk.errors import ConfigError, DecodeError
from groupsdk.wire.coordinator_records import declaration, offsets_log, transaction_log
from groupsdk.wire.coordinator_records.consumer_group import ConsumerGroupPartitionMetadataValue
from groupsdk.wire.coordinator_records.formatter import (
    format_group_metadata,
    format_offset,
    format_transaction,
    to_json,
)
from groupsdk.wire.coordinator_records.group_metadata import GroupMetadataValue
from groupsdk.wire.coordinator_records.offset_commit import LegacyOffsetCommitKey, OffsetCommitKey
from groupsdk.wire.coordinator_records.transaction_log import TransactionLogKey
from groupsdk.wire.records.batch import BatchHeader, batches, verify
from groupsdk.wire.records.batch_walk import BatchWalk
from groupsdk.wire.records.control import read_marker
from groupsdk.wire.records.record import Record, read_records


OFFSETS_TOPIC: Final = "__consumer_offsets"
TRANSACTIONS_TOPIC: Final = "__transaction_state"
KEYS: Final[Mapping[str, declaration.KeyClasses]] = {
    OFFSETS_TOPIC: offsets_log.KEYS,
    TRANSACTIONS_TOPIC: transaction_log.KEYS,
}
"""The schemas of the keys of each log."""

_SEGMENT: Final = re.compile(r"\d{20}\.log")
_FOLDER: Final = re.compile(r"(__consumer_offsets|__transaction_state)-(\d+)")
_LAST_MS: Final = 253_402_300_799_999  # of the year 9999, the last that can be written
_ARCHIVE: Final = "raw_records"
_MARKER: Final = "EndTxnMarker"
_TOPIC_ID: Final = re.compile(r"topic_id:\s+([A-Za-z0-9_-]{22})")
_METADATA_BYTES: Final = 1_000


class EntryKind(StrEnum):
    """The kind of a coordinator log record."""

    OFFSET = "offset"
    GROUP = "group"
    TRANSACTION = "transaction"
    """A record of `__transaction_state`, or the end of a transaction that committed offsets."""
    UNKNOWN = "unknown"
    """A record type of a newer broker, or bytes that cannot be read."""


_FORMATTERS: Final[Mapping[EntryKind, Callable[[bytes | None, bytes | None], str | None]]] = {
    EntryKind.OFFSET: format_offset,
    EntryKind.GROUP: format_group_metadata,
    EntryKind.TRANSACTION: format_transaction,
}


@dataclass(frozen=True, slots=True, kw_only=True)
class LogEntry:
    partition: int
    offset: int
    timestamp_ms: int
    kind: EntryKind
    record: str
    """The record type in Kafka's words, such as "OffsetCommit" or "ConsumerGroupMemberMetadata"."""
    group: str | None = None
    """The group or transactional id; None for the end of a transaction."""
    key: Mapping[str, Any] = field(default_factory=dict)
    """The key in the form of Kafka's JSON."""
    value: Mapping[str, Any] | None = None
    """The value likewise, members' bytes decoded; None for a tombstone."""
    producer_id: int = -1
    """The producer id of the transaction that the record belongs to; -1 for none."""
    text: str = ""
    """A human-readable description of the record."""
    problem: str | None = None
    """The reason why the record could not be decoded."""
    raw: Record | None = field(default=None, repr=False, compare=False)
    """The record as the log has it; None for a batch that could not be read."""

    @property
    def line(self) -> str:
        """The record in a line, as `groupsdk log` writes it."""
        moment = datetime.fromtimestamp(self.timestamp_ms / 1000, UTC)
        when = moment.isoformat(timespec="milliseconds").replace("+00:00", "Z")
        part_of = f" (producer {self.producer_id})" if self.producer_id >= 0 else ""
        return f"{when} {self.partition}@{self.offset} {self.record} {self.text}{part_of}"


def kafka_line(entry: LogEntry) -> str | None:
    """Return the line that Kafka's message formatters print of a record (kafka-console-consumer.sh); None where they print none.

    They print committed offsets, classic groups and transactional ids, each its own.
    """
    formatter = _FORMATTERS.get(entry.kind)
    if entry.raw is None or formatter is None or entry.record == _MARKER:
        return None
    return formatter(entry.raw.key, entry.raw.value)


def read_entries(
    data: bytes, partition: int, topic: str, start: int = 0, names: TopicNames | None = None
) -> Iterator[LogEntry]:
    """Read the batches of a buffer of a log, up to the first incomplete one.

    An unreadable record becomes an entry with a `problem`, and reading continues after it. `start` is the first offset that is wanted;
    a batch may begin before it. `names` looks up the names of topics by their
    ids. Raises DecodeError if the buffer does not contain a record batch.
    """
    names = TopicNames() if names is None else names
    for header, position in batches(data):
        for each in _batch(data, header, position, partition, topic, names):
            if each.raw is None or each.offset >= start:
                yield each


def _batch(
    data: bytes,
    header: BatchHeader,
    position: int,
    partition: int,
    topic: str,
    names: TopicNames,
) -> Iterator[LogEntry]:
    try:
        verify(data, header, position)
        found = list(read_records(data, position))
    except DecodeError as error:
        yield _unreadable(partition, header.base_offset, header.max_timestamp, str(error))
        return
    for record in found:
        if header.is_control:
            yield _marker(data, header, position, record, partition)
        else:
            producer_id = header.producer_id if header.is_transactional else -1
            yield entry_of(record, partition, topic, producer_id, names)


def next_offset(data: bytes, start: int) -> int:
    """Return the offset after the batches of a buffer; `start` if there are none."""
    return max((header.last_offset + 1 for header, _ in batches(data)), default=start)


def entry_of(
    record: Record,
    partition: int,
    topic: str,
    producer_id: int = -1,
    names: TopicNames | None = None,
) -> LogEntry:
    """Decode one record that is not a transaction marker, of a transactional producer or (-1) none.

    `names` resolves the ids of topics, and learns those that the record itself names.
    """

    def entry(kind: EntryKind, name: str, **more: Any) -> LogEntry:
        return LogEntry(
            partition=partition,
            offset=record.offset,
            timestamp_ms=record.timestamp,
            kind=kind,
            record=name,
            producer_id=producer_id,
            raw=record,
            **more,
        )

    if record.key is None:
        return entry(EntryKind.UNKNOWN, "Unknown", problem="no key", text="a record without a key")
    try:
        key = declaration.read_key(KEYS[topic], record.key)
        if key is None:
            number = declaration.read_prefix(record.key, "key")
            text = f"record type {number} is not known here"
            return entry(EntryKind.UNKNOWN, "Unknown", problem=text, text=text)
        value = declaration.read_value(key, record.value)
    except DecodeError as error:
        return entry(EntryKind.UNKNOWN, "Unknown", problem=str(error), text=str(error))
    names = TopicNames() if names is None else names
    if isinstance(value, ConsumerGroupPartitionMetadataValue):
        names.learn({each.topic_id: each.topic_name for each in value.topics})
    version = 0 if record.value is None else int(declaration.INT16.unpack_from(record.value)[0])
    return entry(
        _kind(key),
        type(key).__name__.removesuffix("Key"),
        group=key.transactional_id
        if isinstance(key, TransactionLogKey)
        else getattr(key, "group", None) or getattr(key, "group_id", None),
        key=to_json(key, 0),
        value=None if value is None else _value_json(value, version),
        text=describe_record(key, value, names),
    )


def _kind(key: declaration.CoordinatorKey) -> EntryKind:
    if isinstance(key, (OffsetCommitKey, LegacyOffsetCommitKey)):
        return EntryKind.OFFSET
    return EntryKind.TRANSACTION if isinstance(key, TransactionLogKey) else EntryKind.GROUP


def _unreadable(partition: int, offset: int, timestamp_ms: int, problem: str) -> LogEntry:
    return LogEntry(
        partition=partition,
        offset=offset,
        timestamp_ms=min(max(timestamp_ms, 0), _LAST_MS),
        kind=EntryKind.UNKNOWN,
        record="Batch",
        text=problem,
        problem=problem,
    )


def _marker(
    data: bytes, header: BatchHeader, position: int, record: Record, partition: int
) -> LogEntry:
    marker = read_marker(data, position)
    if marker is None:
        return _control(record, partition, header.producer_id, None, "a control record")
    outcome = "committed" if marker.committed else "aborted"
    text = f"transaction {outcome} by coordinator epoch {marker.coordinator_epoch}"
    return _control(record, partition, header.producer_id, {"committed": marker.committed}, text)


def _control(
    record: Record, partition: int, producer_id: int, value: Mapping[str, Any] | None, text: str
) -> LogEntry:
    return LogEntry(
        partition=partition,
        offset=record.offset,
        timestamp_ms=record.timestamp,
        kind=EntryKind.TRANSACTION,
        record=_MARKER,
        producer_id=producer_id,
        value=value,
        text=text,
        raw=record,
    )


def _value_json(value: declaration.CoordinatorValue, version: int) -> dict[str, Any]:
    found: dict[str, Any] = to_json(value, version)
    if isinstance(value, GroupMetadataValue):
        for shown, member in zip(found["members"], value.members, strict=True):
            protocol = value.protocol or ""
            subscription = read_subscription(value.protocol_type, member.subscription, protocol)
            assignment = read_assignment(
                value.protocol_type, member.assignment, member.subscription, protocol
            )
            shown["subscription"] = {
                "topics": list(subscription.topics),
                "url": subscription.url,
                "other": subscription.other,
            }
            shown["assignment"] = {"parts": list(assignment.parts), "other": assignment.other}
    return found


def find_segment_files(path: Path, topic: str) -> dict[int, list[Path]]:
    """Find a log's segment files at a data directory, a partition's folder, or a segment file, in the order of their offsets.

    Raises ConfigError if there are none.
    """
    if not path.exists():
        raise ConfigError(f"there is no {path}")
    # links that lead nowhere, or in a circle, are no files
    below = [path] if path.is_file() else sorted(path.rglob("*.log"))
    files = [each for each in below if each.is_file()]
    found: dict[int, list[Path]] = {}
    for file in files:
        folder = _FOLDER.fullmatch(file.resolve().parent.name)
        if folder is not None and folder[1] == topic and _SEGMENT.fullmatch(file.name):
            found.setdefault(int(folder[2]), []).append(file)
    for partition, segments in found.items():
        folders = {each.parent for each in segments}
        if len(folders) > 1:
            places = " and ".join(map(str, sorted(folders)))
            raise ConfigError(f"{topic}-{partition} is there twice: {places}; name one of them")
    if not found:
        raise ConfigError(
            f"{path} has no segment files of {topic}; name a data directory (log.dirs of the broker), a"
            f" folder {topic}-0 in it, or one of its .log files"
        )
    return found


def read_segment_files(path: Path, topic: str) -> Iterator[LogEntry]:
    """Read the segment files of a log, the partitions merged by time.

    What cannot be read becomes an entry with a `problem`, and reading continues with the next valid batch.
    """
    files = find_segment_files(path, topic)
    names = TopicNames(_topic_ids({of[0].resolve().parent.parent for of in files.values()}))
    partitions = [_partition(files[number], number, topic, names) for number in sorted(files)]
    return heapq.merge(*partitions, key=lambda entry: entry.timestamp_ms)


def _topic_ids(folders: Iterable[Path]) -> dict[UUID, str]:
    """Read the ids of the topics that have a partition in a broker's data directory (Kafka: partition.metadata)."""
    found = {}
    for file in (each for folder in folders for each in folder.glob("*/partition.metadata")):
        with suppress(OSError):
            head = file.read_bytes()[:_METADATA_BYTES].decode(errors="replace")
            topic_id = _TOPIC_ID.search(head)
            if topic_id is not None:
                name = file.parent.name.rpartition("-")[0]
                found[UUID(bytes=urlsafe_b64decode(f"{topic_id[1]}=="))] = name
    return found


def _partition(
    files: list[Path], partition: int, topic: str, names: TopicNames
) -> Iterator[LogEntry]:
    for file in files:
        yield from _segment(file, partition, topic, names)


def _segment(path: Path, partition: int, topic: str, names: TopicNames) -> Iterator[LogEntry]:
    """Read a segment; what cannot be read is an entry with the time of the batch before it."""
    walk = BatchWalk(int(path.stem))
    latest_ms = 0

    def unread() -> Iterator[LogEntry]:
        for each in walk.take_unread():
            yield _unreadable(partition, each.first_offset, latest_ms, f"{path}: {each.reason}")

    with path.open("rb") as file:
        for data, start, found in walk.pieces(file):
            for header, position, error in found:
                yield from unread()  # what lies before this batch
                if error is None:
                    latest_ms = max(latest_ms, header.max_timestamp)
                    yield from _batch(data, header, position, partition, topic, names)
                else:
                    problem = f"{path} at byte {start + position}: {error}"
                    yield _unreadable(partition, header.base_offset, latest_ms, problem)
            yield from unread()


def read_archive_files(path: Path) -> Iterator[LogEntry]:
    """Read the files of `groupsdk history archive` in time order; requires the package pyarrow."""
    from pyarrow import parquet

    files = _archived(path)
    columns = [
        "src_partition",
        "src_offset",
        "ts",
        "producer_id",
        "transactional",
        "control",
        "key",
        "value",
    ]

    names = TopicNames()

    def rows(file: Path) -> Iterator[LogEntry]:
        for batch in parquet.ParquetFile(file).iter_batches(columns=columns):
            for row in batch.to_pylist():
                yield _archived_entry(row, names)

    # each file holds a short span of several partitions, not in time order
    return heapq.merge(
        *(
            iter(sorted(rows(each), key=lambda e: (e.timestamp_ms, e.partition, e.offset)))
            for each in files
        ),
        key=lambda entry: (entry.timestamp_ms, entry.partition, entry.offset),
    )


def _archived(path: Path) -> list[Path]:
    """List the files of an archive that its writer's log marks as complete."""
    root = path / _ARCHIVE if (path / _ARCHIVE).is_dir() else path
    known = {file.relative_to(root).as_posix(): file for file in root.rglob("*.parquet")}
    if not known:
        raise ConfigError(f"{path} is no archive: it has no {_ARCHIVE}/*.parquet")
    log = root / "_spark_metadata"
    if not log.is_dir():
        return [known[each] for each in sorted(known)]
    numbers = {
        each: int(each.name.split(".")[0]) for each in log.iterdir() if each.name[0].isdigit()
    }
    whole = max((n for each, n in numbers.items() if each.suffix == ".compact"), default=-1)
    complete: set[str] = set()
    for each, number in sorted(numbers.items(), key=lambda item: item[1]):
        if number > whole or (number == whole and each.suffix == ".compact"):
            for line in each.read_text(encoding="utf-8").splitlines()[1:]:
                entry = json.loads(line)
                # the archive may have been moved since it was written
                name = unquote(urlsplit(entry["path"]).path).rpartition(f"/{_ARCHIVE}/")[2]
                (complete.discard if entry.get("action") == "delete" else complete.add)(name)
    if missing := sorted(complete - known.keys()):
        raise ConfigError(f"{root} has lost {missing[0]}, which its {log.name} names")
    return [known[each] for each in sorted(complete)]


def _archived_entry(row: Mapping[str, Any], names: TopicNames) -> LogEntry:
    timestamp = row["ts"]
    moment = timestamp if timestamp.tzinfo else timestamp.replace(tzinfo=UTC)
    timestamp_ms = round(moment.timestamp() * 1000)
    record = Record(row["src_offset"], timestamp_ms, row["key"], row["value"])
    if row["control"]:
        committed = bool(row["key"]) and int.from_bytes(row["key"][2:4]) == 1
        text = f"transaction {'committed' if committed else 'aborted'}"
        value = {"committed": committed}
        return _control(record, row["src_partition"], row["producer_id"], value, text)
    producer_id = row["producer_id"] if row["transactional"] else -1
    return entry_of(record, row["src_partition"], OFFSETS_TOPIC, producer_id, names)


def select(
    entries: Iterable[LogEntry],
    kinds: frozenset[EntryKind],
    wanted: Callable[[str], bool] | None = None,
) -> Iterator[LogEntry]:
    """Keep the entries of the given kinds and of the wanted groups or transactional ids, and unreadable ones."""
    for each in entries:
        if each.kind is EntryKind.UNKNOWN:
            if each.problem is not None and wanted is None:
                yield each
        elif each.kind in kinds and (
            wanted is None or (each.group is not None and wanted(each.group))
        ):
            yield each
