"""Select concrete partitions from counts: those that each member keeps, gives up and gets."""

from bisect import bisect_left, bisect_right
from collections import defaultdict
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import accumulate, chain, repeat
from typing import cast

from assignors.sticky.ownership import OrderedPartitions, Ownership, by_topic, merged, ordered
from assignors.sticky.partition_rows import Counts, PartitionRows
from assignors.sticky.water_filling import ByMember
from groupsdk.assignment import Partitions


_LONG_TURN = 16


class Singles:
    """One-element tuples of partitions, shared: most members get a single partition of a topic."""

    __slots__ = ("_known", "_ranges")

    def __init__(self) -> None:
        self._known: list[tuple[int]] = []
        self._ranges: dict[int, list[tuple[int]]] = {}

    def of(self, numbers: Sequence[int]) -> Sequence[tuple[int]]:
        """Return a shared tuple of one element for each of some ascending numbers; a range must begin at 0."""
        known = self._known
        if numbers and numbers[-1] >= len(known):
            known.extend(zip(range(len(known), numbers[-1] + 1)))
        if isinstance(numbers, range):
            size = len(numbers)
            if size not in self._ranges:
                self._ranges[size] = known[:size]
            return self._ranges[size]
        return list(map(known.__getitem__, numbers))


class UnassignedPartitions:
    """Partitions without an owner, distributed in order of topic and number; a range must begin at 0."""

    __slots__ = ("_groups", "_singles", "_topics")

    def __init__(self, free: Mapping[str, Sequence[int]], singles: Singles) -> None:
        self._singles = singles
        self._topics = sorted(free)
        self._groups = [
            numbers if isinstance(numbers, range) else sorted(numbers)
            for numbers in map(free.__getitem__, self._topics)
        ]

    def deal(self, needs: Mapping[int, int], holdings: ByMember[OrderedPartitions]) -> None:
        """Give each member the number it needs, round-robin.

        Neighbouring partitions, which belong to the same topic, thus go to different members. The needs, each above 0, must not exceed
        what there is, and the holdings must not have any of these topics yet.
        """
        if len(self._topics) == 1:
            self._deal_topic(needs, holdings)
        else:
            self._deal_topics(needs, holdings)

    def _deal_topic(self, needs: Mapping[int, int], holdings: ByMember[OrderedPartitions]) -> None:
        topic, numbers = self._topics[0], tuple(self._groups[0])
        more: dict[int, list[int]] = {}
        for active, start, end in _rounds(needs):
            stride = len(active)
            alone = end - start == stride
            if start:
                more = more or {member: [] for member in active}
                if alone:
                    for member, number in zip(active, numbers[start:end], strict=True):
                        more[member].append(number)
                else:
                    for seat, member in enumerate(active, start):
                        more[member] += numbers[seat:end:stride]
            elif alone:
                # One for each member, by far the most common case.
                singles = self._singles.of(numbers[:end])
                for holding, single in zip(map(holdings.__getitem__, active), singles, strict=True):
                    holding[topic] = single
            else:
                for seat, member in enumerate(active):
                    holdings[member][topic] = numbers[seat:end:stride]
        for member, those in more.items():
            holdings[member][topic] += tuple(those)

    def _deal_topics(self, needs: Mapping[int, int], holdings: ByMember[OrderedPartitions]) -> None:
        # The position at which the partitions of each topic begin.
        edges = list(accumulate(map(len, self._groups), initial=0))
        wrapped = list(map(self._singles.of, self._groups))
        for active, start, end in _rounds(needs):
            stride = len(active)
            # Neighbouring seats get the same topics until a seat reaches the first partition of a topic.
            turns = sorted({0, *((edge - start) % stride for edge in edges if start < edge < end)})
            if len(turns) * _LONG_TURN < stride:
                added = self._by_turns(turns, edges, wrapped, start, end, stride)
            else:
                added = self._by_strides(turns, wrapped, start, end, stride)
            names: list[str] = []
            blank: OrderedPartitions = {}
            for member, (wanted, got) in zip(active, added, strict=True):
                if wanted is not names:
                    names = wanted
                    blank = dict.fromkeys(names, ())
                holding = holdings[member]
                if not holding:
                    # Allocating the mapping at once is faster than growing it.
                    holding.update(blank)
                    if len(blank) == len(names):
                        holding.update(zip(names, got, strict=True))
                    else:
                        holding.update(_runs(names, got))
                else:
                    for topic, numbers in _runs(names, got):
                        holding[topic] = holding.get(topic, ()) + numbers

    def _by_turns(
        self,
        turns: Sequence[int],
        edges: Sequence[int],
        wrapped: Sequence[Sequence[tuple[int]]],
        start: int,
        end: int,
        stride: int,
    ) -> Iterator[tuple[list[str], Sequence[tuple[int]]]]:
        """Yield topics and partitions of each seat; seats with the same topics share one list of them.

        Between two turns the partitions form a table with one row per round; seats are its columns.
        """
        for turn, following in zip(turns, [*turns[1:], stride], strict=True):
            names: list[str] = []
            lines = []
            for first in range(start + turn, end, stride):
                topic = bisect_right(edges, first) - 1
                names.append(self._topics[topic])
                at = first - edges[topic]
                lines.append(wrapped[topic][at : at + following - turn])
            for got in zip(*lines, strict=False):
                yield names, got

    def _by_strides(
        self,
        turns: Collection[int],
        wrapped: Sequence[Sequence[tuple[int]]],
        start: int,
        end: int,
        stride: int,
    ) -> Iterator[tuple[list[str], Sequence[tuple[int]]]]:
        """Yield the same as `_by_turns`, faster if there are many turns."""
        topics = list(chain.from_iterable(map(repeat, self._topics, map(len, self._groups))))
        singles = list(chain.from_iterable(wrapped))
        names: list[str] = []
        turning = set(turns)
        for seat in range(stride):
            if seat in turning:
                names = topics[start + seat : end : stride]
            yield names, singles[start + seat : end : stride]


