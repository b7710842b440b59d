"""Keep what the records of `__consumer_offsets` say of many groups in their last hour, within a limit of memory. Pure."""

from collections import deque
from collections.abc import Callable, Collection, Iterator, Mapping
from dataclasses import dataclass, field, replace
from typing import Final

from groupsdk.errors import DecodeError
from groupsdk.history.explain.commit_spans import CommitPart
from groupsdk.history.explain.timeline.rows import GroupRecord
from groupsdk.verdict.group_log import GroupLog, Leaders, group_of, is_commit, removal
from groupsdk.verdict.observation import LoggedGroup, Past
from groupsdk.wire.coordinator_records.offset_commit import OffsetCommitKey, OffsetCommitValue
from groupsdk.wire.coordinator_records.offsets_log import read_key, read_value
from groupsdk.wire.records.record import Record


KEPT_MS: Final = 3_600_000
_ABSENCES_MS: Final = 8 * 24 * 3_600_000
_ABSENCES: Final = 50
_MOST_BYTES: Final = 64 * 1024 * 1024
_ENTRY_BYTES: Final = 250
"""What Python needs for a record or a partition's commits, besides their bytes."""
_OFFSET: Final = slice(2, 10)
"""Where the value of a commit has the offset, in all its versions."""


@dataclass(slots=True)
class _Commits:
    """The commits of one partition between two other records of its group."""

    first_ms: int
    last_ms: int
    value: bytes
    src_offset: int
    leader_epoch: int
    commits: int = 1


@dataclass(slots=True)
class _Step:
    """A record of the group's state, and the commits until the next one, undecoded."""

    record: GroupRecord | None
    commits: dict[bytes, _Commits] = field(default_factory=dict)

    @property
    def size(self) -> int:
        return _ENTRY_BYTES * (1 + len(self.commits)) + _bytes_of(self.record)


def _bytes_of(record: GroupRecord | None) -> int:
    return 0 if record is None else len(record.key or b"") + len(record.value or b"")


