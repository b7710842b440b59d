"""Compute the fairest assignment of a group, step by step."""

import gc
from collections.abc import Collection, Iterator, Mapping, Sequence, Set
from contextlib import contextmanager
from dataclasses import dataclass, field

from assignors.sticky.general_case import share_fairly, share_sparsely
from assignors.sticky.ownership import OrderedPartitions, Ownership, find_owners
from assignors.sticky.partition_rows import make_partition_rows
from assignors.sticky.partition_selection import PartitionSelection, select_partitions
from assignors.sticky.sparse_partition_rows import make_sparse_partition_rows
from assignors.sticky.subscription_index import SubscriptionIndex
from assignors.subscribers import checked, partition_counts
from groupsdk.assignment import Cluster, GroupSubscription, Partitions


_CANDIDATES = 4
_FEW_EACH = 4


@dataclass(frozen=True, slots=True)
class StickyPlan:
    """The assignment of a group.

    Attributes:
        holdings: by member id, in order: topics in order, each with its partitions in order. A claim that is
            kept unchanged, and is in order, is returned as the same object.
        disputed: the topics of which a member claims partitions that it does not own.
        revoked: topic to the partitions that members own and give up.
        added: by member id: the part of its holding that others owned, or nobody.
    """

    holdings: dict[str, OrderedPartitions]
    disputed: Set[str] = frozenset()
    revoked: Mapping[str, Collection[int]] = field(default_factory=dict)
    added: Mapping[str, OrderedPartitions] = field(default_factory=dict)


MutablePlans = list[tuple[bool, Mapping[str, Partitions], Mapping[str, int], StickyPlan]]
"""Plans for one cluster and the same subscriptions: `moves_first`, claims and generations, and what they led to."""


def fairest_once(
    cluster: Cluster,
    subscriptions: GroupSubscription,
    claims: Mapping[str, Partitions],
    generations: Mapping[str, int],
    made: MutablePlans | None,
    *,
    moves_first: bool,
) -> StickyPlan:
    """Return the plan of `fairest`: from `made` if it is there, and added there otherwise."""
    for first, *others, plan in made or ():
        if first == moves_first and others == [claims, generations]:
            return plan
    plan = fairest(cluster, subscriptions, claims, generations, moves_first=moves_first)
    if made is not None:
        made.append((moves_first, claims, generations, plan))
    return plan


def fairest(
    cluster: Cluster,
    subscriptions: GroupSubscription,
    claims: Mapping[str, Partitions],
    generations: Mapping[str, int],
    *,
    moves_first: bool = False,
) -> StickyPlan:
    """Assign all partitions as fairly as possible, and among equally fair assignments move the fewest.

    Every partition of a known topic with a subscriber goes to one subscriber. The loads, sorted in descending
    order, are lexicographically minimal. Then the fewest partitions are off rack, then the fewest move; with
    `moves_first`, the other way round. The plan does not depend on the order of anything in the arguments.

    Raises TypeError if a partition count is not an int, or a member's topics are a single string. Raises ValueError if a partition count is out of bounds.
    """
    subscriptions = checked(subscriptions)
    known = partition_counts(cluster)
    everyone = sorted(subscriptions)
    subscribed, read = _known_topics(known, [subscriptions[member].topics for member in everyone])
    readers = [index for index, topics in enumerate(subscribed) if topics]
    result: dict[str, OrderedPartitions] = {member: {} for member in everyone}
    if not readers:
        # Claims on topics without subscribers are assigned to nobody.
        return StickyPlan(result)
    members = [everyone[index] for index in readers]
    counts = {topic: known[topic] for topic in read}
    subscription_index = SubscriptionIndex([subscribed[index] for index in readers], counts)
    ownership = find_owners(
        [claims[member] for member in members],
        [generations[member] for member in members],
        subscription_index,
        counts,
    )
    racks = [subscriptions[member].rack_id for member in members]
    shared = _share(
        ownership, subscription_index, counts, racks, cluster.replica_racks, moves_first=moves_first
    )
    result.update(zip(members, shared.holdings, strict=True))
    added = {members[index]: holding for index, holding in shared.added.items()}
    idle = (claims[everyone[index]] for index, topics in enumerate(subscribed) if not topics)
    disputed = frozenset().union(ownership.disputed, *idle)
    return StickyPlan(result, disputed, shared.revoked, added)


