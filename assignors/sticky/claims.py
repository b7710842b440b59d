"""The partitions that members own: their claims, without everything that cannot be true.

Members claim in their own words what they own, so nothing in here is to be trusted: a partition may be gone
or have a negative number, two members may claim one, a member may come back with a claim from long ago.
"""

from bisect import bisect_left
from collections import deque
from collections.abc import Collection, Iterable, Mapping, Sequence, Set
from dataclasses import dataclass

from assignors.sticky.readership import Readership
from groupsdk.assignment import Partitions


_PAIR = 2
_FEW = 4

OrderedPartitions = dict[str, tuple[int, ...]]
"""Topics in order, each with its partitions in order; no topic without any."""


def are_ordered(groups: Collection[Sequence[int]], size: int) -> bool:
    """Return whether each group is a tuple in ascending order, and not empty.

    Args:
        groups: partitions of one topic each, none twice.
        size: number of partitions.
    """
    return (
        set(map(type, groups)) <= {tuple}
        and all(groups)
        and (size == len(groups) or _are_ascending(groups))
    )


def ordered(partitions: Mapping[str, Sequence[int]]) -> OrderedPartitions:
    """Put partitions in order, none of them twice."""
    return {
        topic: tuple(sorted(partitions[topic])) for topic in sorted(partitions) if partitions[topic]
    }


def merged(own: OrderedPartitions, more: OrderedPartitions) -> OrderedPartitions:
    """Join partitions that have none in common; neither argument is changed."""
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


def by_topic(holding: OrderedPartitions) -> OrderedPartitions:
    """Put the topics in order, where their partitions are; returns the mapping itself if they are, too."""
    topics = sorted(holding)
    return holding if topics == list(holding) else {topic: holding[topic] for topic in topics}


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


_NOBODY = -1
_ONLY = [0]
"""All partitions of a topic that has one."""


@dataclass(slots=True)
class Ownership:
    """Which partitions have an owner.

    Attributes:
        owned: by member: the topics, each with its partitions. A member's own claim, the very object, where
            all of it holds.
        sizes: by member: number of partitions owned.
        free: topic to partitions that nobody owns, ascending; without the topics that have none.
        disputed: the topics of which some claim does not hold.
        holdings: members that own what is a holding as it stands; of the others nobody has looked.
    """

    owned: list[Partitions]
    sizes: list[int]
    free: dict[str, Sequence[int]]
    disputed: Set[str] = frozenset()
    holdings: Set[int] = frozenset()


def settle(
    claims: Sequence[Partitions],
    generations: Sequence[int],
    readership: Readership,
    counts: Mapping[str, int],
) -> Ownership:
    """Find the owner of each partition (KIP-341, KAFKA-12984).

    The owner is whoever claims a partition with the highest generation, among the members that are
    subscribed to its topic. If that is more than one member, all of them are wrong, and nobody owns it.
    Claims on what does not exist count for nothing. Time and memory are linear in claims and partitions.

    Args:
        claims: by member.
        generations: by member; -1 is older than every other one.
        readership: who subscribes to what.
        counts: the known topics that have a subscriber, with their numbers of partitions.
    """
    if not any(claims):
        free: dict[str, Sequence[int]] = {topic: range(count) for topic, count in counts.items()}
        return Ownership(list(claims), [0] * len(claims), free)
    ownership, claimed = _gather(claims, readership, counts)
    ownership.free, doubtful = _check(claimed, counts)
    if doubtful:
        owned = ownership.owned
        for topic, taken in _resolve(owned, generations, counts, doubtful).items():
            if left := set(range(counts[topic])) - taken:
                ownership.free[topic] = sorted(left)
        ownership.sizes = [sum(map(len, own.values())) for own in owned]
        ownership.disputed |= doubtful
        ownership.holdings = frozenset()
    return ownership


