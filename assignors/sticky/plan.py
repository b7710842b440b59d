"""From a group to its fairest assignment: the steps in their order."""

import gc
from collections.abc import Collection, Iterator, Mapping, Sequence, Set
from contextlib import contextmanager
from dataclasses import dataclass, field

from assignors.sticky.claims import OrderedPartitions, Ownership, settle
from assignors.sticky.general_case import share_fairly, share_sparsely
from assignors.sticky.handover import Handover, hand_over
from assignors.sticky.readership import Readership
from assignors.sticky.rows import make_rows
from assignors.sticky.sparse_rows import make_sparse_rows
from assignors.subscribers import checked, partition_counts
from groupsdk.assignment import Cluster, GroupSubscription, Partitions


_CANDIDATES = 4
_FEW_EACH = 4


@dataclass(frozen=True, slots=True)
class StickyPlan:
    """Who gets what.

    Attributes:
        holdings: by member id, in order: topics in order, each with its partitions in order. A claim that is
            kept as a whole, and in order, is given back as it is and not copied.
        disputed: the topics of which somebody claims what is not its own.
        given: of topics to partitions: what members rightly claim and give away.
        dealt: by member id: what of its holding it gets from others, or had no owner.
    """

    holdings: dict[str, OrderedPartitions]
    disputed: Set[str] = frozenset()
    given: Mapping[str, Collection[int]] = field(default_factory=dict)
    dealt: Mapping[str, OrderedPartitions] = field(default_factory=dict)


def fairest(
    cluster: Cluster,
    subscriptions: GroupSubscription,
    claims: Mapping[str, Partitions],
    generations: Mapping[str, int],
    *,
    moves_first: bool = False,
) -> StickyPlan:
    """Share out all partitions: as fair as can be, and among what is as fair, moving as few as can be.

    Every partition of a known topic with a subscriber goes to one of them. The loads, sorted from the
    greatest, are the least that they can be in the order of the dictionary. Then the fewest partitions are
    off rack, then the fewest move, or the other way about.

    Args:
        cluster: the topics.
        subscriptions: what the members want; ownership in there is not looked at.
        claims: by member id: what it says it owns.
        generations: by member id: since when; -1 where it does not say.
        moves_first: moves count more than partitions off rack.

    Returns:
        The same plan whatever the order of anything in the arguments.

    Raises:
        TypeError: a number of partitions is not an int, or a member's topics are one string.
        ValueError: a number of partitions is out of bounds.
    """
    subscriptions = checked(subscriptions)
    known = partition_counts(cluster)
    everyone = sorted(subscriptions)
    subscribed, read = _known_topics(known, [subscriptions[member].topics for member in everyone])
    readers = [index for index, topics in enumerate(subscribed) if topics]
    result: dict[str, OrderedPartitions] = {member: {} for member in everyone}
    if not readers:
        # Claims on topics that nobody reads are given to nobody.
        return StickyPlan(result)
    members = [everyone[index] for index in readers]
    counts = {topic: known[topic] for topic in read}
    readership = Readership([subscribed[index] for index in readers], counts)
    ownership = settle(
        [claims[member] for member in members],
        [generations[member] for member in members],
        readership,
        counts,
    )
    racks = [subscriptions[member].rack_id for member in members]
    shared = _share(
        ownership, readership, counts, racks, cluster.replica_racks, moves_first=moves_first
    )
    result.update(zip(members, shared.holdings, strict=True))
    dealt = {members[index]: holding for index, holding in shared.dealt.items()}
    idle = (claims[everyone[index]] for index, topics in enumerate(subscribed) if not topics)
    disputed = frozenset().union(ownership.disputed, *idle)
    return StickyPlan(result, disputed, shared.given, dealt)


def _share(
    ownership: Ownership,
    readership: Readership,
    counts: Mapping[str, int],
    racks: Sequence[str | None],
    replica_racks: Mapping[str, Sequence[Collection[str]]],
    *,
    moves_first: bool,
) -> Handover:
    """Share out in the way that is quickest for such subscriptions."""
    if readership.lists == 1 and not (replica_racks and any(racks)):
        return share_evenly(ownership, sum(counts.values()))
    if _is_sparse(readership, counts):
        sparse = make_sparse_rows(readership, counts, racks, replica_racks)
        if len(sparse.rows.sizes) > 1 or sparse.have_racks:
            return share_sparsely(ownership, sparse, moves_first=moves_first)
        return share_evenly(ownership, sum(counts.values()))
    rows = make_rows(readership, counts, racks, replica_racks)
    # Lists that are equal but in different orders may have been taken for different ones.
    if len(rows.sizes) == 1 and not rows.have_racks:
        return share_evenly(ownership, sum(counts.values()))
    return share_fairly(ownership, rows, moves_first=moves_first)


