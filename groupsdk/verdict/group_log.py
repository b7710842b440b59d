"""Read a group's past out of its records in `__consumer_offsets`, with the history's rules. Pure."""

from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import pairwise
from typing import Any, Final

from groupsdk.assignment import TopicPartition
from groupsdk.errors import DecodeError
from groupsdk.history.explain.commit_spans import CommitPart
from groupsdk.history.explain.explaining import Context, ExplainedGroup, TableRows
from groupsdk.history.explain.timeline.rows import GroupRecord
from groupsdk.verdict.observation import Past, PastAdvice, PastGeneration, PastMembership
from groupsdk.wire.coordinator_records.offset_commit import OffsetCommitKey, OffsetCommitValue
from groupsdk.wire.coordinator_records.offsets_log import read_key, read_value
from groupsdk.wire.records.record import Record


MEMBERSHIPS: Final = (
    *("group_id", "protocol", "member_id", "instance_id", "client_id", "client_host"),
    *("first_seq", "last_seq", "first_generation", "last_generation", "start_ts", "end_ts"),
    *("stay_ms", "end_reason", "session_timeout_ms", "rebalance_timeout_ms"),
)
DEPARTURES: Final = (
    *("group_id", "seq", "generation", "ts", "member_id", "client_id"),
    *("reason", "confidence", "silence_ms"),
)
GENERATIONS: Final = (
    *("group_id", "protocol", "protocol_type", "incarnation", "seq", "generation", "ts"),
    *("state_ts", "converged_ts", "assignor", "leader", "n_members", "n_partitions"),
    *("primary_cause", "causes", "evidence", "confidence", "reason", "joined", "gone", "changed"),
    *("missing_before", "coordinator_changed", "moved", "balance_stddev", "since_previous_ms"),
    *("commit_gap_ms", "commit_gap_max_ms", "is_empty"),
)
ADVICE: Final = (
    *("group_id", "advice", "setting", "pays", "rebalances", "moves", "revoked"),
    *("spared_ms", "added_ms"),
)
"""The first columns of the history's tables of these names, whose rows `ExplainedGroup` makes."""
_GROUP_AT: Final = 4
_LENGTH: Final = slice(2, _GROUP_AT)


def group_of(key: bytes) -> bytes:
    """Return the group id in a key of the offsets log, undecoded: each key begins with its type and the group."""
    return key[_GROUP_AT : _GROUP_AT + int.from_bytes(key[_LENGTH])]


@dataclass(frozen=True, slots=True)
class Commits:
    """The commits of one partition."""

    changed_ms: int
    """When another offset than before was committed for the last time; the first commit counts."""
    offset: int
    at_marks: tuple[int | None, ...]
    """The committed offset at each mark; None: it is older than what was read."""


@dataclass(slots=True)
class _Commits:
    changed_ms: int
    offset: int
    at_marks: list[int | None] = field(default_factory=list)


class GroupLog:
    """One group's records, in the order of the log. `marks`: times whose committed offsets are wanted, ascending."""

    def __init__(self, group_id: str, since_ms: int, marks: Sequence[int] = ()) -> None:
        self._group_id = group_id
        self._since_ms = since_ms
        self._marks = tuple(marks)
        self._tables: TableRows = defaultdict(list)
        self._group = ExplainedGroup(group_id, Context(), self._tables, Counter())
        self._commits: dict[TopicPartition, _Commits] = {}

    def take(self, record: Record, partition: int, leader_epoch: int) -> None:
        """Process a record of the group; one that cannot be decoded is skipped."""
        try:
            key: Any = read_key(record.key or b"")
            if not isinstance(key, OffsetCommitKey):
                self._group.take(
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

    def _commit(
        self,
        record: Record,
        key: OffsetCommitKey,
        value: OffsetCommitValue,
        partition: int,
        leader_epoch: int,
    ) -> None:
        at_ms = record.timestamp
        self._group.take(
            CommitPart(
                *(self._group_id, partition, record.offset, leader_epoch, key.topic),
                *(key.partition, at_ms, at_ms, value.offset, 1),
            )
        )
        place = TopicPartition(key.topic, key.partition)
        known = self._commits.get(place)
        if known is None:
            known = self._commits[place] = _Commits(at_ms, value.offset)
            known.at_marks = [None if mark < at_ms else value.offset for mark in self._marks]
            return
        if known.offset != value.offset:
            known.offset, known.changed_ms = value.offset, at_ms
        for number, mark in enumerate(self._marks):
            if mark >= at_ms:
                known.at_marks[number] = value.offset

    def close(self) -> tuple[Past, Mapping[TopicPartition, Commits]]:
        """Return what the records tell, and the commits of each partition. Call it once, at the end."""
        self._group.close()
        silences = {row["member_id"]: row for row in _named(DEPARTURES, self._tables["departures"])}
        generations = [*_named(GENERATIONS, self._tables["generations"])]
        memberships = _named(MEMBERSHIPS, self._tables["memberships"])
        past = Past(
            since_ms=self._since_ms,
            generations=tuple(_generation(each) for each in generations),
            memberships=tuple(
                sorted(
                    (
                        _membership(each, silences.get(each["member_id"], {}))
                        for each in memberships
                    ),
                    key=lambda each: (each.start_ms or 0, each.first_seq),
                )
            ),
            absences=tuple(
                (one["ts"] // 1000, other["ts"] // 1000)
                for one, other in pairwise(each for each in generations if each["ts"] is not None)
                if one["is_empty"] and not other["is_empty"]
            ),
            advice=tuple(
                PastAdvice(
                    advice=each["advice"],
                    setting=each["setting"],
                    rebalances=each["rebalances"],
                    spared_ms=each["spared_ms"],
                    added_ms=each["added_ms"],
                )
                for each in _named(ADVICE, self._tables["advice"])
            ),
        )
        return past, {
            place: Commits(each.changed_ms, each.offset, tuple(each.at_marks))
            for place, each in self._commits.items()
        }


def _named(columns: Sequence[str], rows: Iterable[Sequence[Any]]) -> Iterable[dict[str, Any]]:
    for row in rows:
        yield dict(zip(columns, row, strict=False))


def _generation(row: Mapping[str, Any]) -> PastGeneration:
    return PastGeneration(
        seq=row["seq"],
        at_ms=0 if row["ts"] is None else row["ts"] // 1000,
        cause=row["primary_cause"],
        members=row["n_members"],
        assignor=row["assignor"] or "",
        moved=row["moved"],
        gap_ms=row["commit_gap_ms"] or 0,
    )


def _membership(row: Mapping[str, Any], departure: Mapping[str, Any]) -> PastMembership:
    # a member of the first generation was there before it
    is_older = row["first_seq"] == 0 and row["first_generation"] > 1
    return PastMembership(
        client_id=row["client_id"],
        client_host=row["client_host"],
        instance_id=row["instance_id"],
        first_seq=row["first_seq"],
        last_seq=row["last_seq"],
        start_ms=None if row["start_ts"] is None or is_older else row["start_ts"] // 1000,
        end_ms=None if row["end_ts"] is None else row["end_ts"] // 1000,
        reason=row["end_reason"] or "",
        confidence=departure.get("confidence"),
        silence_ms=departure.get("silence_ms"),
        session_ms=_timeout(row["session_timeout_ms"]),
        poll_ms=_timeout(row["rebalance_timeout_ms"]),
    )


def _timeout(value: int | None) -> int | None:
    return None if value is None or value <= 0 else value
