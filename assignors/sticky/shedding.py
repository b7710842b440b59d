"""Choose the partitions that a member gives away."""

from bisect import bisect_left
from collections.abc import Iterable, Mapping, Sequence

from groupsdk.assignment import Partitions


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