def _is_sparse(readership: Readership, counts: Mapping[str, int]) -> bool:
    """Return whether to go along subscriptions, and not by sets of bits.

    Sets of bits find out quickly about many ways at once, which is what it takes where topics have many
    partitions to move. Where they have few, there is little to find out about each, and setting up sets for
    very many topics takes most of the time and memory.
    """
    return readership.is_sparse and sum(counts.values()) <= _FEW_EACH * len(counts)


def _known_topics(
    known: Mapping[str, int], subscriptions: Sequence[Sequence[str]]
) -> tuple[list[Sequence[str]], set[str]]:
    """Return the known topics of each member, and all of these; lists that are equal are one object.

    Only those that are in different orders, or of more than a few different ones of a length, may not be.
    """
    # Many members subscribe alike. The same list again, or one with the same strings in the same order, is
    # found much sooner than by the hashes of all its topics.
    by_identity: dict[int, Sequence[str]] = {}
    alike: dict[tuple[int, str], list[Sequence[str]]] = {}
    for topics in subscriptions:
        if id(topics) not in by_identity:
            candidates = alike.setdefault((len(topics), topics[-1] if topics else ""), [])
            same = next((each for each in candidates if each == topics), topics)
            if same is topics and len(candidates) < _CANDIDATES:
                candidates.append(topics)
            by_identity[id(topics)] = same
    distinct = {id(topics): topics for topics in by_identity.values()}
    read = set[str]().union(*distinct.values())
    if not read <= known.keys():
        read &= known.keys()
        for identity, topics in distinct.items():
            if not read.issuperset(topics):
                distinct[identity] = [topic for topic in topics if topic in read]
    return [distinct[id(by_identity[id(topics)])] for topics in subscriptions], read


def share_evenly(ownership: Ownership, partitions: int) -> Handover:
    """Give every member the same number of partitions, or one more, and move as few as possible.

    With n = q * M + r partitions for M members, balanced means q for all and q + 1 for r of them. A member
    that owns `own` keeps at most q + 1 if it is one of these r, and at most q otherwise; so nothing
    balanced keeps more than sum(min(own, q)) + min(r, members that own more than q). This keeps just that:
    the r are taken from the members that own more than q, as long as there are any, and nobody gives away
    but what is above its quota. Linear in partitions and members.

    Args:
        ownership: the partitions that have an owner, and the others.
        partitions: how many there are in all.
    """
    quota, longer = divmod(partitions, len(ownership.sizes))
    needs, excess = {}, {}
    waiting = longer - sum(size > quota for size in ownership.sizes)
    for member, size in enumerate(ownership.sizes):
        target = quota
        if size > quota:
            if longer:
                longer -= 1
                target += 1
        elif waiting > 0:
            waiting -= 1
            target += 1
        if target > size:
            needs[member] = target - size
        elif target < size:
            excess[member] = {0: size - target}
    return hand_over(ownership, {0: needs} if needs else {}, excess)


_MANY = 10_000


@contextmanager
def without_collector(*, pause: bool = True) -> Iterator[None]:
    """Switch the collector off, in the whole process, and then leave it as it was, exceptions or not.

    The collector looks at what is new again and again, and without this takes up to a third of the time of
    a large assignment. What is new afterwards, a plan with its thousands of mappings, would be looked at twice
    more before it counts as old. So if it is much, all objects are declared old at the end (`gc.freeze` and
    `gc.unfreeze`, which move lists and look at nothing): what is garbage in cycles by then, of other threads
    too, is found by the next full collection. A program that has frozen objects itself is left alone.

    Args:
        pause: False leaves the collector alone.
    """
    if not pause:
        yield
        return
    was_on = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if was_on:
            if gc.get_count()[0] > _MANY and hasattr(gc, "freeze") and not gc.get_freeze_count():
                gc.freeze()
                gc.unfreeze()
            gc.enable()
