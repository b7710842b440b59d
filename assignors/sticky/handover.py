"""From numbers to partitions: who keeps which, who gives which away, and who gets those."""

from collections.abc import Mapping, Sequence

from assignors.sticky.claims import Ownership
from assignors.sticky.pool import Hand, Pool, merged, tidy
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
    kept = list(ownership.owned)
    pools: dict[int, dict[str, Sequence[int]]] = {}
    if needs:
        pools = rows.split(ownership.free) if rows else {_ONLY_ROW: dict(ownership.free)}
    shedder = Shedder()
    for member in sorted(excess):
        for row, count in excess[member].items():
            part = rows.select(kept[member], row) if rows else kept[member]
            shed = shedder.shed(part, count)
            kept[member] = without(kept[member], shed)
            pool = pools.setdefault(row, {})
            for topic, numbers in shed.items():
                before = pool.get(topic)
                if isinstance(before, list):
                    before.extend(numbers)
                else:
                    pool[topic] = [*(before or ()), *numbers]
    dealt = _deal(needs, pools, apart=rows is not None and bool(rows.rows_of_topic))
    return [
        (merged(own, dealt[member]) if own else dealt[member]) if member in dealt else tidy(own)
        for member, own in enumerate(kept)
    ]


def _deal(
    needs: Changes, pools: Mapping[int, Mapping[str, Sequence[int]]], *, apart: bool
) -> dict[int, Hand]:
    """Deal from the pool of each row; `apart` where more than one row has partitions of a topic."""
    hands: dict[int, Hand] = {}
    for row in sorted(needs):
        wanted = needs[row]
        if apart:
            new: dict[int, Hand] = {member: {} for member in wanted}
            Pool(pools[row]).deal(wanted, new)
            for member, hand in new.items():
                hands[member] = merged(hands[member], hand) if member in hands else hand
        else:
            for member in wanted:
                if member not in hands:
                    hands[member] = {}
            Pool(pools[row]).deal(wanted, hands)
    # Rows are in order of topics only where each is one topic.
    return {member: tidy(hand) for member, hand in hands.items()} if len(needs) > 1 else hands
