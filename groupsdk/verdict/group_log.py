"""Read a group's past out of its records in `__consumer_offsets`, with the history's rules. Pure."""

from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from groupsdk.assignment import TopicPartition
from groupsdk.errors import DecodeError
from groupsdk.history.explain.commit_spans import REMOVED, CommitPart
from groupsdk.history.explain.explaining import Context, ExplainedGroup, TableRows
from groupsdk.history.explain.timeline.rows import GroupRecord
from groupsdk.verdict.observation import Past
from groupsdk.verdict.past_rows import ADVICE, DEPARTURES, GENERATIONS, MEMBERSHIPS, past_of
from groupsdk.wire.coordinator_records.offset_commit import OffsetCommitKey, OffsetCommitValue
from groupsdk.wire.coordinator_records.offsets_log import read_key, read_value
from groupsdk.wire.records.record import Record


_KEPT: Final = frozenset({"generations", "memberships", "departures", "advice"})
"""The tables that the past is made of; the rows of all others are dropped as they come."""
_LAST_COMMIT_VERSION: Final = 1
"""Keys of commits have version 0 or 1."""
_GROUP_AT: Final = 4
_LENGTH: Final = slice(2, _GROUP_AT)


def group_of(key: bytes) -> bytes:
    """Return the group id in a key of the offsets log, undecoded: each key begins with its type and the group."""
    return key[_GROUP_AT : _GROUP_AT + int.from_bytes(key[_LENGTH])]


def is_commit(key: bytes) -> bool:
    return int.from_bytes(key[:2]) <= _LAST_COMMIT_VERSION


def removal(
    group_id: str, key: OffsetCommitKey, partition: int, offset: int, ts_ms: int
) -> CommitPart:
    """Return what a tombstone of a committed offset says, at this offset of a partition of the log."""
    return CommitPart(
        *(group_id, partition, offset, -1, key.topic),
        *(key.partition, ts_ms, ts_ms, None, REMOVED),
    )


class Leaders:
    """Notes when leaders of the log's partitions took over, from the records of all groups."""

    def __init__(self) -> None:
        self.took_over: dict[tuple[int, int], int] = {}
        """When each one wrote its first record, in milliseconds, by partition and leader epoch."""

    def take(self, record: Record, partition: int, leader_epoch: int) -> None:
        """Process the next record of a partition."""
        place = partition, leader_epoch
        if place in self.took_over or record.timestamp < 0:
            return
        # a coordinator removes offsets before it serves any group
        if record.value is not None or not is_commit(record.key or b""):
            self.took_over[place] = record.timestamp


@dataclass(slots=True)
class Commits:
    """The commits of one partition."""

    changed_ms: int
    """When another offset than before was committed for the last time; the first commit counts."""
    offset: int
    at_marks: list[int | None]
    """The committed offset at each mark; None: it is older than what was read."""


class GroupLog:
    """One group's records, in the order of the log.

    `marks`: times whose committed offsets are wanted, ascending. `leaders`: has seen the same records, and those of other groups.
    """

    def __init__(
        self,
        group_id: str,
        since_ms: int,
        marks: Sequence[int] = (),
        leaders: Leaders | None = None,
    ) -> None:
        self._group_id = group_id
        self._since_ms = since_ms
        self._marks = tuple(marks)
        self._tables: TableRows = defaultdict(list)
        context = Context(took_over={} if leaders is None else leaders.took_over)
        self._group = ExplainedGroup(group_id, context, self._tables, Counter())
        self._commits: dict[TopicPartition, Commits] = {}

    def take(self, record: Record, partition: int, leader_epoch: int) -> None:
        """Process a record of the group; one that cannot be decoded is skipped."""
        try:
            key: Any = read_key(record.key or b"")
            if not isinstance(key, OffsetCommitKey):
                self.explain(
                    GroupRecord(
                        *(self._group_id, partition, record.offset, record.timestamp),
                        *(leader_epoch, record.key, record.value),
                    )
                )
                return
            value: Any = read_value(key, record.value)
        except DecodeError:
            return
        if isinstance(value, OffsetCommitValue):
            self._commit(record, key, value, partition, leader_epoch)
        else:
            self.explain(removal(self._group_id, key, partition, record.offset, record.timestamp))

    def explain(self, entry: GroupRecord | CommitPart) -> None:
        """Process the next record of the group's state, or a sum of commits."""
        if self._group.take(entry):
            for name, rows in self._tables.items():
                if name not in _KEPT:
                    rows.clear()

    def _commit(
        self,
        record: Record,
        key: OffsetCommitKey,
        value: OffsetCommitValue,
        partition: int,
        leader_epoch: int,
    ) -> None:
        at_ms = record.timestamp
        self.explain(
            CommitPart(
                *(self._group_id, partition, record.offset, leader_epoch, key.topic),
                *(key.partition, at_ms, at_ms, value.offset, 1),
            )
        )
        place = TopicPartition(key.topic, key.partition)
        known = self._commits.get(place)
        if known is None:
            at_marks = [None if mark < at_ms else value.offset for mark in self._marks]
            self._commits[place] = Commits(at_ms, value.offset, at_marks)
            return
        if known.offset != value.offset:
            known.offset, known.changed_ms = value.offset, at_ms
        for number, mark in enumerate(self._marks):
            if mark >= at_ms:
                known.at_marks[number] = value.offset

    def close(self) -> tuple[Past, Mapping[TopicPartition, Commits]]:
        """Return what the records tell, and the commits of each partition. Call it once, at the end."""
        self._group.close()
        tables = self._tables
        past = past_of(
            self._since_ms,
            generations=_named(GENERATIONS, tables["generations"]),
            memberships=_named(MEMBERSHIPS, tables["memberships"]),
            departures=_named(DEPARTURES, tables["departures"]),
            advice=_named(ADVICE, tables["advice"]),
        )
        return past, self._commits


def _named(columns: Sequence[str], rows: Iterable[Sequence[Any]]) -> Iterable[dict[str, Any]]:
    for row in rows:
        yield dict(zip(columns, row, strict=False))
