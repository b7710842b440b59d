"""From counts to partitions: which ones each member keeps, which a donor gives away, and which a receiver gets."""

from bisect import bisect_left, bisect_right
from collections import defaultdict
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import accumulate, chain, repeat
from typing import cast

from assignors.sticky.claims import OrderedPartitions, Ownership, by_topic, merged, ordered
from assignors.sticky.rows import Counts, Rows
from assignors.sticky.water_filling import ByMember
from groupsdk.assignment import Partitions


_LONG_TURN = 16


class Singles:
    """Partitions as tuples of one; most members get one partition of a topic, and those share their tuples."""

    __slots__ = ("_known", "_ranges")

    def __init__(self) -> None:
        self._known: list[tuple[int]] = []
        self._ranges: dict[int, list[tuple[int]]] = {}

    def of(self, numbers: Sequence[int]) -> Sequence[tuple[int]]:
        """Wrap ascending numbers one by one; a range begins at 0."""
        known = self._known
        if numbers and numbers[-1] >= len(known):
            known.extend(zip(range(len(known), numbers[-1] + 1)))
        if isinstance(numbers, range):
            size = len(numbers)
            if size not in self._ranges:
                self._ranges[size] = known[:size]
            return self._ranges[size]
        return list(map(known.__getitem__, numbers))


class Pool:
    """Partitions to be dealt, in order of topic and number.

    Args:
        free: topic to partitions, in any order; a range begins at 0.
        singles: for all pools of a plan.
    """

    __slots__ = ("_groups", "_singles", "_topics")

    def __init__(self, free: Mapping[str, Sequence[int]], singles: Singles) -> None:
        self._singles = singles
        self._topics = sorted(free)
        self._groups = [
            numbers if isinstance(numbers, range) else sorted(numbers)
            for numbers in map(free.__getitem__, self._topics)
        ]

    def deal(self, needs: Mapping[int, int], holdings: ByMember[OrderedPartitions]) -> None:
        """Give each member as many as it needs, one to each of them in turn.

        So neighbours, which are of the same topic, go to different members.

        Args:
            needs: member to number of partitions, all above 0; no more than there are altogether.
            holdings: by member: what each gets is added here; of these topics nothing may be in it before.
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
                # One for each, by far the most common
                singles = self._singles.of(numbers[:end])
                for holding, single in zip(map(holdings.__getitem__, active), singles, strict=True):
                    holding[topic] = single
            else:
                for seat, member in enumerate(active):
                    holdings[member][topic] = numbers[seat:end:stride]
        for member, those in more.items():
            holdings[member][topic] += tuple(those)

    def _deal_topics(self, needs: Mapping[int, int], holdings: ByMember[OrderedPartitions]) -> None:
        # Where the partitions of each topic begin
        edges = list(accumulate(map(len, self._groups), initial=0))
        wrapped = list(map(self._singles.of, self._groups))
        for active, start, end in _rounds(needs):
            stride = len(active)
            # Neighbours get of the same topics, up to the seats that come to the first partition of one.
            turns = sorted({0, *((edge - start) % stride for edge in edges if start < edge < end)})
            if len(turns) * _LONG_TURN < stride:
                dealt = self._by_turns(turns, edges, wrapped, start, end, stride)
            else:
                dealt = self._by_strides(turns, wrapped, start, end, stride)
            names: list[str] = []
            blank: OrderedPartitions = {}
            for member, (wanted, got) in zip(active, dealt, strict=True):
                if wanted is not names:
                    names = wanted
                    blank = dict.fromkeys(names, ())
                holding = holdings[member]
                if not holding:
                    # Room for all at once is made sooner than bit by bit.
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
        """Yield what comes to each seat, as topics and partitions; the same list where topics are the same.

        Between two turns it is a table with a line for each time round, and neighbours are its columns.
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
        """Yield the same, found another way, which is sooner where there are many turns."""
        topics = list(chain.from_iterable(map(repeat, self._topics, map(len, self._groups))))
        singles = list(chain.from_iterable(wrapped))
        names: list[str] = []
        turning = set(turns)
        for seat in range(stride):
            if seat in turning:
                names = topics[start + seat : end : stride]
            yield names, singles[start + seat : end : stride]