def _rounds(needs: Mapping[int, int]) -> Iterator[tuple[list[int], int, int]]:
    """Yield the active members, in order, and the range of partitions distributed among them.

    Between two levels of need the active members are the same, and each gets a slice with a stride. Every
    slice has at least one partition, so work is bounded by their number.
    """
    active = sorted(needs)
    at = done = 0
    for level in sorted(set(needs.values())):
        end = at + (level - done) * len(active)
        yield active, at, end
        at, done = end, level
        active = [member for member in active if needs[member] > level]


def _runs(
    topics: Sequence[str], singles: Sequence[tuple[int, ...]]
) -> Iterator[tuple[str, tuple[int, ...]]]:
    """Yield sorted partitions, grouped by topic."""
    start, size = 0, len(topics)
    while start < size:
        topic = topics[start]
        # Usually a topic has few, and looking ahead is faster than bisecting.
        end = start + 1
        if end < size and topics[end] == topic:
            end = bisect_right(topics, topic, end)
        yield (
            topic,
            tuple(chain.from_iterable(singles[start:end])) if end > start + 1 else singles[start],
        )
        start = end


def without(partitions: Partitions, given_up: Mapping[str, Sequence[int]]) -> Partitions:
    """Return partitions without those given up, all of which must be present."""
    left = dict(partitions)
    for topic, numbers in given_up.items():
        if len(numbers) == len(left[topic]):
            del left[topic]
        else:
            gone = set(numbers)
            left[topic] = tuple([number for number in left[topic] if number not in gone])
    return left


