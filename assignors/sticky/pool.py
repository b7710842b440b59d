"""Partitions without an owner, and how they are dealt to members that need some."""

from bisect import bisect_right
from collections.abc import Iterator, Mapping, Sequence
from itertools import chain, repeat

from assignors.sticky.hands import Hand


class Pool:
    """Partitions to be dealt, in order of topic and number.

    Args:
        free: topic to partitions, in any order; a range begins at 0.
    """

    __slots__ = ("_groups", "_topics")

    def __init__(self, free: Mapping[str, Sequence[int]]) -> None:
        self._topics = sorted(free)
        self._groups = [
            numbers if isinstance(numbers, range) else sorted(numbers)
            for numbers in map(free.__getitem__, self._topics)
        ]

    def deal(self, needs: Mapping[int, int], hands: Mapping[int, Hand]) -> None:
        """Give each member as many as it needs, one to each of them in turn.

        So neighbours, which are of the same topic, go to different members.

        Args:
            needs: member to number of partitions, all above 0; no more than there are altogether.
            hands: what each member gets is added here; of these topics nothing may be in it before.
        """
        if len(self._topics) == 1:
            self._deal_topic(needs, hands)
        else:
            self._deal_topics(needs, hands)

    def _deal_topic(self, needs: Mapping[int, int], hands: Mapping[int, Hand]) -> None:
        topic, numbers = self._topics[0], tuple(self._groups[0])
        for active, start, end in _rounds(needs):
            stride = len(active)
            if start:
                for seat, member in enumerate(active, start):
                    hands[member][topic] += numbers[seat:end:stride]
            elif end == stride:
                # One for each, by far the most common
                for member, single in zip(active, zip(numbers), strict=False):
                    hands[member][topic] = single
            else:
                for seat, member in enumerate(active):
                    hands[member][topic] = numbers[seat:end:stride]

    def _deal_topics(self, needs: Mapping[int, int], hands: Mapping[int, Hand]) -> None:
        topics = list(chain.from_iterable(map(repeat, self._topics, map(len, self._groups))))
        # Most members get one partition of a topic: those share their tuples.
        one_of = list(zip(range(max(group[-1] for group in self._groups) + 1)))
        singles: list[tuple[int, ...]] = []
        for group in self._groups:
            singles += (
                one_of[: len(group)] if isinstance(group, range) else map(one_of.__getitem__, group)
            )
        names: list[str] = []
        blank: dict[str, tuple[int, ...]] = {}
        for active, start, end in _rounds(needs):
            stride = len(active)
            for seat, member in enumerate(active, start):
                hand = hands[member]
                if topics[seat:end:stride] != names:
                    names = topics[seat:end:stride]
                    blank = dict.fromkeys(names, ())
                got = singles[seat:end:stride]
                if len(blank) == len(names) and hand.keys().isdisjoint(names):
                    if not hand:
                        # Neighbours mostly get of the same topics: a copy is made sooner than filled.
                        hand.update(blank)
                    hand.update(zip(names, got, strict=True))
                else:
                    _add_runs(hand, names, tuple(chain.from_iterable(got)))


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


def _add_runs(hand: Hand, topics: Sequence[str], numbers: tuple[int, ...]) -> None:
    """Add partitions that are in order, all those of a topic at once, after what there is of it."""
    start, size = 0, len(topics)
    while start < size:
        topic = topics[start]
        # Few of a topic is the common case, where looking ahead beats the bisection.
        end = start + 1
        if end < size and topics[end] == topic:
            end = bisect_right(topics, topic, end)
        run = numbers[start:end]
        hand[topic] = hand[topic] + run if topic in hand else run
        start = end
