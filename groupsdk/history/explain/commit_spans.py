"""Sum up a group's commits of each partition during each of its generations."""

import statistics
from collections.abc import ItemsView, Iterator, Mapping
from itertools import islice
from math import floor
from typing import Final, NamedTuple


TopicPartition = tuple[str, int]

BEFORE: Final = -1
"""The `seq` of what was committed before the first generation, or without any."""
REMOVED: Final = -1
"""As a number of commits: the committed offset was removed, since the topic or the group was deleted, or the offset has expired."""
_KEPT: Final = 16
_SAMPLED: Final = 64
"""The usual interval between commits is that of this many partitions."""
STALLED_MS: Final = 2_000
"""A partition that is not committed for longer than this, and than twice its usual interval, stands still."""
LONG_PAUSE_MS: Final = 10_000
"""Within a generation only longer pauses between commits are seen; reading sums up what lies closer together."""
_ADAPTS: Final = 8
"""After so many pauses of another length, these are the usual ones."""


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
    """0 if their transaction was aborted; such commits still show that the group was working. `REMOVED`: these are none."""


class Standstill(NamedTuple):
    """A time without a commit of a partition that lasted longer than it may; see `allowance_ms`."""

    topic: str
    partition: int
    start_ms: int
    """The last commit before..."""
    end_ms: int
    """...and the first one after."""
    usual_ms: float
    """The usual interval between commits."""
    stalled_ms: float
    """The time beyond the allowance."""


class Span:
    """The commits of a partition while one generation lasted."""

    __slots__ = (
        *("commits", "first_ms", "last_ms", "last_offset", "src_offset", "src_partition"),
        *("is_over", "pauses", "pauses_ms"),
    )

    def __init__(self, part: CommitPart) -> None:
        self.first_ms = part.first_ms
        self.last_ms = part.last_ms
        self.last_offset = part.last_offset
        self.src_partition = part.src_partition
        self.src_offset = part.src_offset
        self.commits = part.commits
        # the intervals of more than LONG_PAUSE_MS
        self.pauses = self.pauses_ms = 0
        self.is_over = False
        """Whether the committed offset was removed, and no other one was committed since."""

    def pause_before(self, part: CommitPart) -> int | None:
        """Return the time between the last commit and those of a part that follows; None if it is not known."""
        if part.first_ms is None or self.last_ms is None or self.is_over:
            return None
        return part.first_ms - self.last_ms

    def add(self, part: CommitPart) -> None:
        pause_ms = self.pause_before(part)
        if pause_ms is not None and pause_ms > LONG_PAUSE_MS:
            self.pauses += 1
            self.pauses_ms += pause_ms
        self.is_over = False
        if part.first_ms is not None and (self.first_ms is None or part.first_ms < self.first_ms):
            self.first_ms = part.first_ms
        if part.last_ms is not None and (self.last_ms is None or part.last_ms > self.last_ms):
            self.last_ms = part.last_ms
        if part.src_offset >= self.src_offset:
            self.last_offset, self.src_offset = part.last_offset, part.src_offset
        self.src_partition = min(self.src_partition, part.src_partition)
        self.commits += part.commits

    @property
    def lasted_ms(self) -> int:
        """The time from the first commit to the last; 0 if it is not known."""
        return 0 if self.first_ms is None or self.last_ms is None else self.last_ms - self.first_ms

    @property
    def interval_ms(self) -> float | None:
        """The average interval between commits of the partition; None if it was committed only once."""
        if self.commits < 2 or self.first_ms is None or self.last_ms is None:
            return None
        return (self.last_ms - self.first_ms) / (self.commits - 1)


Spans = Mapping[TopicPartition, Span]


class Progress:
    """What a group has committed of one partition."""

    __slots__ = ("commits", "first", "first_ms", "is_removed", "newest", "pause_ms", "stalled_ms")

    def __init__(self, span: Span) -> None:
        self.first = self.newest = span
        self.first_ms = span.first_ms
        self.commits = 0
        self.stalled_ms = 0.0
        self.is_removed = False
        """Whether its committed offset was removed at last."""
        self.pause_ms: float | None = None
        """The usual length of its pauses that are longer than `LONG_PAUSE_MS`."""

    def learn(self, pause_ms: int) -> None:
        known = self.pause_ms
        if known is None:
            self.pause_ms = pause_ms
        else:
            self.pause_ms = known + (min(pause_ms, 2 * known) - known) / _ADAPTS

    @property
    def usual_ms(self) -> float | None:
        """The average interval between commits; None if there was one."""
        last_ms = self.newest.last_ms
        if self.commits < 2 or self.first_ms is None or last_ms is None:
            return None
        return (last_ms - self.first_ms) / (self.commits - 1)