def _gather(
    claims: Sequence[Partitions],
    readership: Readership,
    counts: Mapping[str, int],
) -> tuple[Ownership, dict[str, list[int]]]:
    """Go through all claims once; returns them as far as topics go, and all that is claimed, by topic."""
    owned = list(claims)
    sizes = [0] * len(claims)
    disputed = set[str]()
    holdings = set[int]()
    claimed: dict[str, list[int]] = {topic: [] for topic in counts}
    places: list[list[int]] = []
    names: list[str] = []
    last = -1
    in_order = True
    # Memory is what takes the time, so that all is done with a claim as long as it is at hand.
    for member, (own, wanted) in enumerate(zip(claims, readership.list_of, strict=True)):
        if not own:
            continue
        # Members that subscribe alike often own of the same topics, and then those are looked up once.
        if wanted != last or list(own) != names:
            if not readership.has_all(member, own):
                known = readership.known(member)
                disputed |= own.keys() - known
                own = owned[member] = {t: own[t] for t in own if t in known}
            names, last = list(own), wanted
            places = list(map(claimed.__getitem__, names))
            in_order = names == sorted(names)
        groups: list[Sequence[int]] = list(own.values())
        if set(map(type, groups)) != {tuple}:
            # A plan must not share lists with its caller. All of them are copied at once here, which is
            # faster than one by one when partitions are put in order.
            groups = list(map(tuple, groups))
            own = owned[member] = dict(zip(own, groups, strict=True))
        deque(map(list.extend, places, groups), maxlen=0)
        size = sizes[member] = sum(map(len, groups))
        if in_order and type(own) is dict and are_ordered(groups, size):
            holdings.add(member)
    return Ownership(owned, sizes, {}, disputed, holdings), claimed


def _check(
    claimed: Mapping[str, Sequence[int]], counts: Mapping[str, int]
) -> tuple[dict[str, Sequence[int]], set[str]]:
    """Look at each topic as a whole; returns what of those that are sound is free, and the other topics.

    Where all is sound, as it nearly always is, no number is looked at by itself.
    """
    ranges = {count: frozenset(range(count)) for count in set(counts.values())}
    free: dict[str, Sequence[int]] = {}
    doubtful = set()
    for topic, numbers in claimed.items():
        count = counts[topic]
        if count == 1:
            if not numbers:
                free[topic] = range(1)
            elif numbers != _ONLY:
                doubtful.add(topic)
            continue
        taken = set(numbers)
        left = ranges[count] - taken
        # What is claimed and what is left come to the whole only if nothing is claimed that is not there.
        if len(taken) != len(numbers) or len(left) + len(taken) != count:
            doubtful.add(topic)
        elif left:
            free[topic] = sorted(left) if taken else range(count)
    return free, doubtful


def _resolve(
    owned: list[Partitions],
    generations: Sequence[int],
    counts: Mapping[str, int],
    doubtful: Set[str],
) -> dict[str, set[int]]:
    """Decide the claims on some topics one by one; returns what of them is owned."""
    owners = _owners(owned, generations, counts, doubtful)
    for member, claim in enumerate(owned):
        if not claim.keys().isdisjoint(doubtful):
            sound = {
                topic: sorted({n for n in numbers if owners[topic].get(n) == member})
                if topic in doubtful
                else numbers
                for topic, numbers in claim.items()
            }
            owned[member] = {topic: numbers for topic, numbers in sound.items() if numbers}
    return {
        topic: {number for number, owner in those.items() if owner != _NOBODY}
        for topic, those in owners.items()
    }


def _owners(
    claims: Sequence[Partitions],
    generations: Sequence[int],
    counts: Mapping[str, int],
    topics: Set[str],
) -> dict[str, dict[int, int]]:
    """Find by topic and partition the member with the newest claim; nobody where there are two."""
    owners: dict[str, dict[int, int]] = {topic: {} for topic in topics}
    newest: dict[str, dict[int, int]] = {topic: {} for topic in topics}
    for member, claim in enumerate(claims):
        generation = generations[member]
        for topic in claim.keys() & topics:
            count, since, those = counts[topic], newest[topic], owners[topic]
            for number in set(claim[topic]):
                if not 0 <= number < count or since.get(number, generation) > generation:
                    continue
                those[number] = _NOBODY if since.get(number) == generation else member
                since[number] = generation
    return owners