def _share(
    ownership: Ownership,
    subscription_index: SubscriptionIndex,
    counts: Mapping[str, int],
    racks: Sequence[str | None],
    replica_racks: Mapping[str, Sequence[Collection[str]]],
    *,
    moves_first: bool,
) -> PartitionSelection:
    if subscription_index.lists == 1 and not (replica_racks and any(racks)):
        return share_evenly(ownership, sum(counts.values()))
    if _is_sparse(subscription_index, counts):
        sparse = make_sparse_partition_rows(subscription_index, counts, racks, replica_racks)
        if len(sparse.rows.sizes) > 1 or sparse.have_racks:
            return share_sparsely(ownership, sparse, moves_first=moves_first)
        return share_evenly(ownership, sum(counts.values()))
    rows = make_partition_rows(subscription_index, counts, racks, replica_racks)
    # Equal lists in different orders may have been counted as distinct.
    if len(rows.sizes) == 1 and not rows.have_racks:
        return share_evenly(ownership, sum(counts.values()))
    return share_fairly(ownership, rows, moves_first=moves_first)


def _is_sparse(subscription_index: SubscriptionIndex, counts: Mapping[str, int]) -> bool:
    """Return whether to walk subscriptions rather than use bit sets.

    Bit sets search many paths at once, which pays if topics have many partitions to move. If topics have few,
    building sets for very many topics takes most of the time and memory.
    """
    return subscription_index.is_sparse and sum(counts.values()) <= _FEW_EACH * len(counts)


def _known_topics(
    known: Mapping[str, int], subscriptions: Sequence[Sequence[str]]
) -> tuple[list[Sequence[str]], set[str]]:
    """Return the known topics of each member, and their union; equal lists become one object.

    Equal lists in different orders may stay separate, and so may those of a length that has many distinct lists.
    """
    # Many members have equal subscriptions. Comparing lists with the same strings in the same order is much
    # faster than hashing all their topics.
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


def share_evenly(ownership: Ownership, partitions: int) -> PartitionSelection:
    """Give every member the same number of partitions, or one more, and move as few as possible.

    With n = q * M + r partitions for M members, balanced means q + 1 for r members and q for the others. A
    member that owns `own` partitions keeps at most q + 1 if it is one of the r, and at most q otherwise; so no
    balanced assignment keeps more than sum(min(own, q)) + min(r, members that own more than q). This one keeps
    exactly that: the r are chosen first among members that own more than q, and members give up only what
    exceeds their quota. Linear in partitions and members.
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
    return select_partitions(ownership, {0: needs} if needs else {}, excess)


_MANY = 10_000


@contextmanager
def without_collector(*, pause: bool = True) -> Iterator[None]:
    """Pause the cyclic garbage collector of the process, and restore its state afterwards, also after an exception.

    The collector scans new objects repeatedly and would otherwise take up to a third of the time of a large
    assignment. The new plan with its thousands of mappings would be scanned twice more before it counts as old.
    If there are many new objects, all objects are therefore moved to the oldest generation at the end
    (`gc.freeze` and `gc.unfreeze`, which scan nothing); cyclic garbage that exists by then, also of other
    threads, is found by the next full collection. This step is skipped in a program that has frozen objects
    itself."""
    if not pause:
        yield
        return
    was_on = gc.isenabled()
    before = gc.get_count()[0]
    gc.disable()
    try:
        yield
    finally:
        if was_on:
            made = gc.get_count()[0] - before
            if made > _MANY and hasattr(gc, "freeze") and not gc.get_freeze_count():
                gc.freeze()
                gc.unfreeze()
            gc.enable()