def _rounds(needs: Mapping[int, int]) -> Iterator[tuple[list[int], int, int]]:
    """Yield who sits at the table, in order, and from where to where the pool is dealt to them.

    Between two of the numbers needed those at the table stay the same, and what each of them gets is a
    slice with a stride. Every slice has at least one partition: no more work than there are of those.
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
    """Yield partitions that are in order, all those of a topic at once."""
    start, size = 0, len(topics)
    while start < size:
        topic = topics[start]
        # Few of a topic is the common case, where looking ahead beats the bisection.
        end = start + 1
        if end < size and topics[end] == topic:
            end = bisect_right(topics, topic, end)
        yield (
            topic,
            tuple(chain.from_iterable(singles[start:end])) if end > start + 1 else singles[start],
        )
        start = end


def without(partitions: Partitions, shed: Mapping[str, Sequence[int]]) -> Partitions:
    """Leave some partitions out, of those that are there."""
    left = dict(partitions)
    for topic, numbers in shed.items():
        if len(numbers) == len(left[topic]):
            del left[topic]
        else:
            gone = set(numbers)
            left[topic] = tuple([number for number in left[topic] if number not in gone])
    return left


class Donor:
    """Decides which partitions a member gives away when all that counts is how many.

    Those of the topics that it has most of, so that each topic stays spread; of a topic the last ones, as
    Java's assignors do. Among topics it has equally many of, one after the other is taken, and the next
    member goes on where this one stopped: or all members would give away the same topic, and whoever
    joins would read nothing else.
    """

    __slots__ = ("_next",)

    def __init__(self) -> None:
        self._next = ""

    def give_away(
        self, partitions: Mapping[str, Sequence[int]], count: int
    ) -> dict[str, list[int]]:
        """Choose `count` of a member's partitions, which has at least as many."""
        lengths = list(map(len, partitions.values()))
        most = max(lengths, default=0)
        if count < lengths.count(most):
            # One each of some of those that it has most of: by far the most common.
            tall = [t for t, n in zip(partitions, lengths, strict=True) if n == most]
            return {topic: [max(partitions[topic])] for topic in self._turn(sorted(tall), count)}
        heights = dict(zip(partitions, lengths, strict=True))
        level = _level(heights.values(), sum(heights.values()) - count)
        cut = {topic: height - level for topic, height in heights.items() if height > level}
        extra = count - sum(cut.values())
        if extra:
            # The level is the lowest that does not take too many; what is missing comes from those on it.
            on_level = sorted([topic for topic, height in heights.items() if height >= level])
            for topic in self._turn(on_level, extra):
                cut[topic] = cut.get(topic, 0) + 1
        return {topic: sorted(partitions[topic])[-number:] for topic, number in cut.items()}

    def _turn(self, topics: list[str], count: int) -> list[str]:
        """Take so many of some topics in order, from where the last ones were taken."""
        start = bisect_left(topics, self._next)
        taken = (topics + topics)[start : start + count]
        if taken:
            self._next = taken[-1] + "\0"
        return taken


def _level(heights: Iterable[int], keep: int) -> int:
    """Find the lowest level to which all heights can be cut so that at least `keep` is left."""
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
"""Number of partitions, above 0, by two of row and member."""

_ONLY_ROW = 0
_ONLY_PARTITION = (0,)


@dataclass(frozen=True, slots=True)
class Handover:
    """Who has what in the end, and how that came about.

    Attributes:
        holdings: by member.
        given: topic to the partitions that a member owned and gives away.
        dealt: by member: what it gets that it did not own; without those that get nothing.
    """

    holdings: list[OrderedPartitions]
    given: Mapping[str, Collection[int]]
    dealt: Mapping[int, OrderedPartitions]


def hand_over(
    ownership: Ownership, needs: Changes, excess: Changes, rows: Rows | None = None
) -> Handover:
    """Let members keep their own as far as that is wanted, and deal the rest.

    Args:
        ownership: the partitions that have an owner, and the others.
        needs: row to member to how many it is to get.
        excess: member to row to how many it is to give away; it has at least as many.
        rows: the rows; without, all partitions are in row 0.
    """
    kept = list(ownership.owned)
    given: dict[int, dict[str, list[int]]] = {}
    donor = Donor()
    for member in sorted(excess):
        parts = rows.split(kept[member], excess[member]) if rows else {_ONLY_ROW: kept[member]}
        for row, count in excess[member].items():
            shed = donor.give_away(parts[row], count)
            kept[member] = without(kept[member], shed)
            pool = given.setdefault(row, {})
            for topic, numbers in shed.items():
                pool.setdefault(topic, []).extend(numbers)
    pools: dict[int, dict[str, Sequence[int]]] = {}
    if needs:
        pools = rows.split(ownership.free) if rows else {_ONLY_ROW: dict(ownership.free)}
    gone: dict[str, list[int]] = {}
    for row, pool in given.items():
        free = pools.setdefault(row, {})
        for topic, numbers in pool.items():
            gone.setdefault(topic, []).extend(numbers)
            free[topic] = [*free.get(topic, ()), *numbers]
    return _put_together(ownership, kept, _deal(needs, pools, len(kept), rows), gone)


