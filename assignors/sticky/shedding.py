"""Choose the partitions that a member gives away."""

from bisect import bisect_left
from collections.abc import Iterable, Mapping, Sequence

from groupsdk.assignment import Partitions


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
