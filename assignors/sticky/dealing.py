"""Hand out and take back single partitions, once it is known how many each member is to have."""

from bisect import bisect_left, bisect_right
from collections.abc import Iterable, Mapping, Sequence
from itertools import chain, repeat

from groupsdk.assignment import Partitions


Hand = dict[str, tuple[int, ...]]
"""What one member holds: topics in order, each with its partitions in order."""


class Pool:
    """Partitions without an owner, to be dealt: in order of topic and number.

    Args:
        free: topic to partitions, in any order.
    """

    __slots__ = ("_numbers", "_singles", "_topics")

    def __init__(self, free: Mapping[str, Sequence[int]]) -> None:
        topics = sorted(free)
        groups = [
            numbers if isinstance(numbers, range) else sorted(numbers)
            for numbers in map(free.__getitem__, topics)
        ]
        self._topics = list(chain.from_iterable(map(repeat, topics, map(len, groups))))
        self._numbers = list(chain.from_iterable(groups))
        # Most members get one partition of a topic: those share their tuples.
        singles = list(zip(range(max(self._numbers, default=-1) + 1)))
        self._singles = list(map(singles.__getitem__, self._numbers))

    def __len__(self) -> int:
        return len(self._numbers)

    def deal(self, needs: Mapping[int, int]) -> dict[int, Hand]:
        """Give each member as many as it needs, one to each of them in turn.

        So neighbours, which are of the same topic, go to different members.

        Args:
            needs: member to number of partitions, all above 0; no more than there are altogether.
        """
        cuts: dict[int, list[slice]] = {member: [] for member in needs}
        active = sorted(needs)
        at = done = 0
        # Between two of the numbers needed the members at the table stay the same, and each one's cards
        # are a slice with a stride. Every slice has at least one card: no more work than partitions.
        for level in sorted(set(needs.values())):
            end = at + (level - done) * len(active)
            for seat, member in enumerate(active):
                cuts[member].append(slice(at + seat, end, len(active)))
            at, done = end, level
            active = [member for member in active if needs[member] > level]
        return {member: self._hand(slices) for member, slices in cuts.items()}

    def _hand(self, slices: list[slice]) -> Hand:
        if len(slices) == 1:
            cut = slices[0]
            topics = self._topics[cut]
            hand = dict(zip(topics, self._singles[cut], strict=True))
            if len(hand) == len(topics):
                return hand
            numbers = self._numbers[cut]
        else:
            topics = [topic for cut in slices for topic in self._topics[cut]]
            numbers = [number for cut in slices for number in self._numbers[cut]]
        hand = {}
        start, size = 0, len(topics)
        while start < size:
            topic = topics[start]
            # Few of a topic is the common case, where looking ahead beats the bisection.
            end = start + 1
            if end < size and topics[end] == topic:
                end = bisect_right(topics, topic, end)
            hand[topic] = tuple(numbers[start:end])
            start = end
        return hand


def tidy(partitions: Partitions) -> Hand:
    """Put a member's partitions in order; returns the mapping itself where it is in order already."""
    if type(partitions) is dict and set(map(type, partitions.values())) <= {tuple}:
        sizes = set(map(len, partitions.values()))
        if (sizes <= {1} or _ascending(partitions, sizes)) and list(partitions) == sorted(partitions):
            return partitions
    return {
        topic: tuple(sorted(partitions[topic])) for topic in sorted(partitions) if partitions[topic]
    }


def _ascending(partitions: Partitions, sizes: set[int]) -> bool:
    return 0 not in sizes and all(
        len(numbers) == 1 or list(numbers) == sorted(numbers) for numbers in partitions.values()
    )


def merged(partitions: Partitions, hands: Sequence[Hand]) -> Hand:
    """Put together what a member keeps and what comes to it, no partition twice."""
    kept = tidy(partitions)
    everything = dict(kept)
    total = len(everything)
    for hand in hands:
        everything.update(hand)
        total += len(hand)
    if len(everything) == total:
        return {topic: everything[topic] for topic in sorted(everything)}
    parts: dict[str, list[int]] = {}
    for hand in (kept, *hands):
        for topic, numbers in hand.items():
            parts.setdefault(topic, []).extend(numbers)
    return {topic: tuple(sorted(parts[topic])) for topic in sorted(parts)}


def without(partitions: Partitions, shed: Mapping[str, Sequence[int]]) -> Partitions:
    """Leave some partitions out."""
    left = dict(partitions)
    for topic, numbers in shed.items():
        gone = set(numbers)
        rest = tuple(number for number in left[topic] if number not in gone)
        if rest:
            left[topic] = rest
        else:
            del left[topic]
    return left


class Shedder:
    """Decides which partitions a member gives away when all that counts is how many.

    Those of the topics that it has most of, so that each topic stays spread; of a topic the last ones, as
    Java's assignors do. Among topics it has equally many of, one after the other is taken, and the next
    member goes on where this one stopped: or all members would give away the same topic, and whoever
    joins would read nothing else.
    """

    __slots__ = ("_next",)

    def __init__(self) -> None:
        self._next = ""

    def shed(self, partitions: Mapping[str, Sequence[int]], count: int) -> dict[str, list[int]]:
        """Choose `count` of a member's partitions, which has at least as many."""
        heights = {topic: len(numbers) for topic, numbers in partitions.items()}
        level = _level(heights.values(), sum(heights.values()) - count)
        cut = {topic: height - level for topic, height in heights.items() if height > level}
        extra = count - sum(cut.values())
        if extra:
            # The level is the lowest that does not take too many; what is missing comes from those on it.
            on_level = sorted(topic for topic, height in heights.items() if height >= level)
            start = bisect_left(on_level, self._next)
            for topic in (on_level + on_level)[start : start + extra]:
                cut[topic] = cut.get(topic, 0) + 1
                self._next = topic + "\0"
        return {topic: sorted(partitions[topic])[-number:] for topic, number in cut.items()}


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
