"""Find out which partitions members own, by validating their claims.

Claims come from the members' user data and are not trusted: a partition may no longer exist or have a negative
number, two members may claim the same one, and a member may return with an outdated claim.
"""

from bisect import bisect_left
from collections import deque
from collections.abc import Collection, Iterable, Mapping, Sequence, Set
from dataclasses import dataclass

from assignors.sticky.subscription_index import SubscriptionIndex
from groupsdk.assignment import Partitions


_PAIR = 2
_FEW = 4

OrderedPartitions = dict[str, tuple[int, ...]]
"""Topics in order, each with its partitions in order; topics without partitions are left out."""


def are_ordered(groups: Collection[Sequence[int]], size: int) -> bool:
    """Return whether each group of partitions of one topic is a non-empty tuple in ascending order, without duplicates."""
    return (
        set(map(type, groups)) <= {tuple}
        and all(groups)
        and (size == len(groups) or _are_ascending(groups))
    )


def ordered(partitions: Mapping[str, Sequence[int]]) -> OrderedPartitions:
    return {
        topic: tuple(sorted(partitions[topic])) for topic in sorted(partitions) if partitions[topic]
    }


def merged(own: OrderedPartitions, more: OrderedPartitions) -> OrderedPartitions:
    """Return the union of two disjoint sets of partitions; neither argument is changed."""
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
"""The partitions of a topic that has only one."""


@dataclass(slots=True)
class Ownership:
    """The partitions that have an owner, and those that have none.

    Attributes:
        owned: by member: topic to partitions. The member's own claim object if the whole claim is valid.
        sizes: by member: number of partitions owned.
        free: topic to the partitions without an owner, ascending; topics without any are left out.
        disputed: the topics with an invalid claim.
        holdings: members whose `owned` is known to be in order; the others were not checked.
    """

    owned: list[Partitions]
    sizes: list[int]
    free: dict[str, Sequence[int]]
    disputed: Set[str] = frozenset()
    holdings: Set[int] = frozenset()


def find_owners(
    claims: Sequence[Partitions],
    generations: Sequence[int],
    subscription_index: SubscriptionIndex,
    counts: Mapping[str, int],
) -> Ownership:
    """Find the owner of each partition (KIP-341, KAFKA-12984).

    The owner is the member that claims a partition with the highest generation, among those subscribed to its
    topic. If several members claim it with that generation, nobody owns it. Claims on partitions that do not
    exist are ignored. Time and memory are linear in claims and partitions.
    """
    if not any(claims):
        free: dict[str, Sequence[int]] = {topic: range(count) for topic, count in counts.items()}
        return Ownership(list(claims), [0] * len(claims), free)
    ownership, claimed = _gather(claims, subscription_index, counts)
    ownership.free, doubtful = _check(claimed, counts)
    if doubtful:
        owned = ownership.owned
        for topic, taken in _decide_claims(owned, generations, counts, doubtful).items():
            if left := set(range(counts[topic])) - taken:
                ownership.free[topic] = sorted(left)
        ownership.sizes = [sum(map(len, own.values())) for own in owned]
        ownership.disputed |= doubtful
        ownership.holdings = frozenset()
    return ownership


def _gather(
    claims: Sequence[Partitions],
    subscription_index: SubscriptionIndex,
    counts: Mapping[str, int],
) -> tuple[Ownership, dict[str, list[int]]]:
    """Return the claims without unsubscribed topics, and all claimed partitions by topic, in one pass."""
    owned = list(claims)
    sizes = [0] * len(claims)
    disputed = set[str]()
    holdings = set[int]()
    claimed: dict[str, list[int]] = {topic: [] for topic in counts}
    places: list[list[int]] = []
    names: list[str] = []
    last = -1
    in_order = True
    # Memory access dominates, so each claim is processed completely while it is in the cache.
    for member, (own, wanted) in enumerate(zip(claims, subscription_index.list_of, strict=True)):
        if not own:
            continue
        # Members with equal subscriptions often own the same topics; these are looked up once.
        if wanted != last or list(own) != names:
            if not subscription_index.has_all(member, own):
                known = subscription_index.known(member)
                disputed |= own.keys() - known
                own = owned[member] = {t: own[t] for t in own if t in known}
            names, last = list(own), wanted
            places = list(map(claimed.__getitem__, names))
            in_order = names == sorted(names)
        groups: list[Sequence[int]] = list(own.values())
        if set(map(type, groups)) != {tuple}:
            # A plan must not share lists with its caller. Copying all of them here is faster than one by one
            # when partitions are sorted.
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
    """Check each topic as a whole. Return the free partitions of valid topics, and the doubtful topics.

    If all claims are valid, as is usual, no partition is checked individually.
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
        # Claimed and free partitions add up to the count only if every claimed partition exists.
        if len(taken) != len(numbers) or len(left) + len(taken) != count:
            doubtful.add(topic)
        elif left:
            free[topic] = sorted(left) if taken else range(count)
    return free, doubtful


def _decide_claims(
    owned: list[Partitions],
    generations: Sequence[int],
    counts: Mapping[str, int],
    doubtful: Set[str],
) -> dict[str, set[int]]:
    """Decide the claims on doubtful topics partition by partition. Return the owned partitions of each."""
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
    """Return, by topic and partition, the member with the newest claim; nobody if two members tie."""
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
