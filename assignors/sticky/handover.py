"""From numbers to partitions: who keeps which, who gives which away, and who gets those."""

from collections.abc import Mapping, Sequence

from assignors.sticky.claims import Ownership
from assignors.sticky.hands import Arranger, Hand
from assignors.sticky.pool import Pool
from assignors.sticky.rows import Rows
from assignors.sticky.shedding import Shedder, without


Changes = Mapping[int, Mapping[int, int]]
"""Number of partitions, above 0, by two of row and member."""

_ONLY_ROW = 0


def hand_over(
    ownership: Ownership, needs: Changes, excess: Changes, rows: Rows | None = None
) -> list[Hand]:
    """Let members keep their own as far as that is wanted, and deal the rest.

    Args:
        ownership: the partitions that have an owner, and the others.
        needs: row to member to how many it is to get.
        excess: member to row to how many it is to give away; it has at least as many.
        rows: the rows; without, all partitions are in row 0.

    Returns:
        By member.
    """
    kept, sizes = list(ownership.owned), list(ownership.sizes)
    given: dict[int, dict[str, list[int]]] = {}
    shedder = Shedder()
    for member in sorted(excess):
        parts = rows.split(kept[member], excess[member]) if rows else {_ONLY_ROW: kept[member]}
        for row, count in excess[member].items():
            shed = shedder.shed(parts[row], count)
            kept[member] = without(kept[member], shed)
            sizes[member] -= count
            pool = given.setdefault(row, {})
            for topic, numbers in shed.items():
                pool.setdefault(topic, []).extend(numbers)
    pools: dict[int, dict[str, Sequence[int]]] = {}
    if needs:
        pools = rows.split(ownership.free) if rows else {_ONLY_ROW: dict(ownership.free)}
    for row, pool in given.items():
        free = pools.setdefault(row, {})
        for topic, numbers in pool.items():
            free[topic] = [*free.get(topic, ()), *numbers]
    arranger = Arranger()
    dealt = _deal(needs, pools, arranger, apart=bool(rows and rows.rows_of_topic))
    return [
        (arranger.merged(own, size, dealt[member]) if own else dealt[member])
        if member in dealt
        else arranger.tidy(own, size)
        for member, (own, size) in enumerate(zip(kept, sizes, strict=True))
    ]


def _deal(
    needs: Changes,
    pools: Mapping[int, Mapping[str, Sequence[int]]],
    arranger: Arranger,
    *,
    apart: bool,
) -> dict[int, Hand]:
    """Deal from the pool of each row; `apart` where more than one row has partitions of a topic."""
    hands: dict[int, Hand] = {}
    for row in sorted(needs):
        wanted = needs[row]
        if apart:
            new: dict[int, Hand] = {}
            Pool(pools[row]).deal(wanted, new)
            for member, hand in new.items():
                before = hands.get(member)
                hands[member] = (
                    hand if before is None else arranger.merged(before, _size(before), hand)
                )
        else:
            Pool(pools[row]).deal(wanted, hands)
    if len(needs) > 1 and not apart:
        # Rows are in order of topics only where each is one topic.
        return {member: arranger.tidy(hand, _size(hand)) for member, hand in hands.items()}
    return hands


def _size(hand: Hand) -> int:
    return sum(map(len, hand.values()))
