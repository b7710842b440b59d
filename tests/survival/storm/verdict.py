"""Judge a storm by the coordinator's log: which commits went back, who made them, and whose partition it was."""

import json
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from confluent_kafka import Consumer, KafkaError, TopicPartition
from typing_extensions import override

from groupsdk.admin.coordinator_log import OFFSETS_TOPIC, LogEntry, entry_of
from groupsdk.wire.records.record import Record


_AROUND_MS: Final = 4_000
_BEHIND_MS: Final = 500


@dataclass(frozen=True, slots=True)
class Commit:
    """A commit of one partition, as the log has it."""

    at_ms: int
    position: int
    """Its offset in the coordinator's log."""
    offset: int
    author: str
    """The name of the member, and which of its commits it was."""
    owners: tuple[str, ...]
    """The members that owned the partition by the log."""

    @property
    def name(self) -> str:
        return self.author.partition("/")[0]

    @override
    def __str__(self) -> str:
        return f"{self.offset} by {self.author}, owned by {', '.join(self.owners) or 'nobody'}"


@dataclass(frozen=True, slots=True)
class Regression:
    """A committed offset that went back."""

    partition: int
    before: Commit
    after: Commit
    story: tuple[str, ...]
    """What the log and the members said around it, in order of time."""

    @property
    def intruders(self) -> frozenset[str]:
        """The names of the authors that did not own the partition when they committed.

        A coordinator compares epochs and not owners: a library that joins again in the background commits under its
        new epoch what its caller had read under the old one.
        """
        return frozenset(
            each.name for each in (self.before, self.after) if each.name not in each.owners
        )

    @property
    def explained(self) -> bool:
        """Whether another library's member committed what it did not own."""
        return bool(self.intruders) and not any(each.startswith("ours") for each in self.intruders)

    @override
    def __str__(self) -> str:
        what = f"partition {self.partition}: {self.before}; then {self.after}"
        if self.explained:
            return f"{what}: {', '.join(self.intruders)} committed what was not its own"
        return "\n  ".join([what, *self.story])


@dataclass(frozen=True, slots=True)
class Verdict:
    """What came of a storm."""

    authors: Mapping[str, int]
    """How many commits of each member are in the log."""
    regressions: tuple[Regression, ...]

    @property
    def clean(self) -> bool:
        """Whether no committed offset went back but by the doing of another library's member alone."""
        return all(each.explained for each in self.regressions)

    @override
    def __str__(self) -> str:
        count = f"{sum(self.authors.values())} commits {dict(self.authors)}"
        return "\n".join(
            [f"{count}, {len(self.regressions)} went back", *map(str, self.regressions)]
        )


class _Owners:
    """Who owns what, record by record."""

    def __init__(self) -> None:
        self._names: dict[str, str] = {}
        self._has: dict[str, frozenset[int]] = {}

    def replay(self, entry: LogEntry) -> None:
        value, member = entry.value, str(entry.key.get("memberId", ""))
        if entry.record == "GroupMetadata":
            self._has.clear()
            for each in () if value is None else value["members"]:
                self._names[each["memberId"]] = each["clientId"]
                parts = each["assignment"]["parts"]
                self._has[each["memberId"]] = frozenset(int(p.rpartition("-")[2]) for p in parts)
        elif entry.record == "ConsumerGroupMemberMetadata" and value is not None:
            self._names[member] = value["clientId"]
        elif entry.record == "ConsumerGroupCurrentMemberAssignment":
            if value is None:
                self._has.pop(member, None)
            else:
                has = [*value["assignedPartitions"], *value["partitionsPendingRevocation"]]
                self._has[member] = frozenset(p for each in has for p in each["partitions"])

    def name(self, entry: LogEntry) -> str:
        """Return the name of the member that a record is about; "" for none."""
        return self._names.get(str(entry.key.get("memberId", "")), "")

    def of(self, partition: int) -> tuple[str, ...]:
        """Return the members that own a partition."""
        return tuple(
            self._names.get(each, each) for each, has in self._has.items() if partition in has
        )


def judge(entries: Iterable[LogEntry], group: str, folder: Path) -> Verdict:
    """Find the committed offsets of a group that went back."""
    owners = _Owners()
    newest: dict[int, Commit] = {}
    authors: Counter[str] = Counter()
    story: list[tuple[int, int | None, str]] = []
    backwards: list[tuple[int, Commit, Commit]] = []
    for entry in entries:
        if entry.group != group:
            continue
        at, where = entry.timestamp_ms, f"{entry.timestamp_ms} @{entry.offset}"
        owners.replay(entry)
        if entry.record != "OffsetCommit":
            story.append((at, None, f"{where} {entry.record} {owners.name(entry)} {entry.text}"))
        elif entry.value is not None:
            partition, value = int(entry.key["partition"]), entry.value
            commit = Commit(
                at, entry.offset, value["offset"], value["metadata"], owners.of(partition)
            )
            authors[commit.name] += 1
            story.append((at, partition, f"{where} commit {commit}"))
            before = newest.get(partition, commit)
            if commit.offset < before.offset:
                backwards.append((partition, before, commit))
            newest[partition] = commit
    return Verdict(authors, tuple(_told(*each, story, folder) for each in backwards))


def _told(
    partition: int,
    before: Commit,
    after: Commit,
    story: Iterable[tuple[int, int | None, str]],
    folder: Path,
) -> Regression:
    first, last = before.at_ms - _AROUND_MS, after.at_ms + _BEHIND_MS
    lines = [
        (at, line) for at, of, line in story if first <= at <= last and of in (None, partition)
    ]
    for name in sorted({before.name, after.name, *before.owners, *after.owners}):
        for step in _ledger(folder, name):
            offsets = step.get("offsets")
            if first <= step["at"] <= last and (offsets is None or str(partition) in offsets):
                lines.append((step["at"], f"{step['at']} {name}: {json.dumps(step)}"))
    return Regression(partition, before, after, tuple(line for _, line in sorted(lines)))


def _ledger(folder: Path, name: str) -> list[dict[str, Any]]:
    path = folder / f"{name}.jsonl"
    lines = path.read_text(encoding="utf-8").splitlines() if path.exists() else []
    return [json.loads(each) for each in lines if each.endswith("}")]


def offsets_log(servers: str) -> Iterator[LogEntry]:
    """Read the log of a coordinator whose offsets topic has one partition."""
    consumer = Consumer(
        {
            "bootstrap.servers": servers,
            "group.id": "storm-verdict",
            "enable.partition.eof": True,
            "auto.offset.reset": "earliest",
            "isolation.level": "read_uncommitted",
        }
    )
    consumer.assign([TopicPartition(OFFSETS_TOPIC, 0, 0)])
    try:
        while True:
            for message in consumer.consume(500, 1.0):
                error = message.error()
                if error is not None and error.code() == KafkaError._PARTITION_EOF:
                    return
                assert error is None, error
                offset = message.offset()
                assert offset is not None
                record = Record(offset, message.timestamp()[1], message.key(), message.value())
                yield entry_of(record, 0, OFFSETS_TOPIC)
    finally:
        consumer.close()
