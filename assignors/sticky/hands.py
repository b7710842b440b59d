"""What members hold: a form of partitions that is the same however they came together."""

from collections.abc import Mapping, Sequence


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
        return (
            both
            if topics == list(both)
            else dict(zip(topics, map(both.__getitem__, topics), strict=True))
        )


def _are_ascending(partitions: Hand) -> bool:
    groups = [numbers for numbers in partitions.values() if len(numbers) > 1]
    return list(map(list, groups)) == list(map(sorted, groups))
