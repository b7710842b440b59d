"""What members hold: a form of partitions that is the same however they came together."""

from bisect import bisect_left
from collections.abc import Collection, Iterable, Mapping, Sequence


_PAIR = 2
_FEW = 4

Hand = dict[str, tuple[int, ...]]
"""Topics in order, each with its partitions in order; no topic without any."""


def are_tidy(groups: Collection[Sequence[int]], size: int) -> bool:
    """Tell whether each group is as it stands in a hand.

    Args:
        groups: partitions of one topic each, none twice.
        size: number of partitions.
    """
    return (
        set(map(type, groups)) <= {tuple}
        and all(groups)
        and (size == len(groups) or _are_ascending(groups))
    )


def tidy(partitions: Mapping[str, Sequence[int]]) -> Hand:
    """Make a hand of partitions, none of them twice."""
    return {
        topic: tuple(sorted(partitions[topic])) for topic in sorted(partitions) if partitions[topic]
    }


def merged(own: Hand, more: Hand) -> Hand:
    """Put two hands together that have no partition in common; neither is changed."""
    if len(more) <= _FEW:
        topics, groups = list(own), list(own.values())
        for topic, numbers in more.items():
            place = bisect_left(topics, topic)
            if topic in own:
                groups[place] = tuple(sorted(own[topic] + numbers))
            else:
                topics.insert(place, topic)
                groups.insert(place, numbers)
        return dict(zip(topics, groups, strict=True))
    both = own | more
    for topic in own.keys() & more.keys():
        both[topic] = tuple(sorted(own[topic] + more[topic]))
    return both if len(both) == len(own) else by_topic(both)


def by_topic(hand: Hand) -> Hand:
    """Put the topics of what else is a hand in order; returns the mapping itself where they are."""
    topics = sorted(hand)
    return hand if topics == list(hand) else {topic: hand[topic] for topic in topics}


def _are_ascending(groups: Iterable[Sequence[int]]) -> bool:
    for numbers in groups:
        size = len(numbers)
        if size == 1:
            continue
        if size == _PAIR:
            if numbers[0] >= numbers[1]:
                return False
        elif list(numbers) != sorted(numbers):
            return False
    return True
