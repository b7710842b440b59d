"""Partitions without an owner, and how they are dealt to members that need some."""

from bisect import bisect_right
from collections.abc import Iterator, Mapping, Sequence
from itertools import accumulate, chain, repeat

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

    def deal(self, needs: Mapping[int, int], hands: dict[int, Hand]) -> None:
        """Give each member as many as it needs, one to each of them in turn.

        So neighbours, which are of the same topic, go to different members.

        Args:
            needs: member to number of partitions, all above 0; no more than there are altogether.
            hands: what each member gets is added here; of these topics nothing may be in it before.
        """
        if len(self._topics) == 1:
            for member in needs:
                if member not in hands:
                    hands[member] = {}
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

    def _deal_topics(self, needs: Mapping[int, int], hands: dict[int, Hand]) -> None:
        topics = list(chain.from_iterable(map(repeat, self._topics, map(len, self._groups))))
        # Most members get one partition of a topic: those share their tuples.
        one_of = list(zip(range(max(group[-1] for group in self._groups) + 1)))
        singles: list[tuple[int, ...]] = []
        for group in self._groups:
            singles += (
                one_of[: len(group)] if isinstance(group, range) else map(one_of.__getitem__, group)
            )
        edges = list(accumulate(map(len, self._groups), initial=0))
        for active, start, end in _rounds(needs):
            stride = len(active)
            # Neighbours get of the same topics, up to the seats that come to the first partition of one.
            turns = {0, *((edge - start) % stride for edge in edges if start < edge < end)}
            names: list[str] = []
            blank: Hand = {}
            for seat, member in enumerate(active):
                if seat in turns:
                    names = topics[start + seat : end : stride]
                    blank = dict.fromkeys(names, ())
                got = singles[start + seat : end : stride]
                hand = hands.get(member)
                if hand is None:
                    # A copy is made sooner than filled.
                    hand = hands[member] = blank.copy()
                    if len(blank) == len(names):
                        hand.update(zip(names, got, strict=True))
                    else:
                        hand.update(_runs(names, got))
                else:
                    for topic, numbers in _runs(names, got):
                        hand[topic] = hand.get(topic, ()) + numbers


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