class RecentLog:
    """One group's records of the last hour, in the order of the log, the commits of each partition summed up."""

    def __init__(
        self, group_id: str, partition: int, since_ms: int, leaders: Leaders | None = None
    ) -> None:
        self.group_id = group_id
        self._leaders = leaders
        self.partition = partition
        self.size = 0
        """About how many bytes it holds."""
        self._since_ms = since_ms
        self._base: dict[bytes, GroupRecord] = {}
        """The newest record of each key from before the hour: the state that the hour began with."""
        self._steps: deque[_Step] = deque([_Step(None)])
        self._absences: list[tuple[int, int]] = []
        self._committed_ms: int | None = None
        self._offsets: dict[bytes, bytes] = {}
        """The committed offset of each partition, by its key."""
        self._past: Past | None = None
        """None: it has to be explained again."""

    def take(self, record: Record, leader_epoch: int) -> None:
        """Process the next record of the group."""
        key = record.key or b""
        of_commit = is_commit(key)
        if of_commit and record.value is not None:
            self._commit(key, record.value, record, leader_epoch)
        else:
            entry = GroupRecord(
                *(self.group_id, self.partition, record.offset, record.timestamp),
                *(leader_epoch, record.key, record.value),
            )
            step = _Step(entry)
            self._steps.append(step)
            self.size += step.size
            self._past = None
            if of_commit and self._offsets.pop(key, None) is not None:
                self.size -= _ENTRY_BYTES

    def _commit(self, key: bytes, value: bytes, record: Record, leader_epoch: int) -> None:
        at_ms, offset = record.timestamp, value[_OFFSET]
        before = self._offsets.get(key)
        if before != offset:
            self._committed_ms = at_ms
            self._offsets[key] = offset
            if before is None:
                self.size += _ENTRY_BYTES
        commits = self._steps[-1].commits
        known = commits.get(key)
        if known is not None:
            known.last_ms, known.value, known.src_offset = at_ms, value, record.offset
            known.commits += 1
            return
        commits[key] = _Commits(at_ms, at_ms, value, record.offset, leader_epoch)
        self.size += _ENTRY_BYTES

    def forget(self, before_ms: int) -> None:
        """Drop what was over by then, but keep the state that it led to."""
        while len(self._steps) > 1 and _ms(self._steps[1]) < before_ms:
            self._drop()
        self._since_ms = max(self._since_ms, before_ms)

    def halve(self) -> None:
        """Drop the older half, since it takes too much memory."""
        for _ in range(len(self._steps) // 2):
            self._drop()
        self.size -= _ENTRY_BYTES * len(self._offsets)
        self._offsets.clear()
        if self._steps[0].record is not None:
            self._since_ms = max(self._since_ms, _ms(self._steps[0]))

    def _drop(self) -> None:
        step = self._steps.popleft()
        self.size -= step.size
        self._past = None
        if (record := step.record) is None:
            return
        key = record.key or b""
        self.size -= _bytes_of(self._base.pop(key, None))
        if record.value is not None:
            self._base[key] = record
            self.size += _bytes_of(record)

    @property
    def is_over(self) -> bool:
        """Whether nothing is left of the group but the record that deleted it."""
        record = self._steps[0].record
        if record is None or record.value is not None or len(self._steps) > 1:
            return False
        return self._base.keys() <= {record.key}

    def known(self) -> LoggedGroup:
        """Return what the records tell. Explains them again only after a change of the group's state."""
        if self._past is None:
            log = GroupLog(self.group_id, self._since_ms, leaders=self._leaders)
            for entry in self._entries():
                log.explain(entry)
            self._past, _ = log.close()
            known = {*self._absences, *self._past.absences}
            oldest_ms = self._since_ms + KEPT_MS - _ABSENCES_MS
            self._absences = sorted(e for e in known if e[1] >= oldest_ms)[-_ABSENCES:]
        past = replace(self._past, since_ms=self._since_ms, absences=tuple(self._absences))
        return LoggedGroup(past, self._committed_ms)

    def _entries(self) -> Iterator[GroupRecord | CommitPart]:
        yield from sorted(self._base.values(), key=lambda each: each.offset)
        for step in self._steps:
            if step.record is not None:
                yield _entry(step.record)
            for key, each in step.commits.items():
                part = self._part(key, each)
                if part is not None:
                    yield part

    def _part(self, key: bytes, commits: _Commits) -> CommitPart | None:
        try:
            place = read_key(key)
            if not isinstance(place, OffsetCommitKey):
                return None
            value = read_value(place, commits.value)
        except DecodeError:
            return None
        if not isinstance(value, OffsetCommitValue):
            return None
        return CommitPart(
            *(self.group_id, self.partition, commits.src_offset, commits.leader_epoch),
            *(place.topic, place.partition, commits.first_ms, commits.last_ms),
            *(value.offset, commits.commits),
        )


def _entry(record: GroupRecord) -> GroupRecord | CommitPart:
    """Return a record of the group's state as it is, and the tombstone of a committed offset as what it says."""
    if not is_commit(record.key or b""):
        return record
    try:
        key = read_key(record.key or b"")
    except DecodeError:
        return record
    if not isinstance(key, OffsetCommitKey):
        return record
    return removal(record.group_id, key, record.partition, record.offset, record.ts_ms)


def _ms(step: _Step) -> int:
    return 0 if step.record is None else step.record.ts_ms


class RecentLogs:
    """The logs of all groups that are wanted, with `most_bytes` in all: of the greatest the older half is dropped first."""

    def __init__(self, wanted: Callable[[str], bool], most_bytes: int = _MOST_BYTES) -> None:
        self._wanted = wanted
        self._most_bytes = most_bytes
        self._logs: dict[bytes, RecentLog | None] = {}
        self._leaders = Leaders()

    def take(self, record: Record, partition: int, leader_epoch: int, since_ms: int) -> None:
        """Process the next record of a partition of the log, which is read from `since_ms` on."""
        self._leaders.take(record, partition, leader_epoch)
        group = group_of(record.key or b"")
        if group not in self._logs:
            group_id = group.decode(errors="replace")
            is_wanted = self._wanted(group_id)
            self._logs[group] = (
                RecentLog(group_id, partition, since_ms, self._leaders) if is_wanted else None
            )
        log = self._logs[group]
        if log is not None:
            log.take(record, leader_epoch)

    def lose(self, partitions: Collection[int]) -> None:
        """Forget the groups of partitions of which records were skipped."""
        self._logs = {
            key: log
            for key, log in self._logs.items()
            if log is not None and log.partition not in partitions
        }

    def forget(self, before_ms: int) -> None:
        """Drop what was over by then, and what takes too much memory."""
        for log in [each for each in self._logs.values() if each is not None]:
            log.forget(before_ms)
            if log.is_over:
                self._logs[log.group_id.encode()] = None
        sizes = {log.group_id: log for log in self._logs.values() if log is not None}
        total = sum(log.size for log in sizes.values())
        while total > self._most_bytes:
            greatest = max(sizes.values(), key=lambda each: each.size)
            total -= greatest.size
            greatest.halve()
            total += greatest.size
            if greatest.size * len(sizes) <= self._most_bytes // 2:
                break  # the states alone are that large

    def known(self) -> Mapping[str, LoggedGroup]:
        """Return what is known of each group."""
        return {log.group_id: log.known() for log in self._logs.values() if log is not None}
