"""Partitions without an owner, and how they are dealt to members that need some."""

from bisect import bisect_right
from collections.abc import Collection, Iterator, Mapping, Sequence
from itertools import accumulate, chain, repeat

from assignors.sticky.filling import ByMember
from assignors.sticky.hands import Hand


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

    def deal(self, needs: Mapping[int, int], hands: ByMember[Hand]) -> None:
        """Give each member as many as it needs, one to each of them in turn.

        So neighbours, which are of the same topic, go to different members.

        Args:
            needs: member to number of partitions, all above 0; no more than there are altogether.
            hands: by member: what each gets is added here; of these topics nothing may be in it before.
        """
        if len(self._topics) == 1:
            self._deal_topic(needs, hands)
        else:
            self._deal_topics(needs, hands)

    def _deal_topic(self, needs: Mapping[int, int], hands: ByMember[Hand]) -> None:
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
                for hand, single in zip(map(hands.__getitem__, active), singles, strict=True):
                    hand[topic] = single
            else:
                for seat, member in enumerate(active):
                    hands[member][topic] = numbers[seat:end:stride]
        for member, those in more.items():
            hands[member][topic] += tuple(those)

    def _deal_topics(self, needs: Mapping[int, int], hands: ByMember[Hand]) -> None:
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
            blank: Hand = {}
            for member, (wanted, got) in zip(active, dealt, strict=True):
                if wanted is not names:
                    names = wanted
                    blank = dict.fromkeys(names, ())
                hand = hands[member]
                if not hand:
                    # Room for all at once is made sooner than bit by bit.
                    hand.update(blank)
                    if len(blank) == len(names):
                        hand.update(zip(names, got, strict=True))
                    else:
                        hand.update(_runs(names, got))
                else:
                    for topic, numbers in _runs(names, got):
                        hand[topic] = hand.get(topic, ()) + numbers

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