class CommitSpans:
    """The spans of one group; holds as much as the group has partitions, for two generations."""

    def __init__(self) -> None:
        self.now: dict[TopicPartition, Span] = {}
        """Of the newest generation."""
        self.before: Spans = {}
        """Of the one before."""
        self.working: dict[tuple[int, int], int] = {}
        """Since when the group commits, by the log's partition and the epoch of its leader, in milliseconds."""
        self.partitions: dict[TopicPartition, Progress] = {}
        """Of all generations."""
        self.removed: set[str] = set()
        """The topics of which committed offsets were removed in the newest generation or the one before."""
        self._removed_now: set[str] = set()
        self._last: dict[TopicPartition, list[tuple[int, int | None]]] = {}

    def take(self, part: CommitPart) -> Standstill | None:
        """Add commits; returns the standstill that they end, if it began in this generation."""
        if part.commits == REMOVED:
            self._remove(part.topic, part.partition)
            return None
        if part.first_ms is not None:
            place = part.src_partition, part.leader_epoch
            known = self.working.get(place)
            if known is None or part.first_ms < known:
                self.working[place] = part.first_ms
        if not part.commits:
            return None
        of = part.topic, part.partition
        span = self.now.get(of)
        if span is None:
            span = self.now[of] = Span(part)
            self.partitions.setdefault(of, Progress(span)).is_removed = False
            return None
        self.partitions[of].is_removed = False
        found = None
        pause_ms = span.pause_before(part)
        if pause_ms is not None and pause_ms > LONG_PAUSE_MS:
            found = self._pause(of, span, part, pause_ms)
        span.add(part)
        return found

    def _remove(self, topic: str, partition: int) -> None:
        """Forget when a partition was committed: nothing is to be read of it, until it is committed again."""
        of = topic, partition
        self.removed.add(topic)
        self._removed_now.add(topic)
        span, known = self.now.get(of), self.partitions.get(of)
        if span is not None:
            span.is_over = True
        if known is not None:
            known.is_removed = True
        self._last.pop(of, None)

    def _pause(
        self, of: TopicPartition, span: Span, part: CommitPart, pause_ms: int
    ) -> Standstill | None:
        """Judge a pause within a generation by what is usual in it and in the one before; the first one may be usual."""
        known = self.partitions[of]
        usual = known.pause_ms
        spans = [each for each in (self.before.get(of), span) if each is not None]
        brief = sum(each.commits - 1 - each.pauses for each in spans)
        if brief > sum(each.pauses for each in spans):
            usual = sum(each.lasted_ms - each.pauses_ms for each in spans) / brief
        known.learn(pause_ms)
        if usual is None or part.last_offset == span.last_offset:
            return None
        assert span.last_ms is not None
        assert part.first_ms is not None
        stalled_ms = pause_ms - allowance_ms(usual)
        if stalled_ms <= 0:
            return None
        known.stalled_ms += stalled_ms
        return Standstill(*of, span.last_ms, part.first_ms, usual, stalled_ms)

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

    def standstills(self) -> Iterator[Standstill]:
        """Yield for how long partitions stood still before the newest generation's first commits; call it once, before `close`."""
        for place, span in self.now.items():
            known = self._last.get(place)
            if not known or span.first_ms is None or known[-1][1] is None:
                continue
            gap_ms = span.first_ms - known[-1][1]
            if gap_ms <= STALLED_MS:
                continue
            before, progress = self.before.get(place), self.partitions[place]
            own = None if before is None else before.interval_ms
            usual = max(own or 0.0, span.interval_ms or 0.0) or progress.pause_ms or self.usual_ms()
            if gap_ms > LONG_PAUSE_MS:
                progress.learn(gap_ms)
            stalled_ms = gap_ms - allowance_ms(usual)
            if stalled_ms > 0:
                progress.stalled_ms += stalled_ms
                yield Standstill(*place, known[-1][1], span.first_ms, usual, stalled_ms)

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
        for each in self.partitions.values():
            begin, end = _position(each.first), _position(each.newest)
            if begin is not None and end is not None:
                records += end[1] - begin[1]
                time_ms += end[0] - begin[0]
        return max(0.0, records / time_ms) if time_ms > 0 else 0.0

    def close(self, seq: int) -> ItemsView[TopicPartition, Span]:
        """End the newest generation; returns its spans.

        The last commit of a partition is kept for the last generations that committed it, in one of which its previous owner had it.
        """
        for place, span in self.now.items():
            progress = self.partitions[place]
            progress.newest = span
            progress.commits += span.commits
            if span.is_over:
                continue
            kept = self._last.setdefault(place, [])
            kept.append((seq, span.last_ms))
            if len(kept) > _KEPT:
                del kept[0]
        self.removed, self._removed_now = self._removed_now, set()
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