class RevocationOrder:
    """Chooses the partitions that a member gives up when only their number is given.

    It takes from the topics of which the member has most, so that each topic stays spread, and within a topic
    the last partitions, as Java's assignors do. Topics with equal counts take turns across members: otherwise
    all members would give up the same topic, and a new member would read nothing else.
    """

    __slots__ = ("_next",)

    def __init__(self) -> None:
        self._next = ""

    def choose(self, partitions: Mapping[str, Sequence[int]], count: int) -> dict[str, list[int]]:
        lengths = list(map(len, partitions.values()))
        most = max(lengths, default=0)
        if count < lengths.count(most):
            # One partition from each of some largest topics, by far the most common case.
            tall = [t for t, n in zip(partitions, lengths, strict=True) if n == most]
            return {topic: [max(partitions[topic])] for topic in self._turn(sorted(tall), count)}
        heights = dict(zip(partitions, lengths, strict=True))
        level = _level(heights.values(), sum(heights.values()) - count)
        cut = {topic: height - level for topic, height in heights.items() if height > level}
        extra = count - sum(cut.values())
        if extra:
            # The lowest level that does not take too many; the remainder comes from topics at that level.
            on_level = sorted([topic for topic, height in heights.items() if height >= level])
            for topic in self._turn(on_level, extra):
                cut[topic] = cut.get(topic, 0) + 1
        return {topic: sorted(partitions[topic])[-number:] for topic, number in cut.items()}

    def _turn(self, topics: list[str], count: int) -> list[str]:
        """Take `count` topics in order, continuing after the last one taken."""
        start = bisect_left(topics, self._next)
        taken = (topics + topics)[start : start + count]
        if taken:
            self._next = taken[-1] + "\0"
        return taken


def _level(heights: Iterable[int], keep: int) -> int:
    """Return the lowest level to which heights can be cut so that at least `keep` remains."""
    level = left = 0
    ordered = sorted(heights)
    for index, height in enumerate(ordered):
        higher = len(ordered) - index
        if left + (height - level) * higher >= keep:
            return level - (left - keep) // higher
        left += (height - level) * higher
        level = height
    return level


Changes = Mapping[int, Mapping[int, int]]
"""Number of partitions, above 0, by row and member or by member and row."""

_ONLY_ROW = 0
_ONLY_PARTITION = (0,)


@dataclass(frozen=True, slots=True)
class PartitionSelection:
    """The partitions of each member, and the differences from what members owned: what they give up, by topic, and what they get."""

    holdings: list[OrderedPartitions]
    revoked: Mapping[str, Collection[int]]
    added: Mapping[int, OrderedPartitions]


def select_partitions(
    ownership: Ownership, needs: Changes, excess: Changes, rows: PartitionRows | None = None
) -> PartitionSelection:
    """Let members keep what they own except for their excess, and distribute the rest; without `rows` all is in row 0."""
    kept = list(ownership.owned)
    revoked: dict[int, dict[str, list[int]]] = {}
    donor = RevocationOrder()
    for member in sorted(excess):
        parts = rows.split(kept[member], excess[member]) if rows else {_ONLY_ROW: kept[member]}
        for row, count in excess[member].items():
            given_up = donor.choose(parts[row], count)
            kept[member] = without(kept[member], given_up)
            pool = revoked.setdefault(row, {})
            for topic, numbers in given_up.items():
                pool.setdefault(topic, []).extend(numbers)
    pools: dict[int, dict[str, Sequence[int]]] = {}
    if needs:
        pools = rows.split(ownership.free) if rows else {_ONLY_ROW: dict(ownership.free)}
    gone: dict[str, list[int]] = {}
    for row, pool in revoked.items():
        free = pools.setdefault(row, {})
        for topic, numbers in pool.items():
            gone.setdefault(topic, []).extend(numbers)
            free[topic] = [*free.get(topic, ()), *numbers]
    return _put_together(ownership, kept, _deal(needs, pools, len(kept), rows), gone)