def hand_over_topics(
    ownership: Ownership, rows: Rows, extra: Sequence[Counts], lost: Sequence[Counts]
) -> Handover:
    """Do the same where each row is one whole topic, and rows are in order of topics.

    Args:
        ownership: the partitions that have an owner, and the others.
        rows: the rows.
        extra: by member: row to how many it is to have above what it owns of it.
        lost: by member: row to how many it is to have below that.
    """
    topics, sizes = list(rows.row_of_topic), rows.sizes
    kept = list(ownership.owned)
    gone: dict[str, list[int]] = {}
    for member, counts in enumerate(lost):
        if counts:
            own = kept[member]
            shed = {
                topic: sorted(own[topic])[-count:]
                for topic, count in ((topics[row], counts[row]) for row in sorted(counts))
            }
            kept[member] = without(own, shed)
            for topic, numbers in shed.items():
                gone.setdefault(topic, []).extend(numbers)
    dealt: dict[int, OrderedPartitions] = {}
    divided: dict[int, dict[int, int]] = {}
    for member, counts in enumerate(extra):
        if counts:
            # Nobody else has anything of a topic with one partition.
            taken = sorted(counts)
            dealt[member] = dict.fromkeys(map(topics.__getitem__, taken), _ONLY_PARTITION)
            for row in taken:
                if sizes[row] > 1:
                    divided.setdefault(row, {})[member] = counts[row]
    singles = Singles()
    for row, wanted in divided.items():
        topic = topics[row]
        new: dict[int, OrderedPartitions] = {member: {} for member in wanted}
        numbers = sorted([*ownership.free.get(topic, ()), *gone.get(topic, ())])
        Pool({topic: numbers}, singles).deal(wanted, new)
        for member, holding in new.items():
            dealt[member][topic] = holding[topic]
    return _put_together(ownership, kept, dealt, gone)


def _put_together(
    ownership: Ownership,
    kept: Sequence[Partitions],
    dealt: Mapping[int, OrderedPartitions],
    gone: Mapping[str, Collection[int]],
) -> Handover:
    # What is left of ordered partitions is in order.
    orderly = ownership.holdings
    holdings = [
        cast("OrderedPartitions", own) if member in orderly else ordered(own)
        for member, own in enumerate(kept)
    ]
    for member, holding in dealt.items():
        holdings[member] = merged(holdings[member], holding) if holdings[member] else holding
    return Handover(holdings, gone, dealt)


def _deal(
    needs: Changes,
    pools: Mapping[int, Mapping[str, Sequence[int]]],
    members: int,
    rows: Rows | None,
) -> dict[int, OrderedPartitions]:
    """Deal from the pool of each row; returns what those get that get something."""
    # With racks more than one row can have partitions of a topic.
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
            Pool(pools[row], singles).deal(wanted, holdings)
    # Rows are in order of topics only where each is one topic.
    if rows and len(needs) > 1 and len(rows.row_of_topic) > len(rows.sizes):
        holdings = list(map(by_topic, holdings))
    return {member: holding for member, holding in enumerate(holdings) if holding}


def _deal_apart(
    needs: Changes, pools: Mapping[int, Mapping[str, Sequence[int]]]
) -> dict[int, OrderedPartitions]:
    """Deal where partitions of a topic lie in several rows; mostly a few of one topic in each."""
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
        Pool(pool, singles).deal(wanted, new)
        for member, holding in new.items():
            mine = got[member]
            for topic, those in holding.items():
                mine.setdefault(topic, []).extend(those)
    return {member: ordered(got[member]) for member in sorted(got)}


def _give_all(
    pool: Mapping[str, Sequence[int]], holding: OrderedPartitions, singles: Singles
) -> None:
    """Give one member the whole pool of a row, of whose topics it was given nothing yet."""
    for topic in sorted(pool) if len(pool) > 1 else pool:
        numbers = pool[topic]
        holding[topic] = singles.of(numbers)[0] if len(numbers) == 1 else tuple(sorted(numbers))
