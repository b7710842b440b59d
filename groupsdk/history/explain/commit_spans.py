"""Sum up a group's commits of each partition during each of its generations."""

import statistics
from collections.abc import ItemsView, Mapping
from itertools import islice
from math import floor
from typing import Final, NamedTuple


TopicPartition = tuple[str, int]

BEFORE: Final = -1
"""The `seq` of what was committed before the first generation, or without any."""
_KEPT: Final = 16
_SAMPLED: Final = 64
"""The usual interval between commits is that of this many partitions."""
STALLED_MS: Final = 2_000
"""A partition that is not committed for longer than this, and than twice its usual interval, stands still."""


def allowance_ms(interval_ms: float) -> float:
    """Return how long a partition that is usually committed at this interval may go without a commit before it stands still."""
    return max(STALLED_MS, 2 * interval_ms)


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
        self._first: dict[TopicPartition, Span] = {}
        self._newest: dict[TopicPartition, Span] = {}

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

    def stalled_ms(self) -> int:
        """Return for how long partitions stood still before the newest generation's first commits, in partition-milliseconds.

        It is the time without a commit beyond `allowance_ms`.
        """
        total = 0.0
        for place, span in self.now.items():
            known = self._last.get(place)
            if not known or span.first_ms is None or known[-1][1] is None:
                continue
            gap_ms = span.first_ms - known[-1][1]
            if gap_ms > STALLED_MS:
                before = self.before.get(place)
                own = None if before is None else before.interval_ms
                usual = max(own or 0.0, span.interval_ms or 0.0) or self.usual_ms()
                total += max(0.0, gap_ms - allowance_ms(usual))
        return round(total)

    def usual_ms(self) -> float:
        """Return the usual interval between commits of a partition in the last two generations; 0 if it is not known."""
        intervals = [
            interval
            for spans in (self.before, self.now)
            for span in islice(spans.values(), _SAMPLED)
            if (interval := span.interval_ms) is not None
        ]
        return statistics.median(intervals) if intervals else 0.0

    def records_per_ms(self) -> float:
        """Return how many records of one partition the group reads in a millisecond."""
        records = time_ms = 0
        for place, last in self._newest.items():
            begin, end = _position(self._first[place]), _position(last)
            if begin is not None and end is not None:
                records += end[1] - begin[1]
                time_ms += end[0] - begin[0]
        return max(0.0, records / time_ms) if time_ms > 0 else 0.0

    def close(self, seq: int) -> ItemsView[TopicPartition, Span]:
        """End the newest generation; returns its spans.

        The last commit of a partition is kept for the last generations that committed it, in one of which its previous owner had it.
        """
        for place, span in self.now.items():
            kept = self._last.setdefault(place, [])
            kept.append((seq, span.last_ms))
            self._first.setdefault(place, span)
            self._newest[place] = span
            if len(kept) > _KEPT:
                del kept[0]
        closed = self.before = self.now
        self.now = {}
        return closed.items()


def _position(span: Span) -> tuple[int, int] | None:
    """Return the time and the offset of the last commit, if both are known."""
    if span.last_ms is None or span.last_offset is None:
        return None
    return span.last_ms, span.last_offset


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
