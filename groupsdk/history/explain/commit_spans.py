"""Sum up a group's commits of each partition during each of its generations."""

from collections.abc import ItemsView, Mapping
from math import floor
from typing import Final, NamedTuple


TopicPartition = tuple[str, int]

BEFORE: Final = -1
"""The `seq` of what was committed before the first generation, or without any."""
_KEPT: Final = 16


class CommitPart(NamedTuple):
    """Some or all commits of a partition between two records of its group; `last_offset` is the last committed offset."""

    group_id: str
    src_partition: int
    src_offset: int
    """Of the last of the commits."""
    leader_epoch: int
    topic: str
    partition: int
    first_ms: int | None
    last_ms: int | None
    last_offset: int | None
    commits: int
    """0 if their transaction was aborted; such commits still show that the group was working."""


class Span:
    """The commits of a partition while one generation lasted."""

    __slots__ = ("commits", "first_ms", "last_ms", "last_offset", "src_offset", "src_partition")

    def __init__(self, part: CommitPart) -> None:
        self.first_ms = part.first_ms
        self.last_ms = part.last_ms
        self.last_offset = part.last_offset
        self.src_partition = part.src_partition
        self.src_offset = part.src_offset
        self.commits = part.commits

    def add(self, part: CommitPart) -> None:
        if part.first_ms is not None and (self.first_ms is None or part.first_ms < self.first_ms):
            self.first_ms = part.first_ms
        if part.last_ms is not None and (self.last_ms is None or part.last_ms > self.last_ms):
            self.last_ms = part.last_ms
        if part.src_offset >= self.src_offset:
            self.last_offset, self.src_offset = part.last_offset, part.src_offset
        self.src_partition = min(self.src_partition, part.src_partition)
        self.commits += part.commits

    @property
    def interval_ms(self) -> float | None:
        """The average interval between commits of the partition; None if it was committed only once."""
        if self.commits < 2 or self.first_ms is None or self.last_ms is None:
            return None
        return (self.last_ms - self.first_ms) / (self.commits - 1)


Spans = Mapping[TopicPartition, Span]


class CommitSpans:
    """The spans of one group; holds as much as the group has partitions, for two generations."""

    def __init__(self) -> None:
        self.now: dict[TopicPartition, Span] = {}
        """Of the newest generation."""
        self.before: Spans = {}
        """Of the one before."""
        self.working: dict[tuple[int, int], int] = {}
        """Since when the group commits, by the log's partition and the epoch of its leader, in milliseconds."""
        self._last: dict[TopicPartition, list[tuple[int, int | None]]] = {}

    def take(self, part: CommitPart) -> None:
        if part.first_ms is not None:
            place = part.src_partition, part.leader_epoch
            known = self.working.get(place)
            if known is None or part.first_ms < known:
                self.working[place] = part.first_ms
        if not part.commits:
            return
        of = part.topic, part.partition
        span = self.now.get(of)
        if span is None:
            self.now[of] = Span(part)
        else:
            span.add(part)

    def last_commit(self, place: TopicPartition, seq: int) -> int | None:
        for number, last_ms in reversed(self._last.get(place, ())):
            if number == seq:
                return last_ms
            if number < seq:
                break
        return None

    def gaps(self) -> list[int]:
        """Return for how long partitions had no commit before the newest generation's first one, in milliseconds."""
        found = []
        for place, span in self.now.items():
            known = self._last.get(place)
            if known and span.first_ms is not None and known[-1][1] is not None:
                found.append(span.first_ms - known[-1][1])
        return found

    def close(self, seq: int) -> ItemsView[TopicPartition, Span]:
        """End the newest generation; returns its spans.

        The last commit of a partition is kept for the last generations that committed it, in one of which its previous owner had it.
        """
        for place, span in self.now.items():
            kept = self._last.setdefault(place, [])
            kept.append((seq, span.last_ms))
            if len(kept) > _KEPT:
                del kept[0]
        closed = self.before = self.now
        self.now = {}
        return closed.items()


def median(values: list[int]) -> int | None:
    if not values:
        return None
    ordered = sorted(values)
    middle = len(ordered) // 2
    if len(ordered) % 2:
        return ordered[middle]
    # towards zero, as a cast does
    mean = (ordered[middle - 1] + ordered[middle]) / 2
    return floor(mean) if mean >= 0 else -floor(-mean)
