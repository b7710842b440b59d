"""What members hold: a form of partitions that is the same however they came together."""

from collections.abc import Mapping, Sequence
from itertools import pairwise
from operator import lt


_SHORT = 4

Hand = dict[str, tuple[int, ...]]
"""Topics in order, each with its partitions in order; no topic without any."""


class Arranger:
    """Puts partitions in order, one member after the other."""

    __slots__ = ("_topics",)

    def __init__(self) -> None:
        # The topics of the last member, which are in order: the next one's are often the same strings.
        self._topics: list[str] = []

    def tidy(self, partitions: Mapping[str, Sequence[int]], size: int) -> Hand:
        """Make a hand of partitions; returns the mapping itself where it is one already.

        Args:
            partitions: topic to partitions, none twice.
            size: their number.
        """
        if (
            type(partitions) is dict
            and all(partitions.values())
            and set(map(type, partitions.values())) <= {tuple}
            and (size == len(partitions) or _are_ascending(partitions))
        ):
            topics = list(partitions)
            if topics == self._topics:
                return partitions
            if topics == sorted(topics):
                self._topics = topics
                return partitions
        return {
            topic: tuple(sorted(partitions[topic]))
            for topic in sorted(partitions)
            if partitions[topic]
        }

    def merged(self, kept: Mapping[str, Sequence[int]], size: int, hand: Hand) -> Hand:
        """Put together what a member keeps and what comes to it, no partition twice.

        Args:
            kept: topic to partitions.
            size: their number.
            hand: what comes.
        """
        own = self.tidy(kept, size)
        both = own | hand
        if len(both) != len(own) + len(hand):
            for topic in own.keys() & hand.keys():
                both[topic] = tuple(sorted(own[topic] + hand[topic]))
        if len(both) == len(own):
            return both
        topics = sorted(both)
        return both if topics == list(both) else {topic: both[topic] for topic in topics}


def _are_ascending(partitions: Hand) -> bool:
    if len(partitions) == 1:
        (numbers,) = partitions.values()
        return list(numbers) == sorted(numbers)
    groups = [numbers for numbers in partitions.values() if len(numbers) > 1]
    sizes = set(map(len, groups))
    for size in sizes:
        alike = groups if len(sizes) == 1 else [each for each in groups if len(each) == size]
        if size > _SHORT:
            if list(map(list, alike)) != list(map(sorted, alike)):
                return False
        else:
            # All first ones against all second ones, and so on, takes less than to sort many short groups.
            for ones, following in pairwise(zip(*alike, strict=True)):
                if not all(map(lt, ones, following)):
                    return False
    return True
