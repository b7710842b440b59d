"""From numbers to partitions: who keeps which, who gives which away, and who gets those."""

from collections import defaultdict
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import cast

from assignors.sticky.claims import Ownership
from assignors.sticky.hands import Hand, by_topic, merged, tidy
from assignors.sticky.pool import Pool, Singles
from assignors.sticky.rows import Counts, Rows
from assignors.sticky.shedding import Shedder, without
from groupsdk.assignment import Partitions


Changes = Mapping[int, Mapping[int, int]]
"""Number of partitions, above 0, by two of row and member."""

_ONLY_ROW = 0
_ONLY_PARTITION = (0,)


@dataclass(frozen=True, slots=True)
class Handover:
    """Who has what in the end, and how that came about.

    Attributes:
        hands: by member.
        given: topic to the partitions that a member owned and gives away.
        dealt: by member: what it gets that it did not own; without those that get nothing.
    """

    hands: list[Hand]
    given: Mapping[str, Collection[int]]
    dealt: Mapping[int, Hand]


def hand_over(
    ownership: Ownership, needs: Changes, excess: Changes, rows: Rows | None = None
) -> Handover:
    """Let members keep their own as far as that is wanted, and deal the rest.

    Args:
        ownership: the partitions that have an owner, and the others.
        needs: row to member to how many it is to get.
        excess: member to row to how many it is to give away; it has at least as many.
        rows: the rows; without, all partitions are in row 0.
    """
    kept = list(ownership.owned)
    given: dict[int, dict[str, list[int]]] = {}
    shedder = Shedder()
    for member in sorted(excess):
        parts = rows.split(kept[member], excess[member]) if rows else {_ONLY_ROW: kept[member]}
        for row, count in excess[member].items():
            shed = shedder.shed(parts[row], count)
            kept[member] = without(kept[member], shed)
            pool = given.setdefault(row, {})
            for topic, numbers in shed.items():
                pool.setdefault(topic, []).extend(numbers)
    pools: dict[int, dict[str, Sequence[int]]] = {}
    if needs:
        pools = rows.split(ownership.free) if rows else {_ONLY_ROW: dict(ownership.free)}
    gone: dict[str, list[int]] = {}
    for row, pool in given.items():
        free = pools.setdefault(row, {})
        for topic, numbers in pool.items():
            gone.setdefault(topic, []).extend(numbers)
            free[topic] = [*free.get(topic, ()), *numbers]
    return _put_together(ownership, kept, _deal(needs, pools, len(kept), rows), gone)


def hand_over_topics(
    ownership: Ownership, rows: Rows, extra: Sequence[Counts], lost: Sequence[Counts]
) -> Handover:
    """Do the same where each row is one whole topic, and rows are in order of topics.

    Args:
        ownership: the partitions that have an owner, and the others.
        rows: the rows.
        extra: by member: row to how many it is to have above what it owns of it.
        lost: by member: row to how many it is to have below that.
    """
    topics, sizes = list(rows.row_of_topic), rows.sizes
    kept = list(ownership.owned)
    gone: dict[str, list[int]] = {}
    for member, counts in enumerate(lost):
        if counts:
            own = kept[member]
            shed = {
                topic: sorted(own[topic])[-count:]
                for topic, count in ((topics[row], counts[row]) for row in sorted(counts))
            }
            kept[member] = without(own, shed)
            for topic, numbers in shed.items():
                gone.setdefault(topic, []).extend(numbers)
    dealt: dict[int, Hand] = {}
    divided: dict[int, dict[int, int]] = {}
    for member, counts in enumerate(extra):
        if counts:
            # Nobody else has anything of a topic with one partition.
            taken = sorted(counts)
            dealt[member] = dict.fromkeys(map(topics.__getitem__, taken), _ONLY_PARTITION)
            for row in taken:
                if sizes[row] > 1:
                    divided.setdefault(row, {})[member] = counts[row]
    singles = Singles()
    for row, wanted in divided.items():
        topic = topics[row]
        new: dict[int, Hand] = {member: {} for member in wanted}
        numbers = sorted([*ownership.free.get(topic, ()), *gone.get(topic, ())])
        Pool({topic: numbers}, singles).deal(wanted, new)
        for member, hand in new.items():
            dealt[member][topic] = hand[topic]
    return _put_together(ownership, kept, dealt, gone)


def _put_together(
    ownership: Ownership,
    kept: Sequence[Partitions],
    dealt: Mapping[int, Hand],
    gone: Mapping[str, Collection[int]],
) -> Handover:
    # What is taken out of a hand leaves a hand.
    orderly = ownership.hands
    hands = [
        cast("Hand", own) if member in orderly else tidy(own) for member, own in enumerate(kept)
    ]
    for member, hand in dealt.items():
        hands[member] = merged(hands[member], hand) if hands[member] else hand
    return Handover(hands, gone, dealt)


def _deal(
    needs: Changes,
    pools: Mapping[int, Mapping[str, Sequence[int]]],
    members: int,
    rows: Rows | None,
) -> dict[int, Hand]:
    """Deal from the pool of each row; returns what those get that get something."""
    # With racks more than one row can have partitions of a topic.
    if rows and rows.rows_of_topic:
        return _deal_apart(needs, pools)
    hands: list[Hand] = [{} for _ in range(members)]
    singles = Singles()
    for row in sorted(needs):
        wanted = needs[row]
        if len(wanted) == 1:
            (member,) = wanted
            _give_all(pools[row], hands[member], singles)
        else:
            Pool(pools[row], singles).deal(wanted, hands)
    # Rows are in order of topics only where each is one topic.
    if rows and len(needs) > 1 and len(rows.row_of_topic) > len(rows.sizes):
        hands = list(map(by_topic, hands))
    return {member: hand for member, hand in enumerate(hands) if hand}


def _deal_apart(
    needs: Changes, pools: Mapping[int, Mapping[str, Sequence[int]]]
) -> dict[int, Hand]:
    """Deal where partitions of a topic lie in several rows; mostly a few of one topic in each."""
    got: defaultdict[int, dict[str, list[int]]] = defaultdict(dict)
    singles = Singles()
    for row in sorted(needs):
        wanted, pool = needs[row], pools[row]
        if len(pool) == 1 and max(wanted.values()) == 1:
            ((topic, numbers),) = pool.items()
            for member, number in zip(sorted(wanted), sorted(numbers), strict=False):
                mine = got[member]
                if topic in mine:
                    mine[topic].append(number)
                else:
                    mine[topic] = [number]
            continue
        new: dict[int, Hand] = {member: {} for member in wanted}
        Pool(pool, singles).deal(wanted, new)
        for member, hand in new.items():
            mine = got[member]
            for topic, those in hand.items():
                mine.setdefault(topic, []).extend(those)
    return {member: tidy(got[member]) for member in sorted(got)}


def _give_all(pool: Mapping[str, Sequence[int]], hand: Hand, singles: Singles) -> None:
    """Give one member the whole pool of a row, of whose topics it was given nothing yet."""
    for topic in sorted(pool) if len(pool) > 1 else pool:
        numbers = pool[topic]
        hand[topic] = singles.of(numbers)[0] if len(numbers) == 1 else tuple(sorted(numbers))