def select_whole_topics(
    ownership: Ownership, rows: PartitionRows, extra: Sequence[Counts], lost: Sequence[Counts]
) -> PartitionSelection:
    """Do the same if each row is one whole topic and rows are in order of topics."""
    topics, sizes = list(rows.row_of_topic), rows.sizes
    kept = list(ownership.owned)
    gone: dict[str, list[int]] = {}
    for member, counts in enumerate(lost):
        if counts:
            own = kept[member]
            given_up = {
                topic: sorted(own[topic])[-count:]
                for topic, count in ((topics[row], counts[row]) for row in sorted(counts))
            }
            kept[member] = without(own, given_up)
            for topic, numbers in given_up.items():
                gone.setdefault(topic, []).extend(numbers)
    added: dict[int, OrderedPartitions] = {}
    divided: dict[int, dict[int, int]] = {}
    for member, counts in enumerate(extra):
        if counts:
            # A topic with one partition has no other holder.
            taken = sorted(counts)
            added[member] = dict.fromkeys(map(topics.__getitem__, taken), _ONLY_PARTITION)
            for row in taken:
                if sizes[row] > 1:
                    divided.setdefault(row, {})[member] = counts[row]
    singles = Singles()
    for row, wanted in divided.items():
        topic = topics[row]
        new: dict[int, OrderedPartitions] = {member: {} for member in wanted}
        numbers = sorted([*ownership.free.get(topic, ()), *gone.get(topic, ())])
        UnassignedPartitions({topic: numbers}, singles).deal(wanted, new)
        for member, holding in new.items():
            added[member][topic] = holding[topic]
    return _put_together(ownership, kept, added, gone)


def _put_together(
    ownership: Ownership,
    kept: Sequence[Partitions],
    added: Mapping[int, OrderedPartitions],
    gone: Mapping[str, Collection[int]],
) -> PartitionSelection:
    # Removing partitions keeps the others in order.
    orderly = ownership.holdings
    holdings = [
        cast("OrderedPartitions", own) if member in orderly else ordered(own)
        for member, own in enumerate(kept)
    ]
    for member, holding in added.items():
        holdings[member] = merged(holdings[member], holding) if holdings[member] else holding
    return PartitionSelection(holdings, gone, added)


def _deal(
    needs: Changes,
    pools: Mapping[int, Mapping[str, Sequence[int]]],
    members: int,
    rows: PartitionRows | None,
) -> dict[int, OrderedPartitions]:
    """Distribute the free partitions of each row. Return the holdings of members that got any."""
    # With racks, partitions of a topic can be in several rows.
    if rows and rows.rows_of_topic:
        return _deal_apart(needs, pools)
    holdings: list[OrderedPartitions] = [{} for _ in range(members)]
    singles = Singles()
    for row in sorted(needs):
        wanted = needs[row]
        if len(wanted) == 1:
            (member,) = wanted
            _give_all(pools[row], holdings[member], singles)
        else:
            UnassignedPartitions(pools[row], singles).deal(wanted, holdings)
    # Rows are in order of topics only where each is one topic.
    if rows and len(needs) > 1 and len(rows.row_of_topic) > len(rows.sizes):
        holdings = list(map(by_topic, holdings))
    return {member: holding for member, holding in enumerate(holdings) if holding}


def _deal_apart(
    needs: Changes, pools: Mapping[int, Mapping[str, Sequence[int]]]
) -> dict[int, OrderedPartitions]:
    """Distribute if partitions of a topic are in several rows; usually a few of one topic in each."""
    got: defaultdict[int, dict[str, list[int]]] = defaultdict(dict)
    singles = Singles()
    for row in sorted(needs):
        wanted, pool = needs[row], pools[row]
        if len(pool) == 1 and max(wanted.values()) == 1:
            ((topic, numbers),) = pool.items()
            for member, number in zip(sorted(wanted), sorted(numbers), strict=False):
                mine = got[member]
                if topic in mine:
                    mine[topic].append(number)
                else:
                    mine[topic] = [number]
            continue
        new: dict[int, OrderedPartitions] = {member: {} for member in wanted}
        UnassignedPartitions(pool, singles).deal(wanted, new)
        for member, holding in new.items():
            mine = got[member]
            for topic, those in holding.items():
                mine.setdefault(topic, []).extend(those)
    return {member: ordered(got[member]) for member in sorted(got)}


def _give_all(
    pool: Mapping[str, Sequence[int]], holding: OrderedPartitions, singles: Singles
) -> None:
    for topic in sorted(pool) if len(pool) > 1 else pool:
        numbers = pool[topic]
        holding[topic] = singles.of(numbers)[0] if len(numbers) == 1 else tuple(sorted(numbers))
