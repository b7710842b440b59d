"""Share out where all members subscribe to the same topics, and racks do not matter."""

from collections.abc import Mapping, Sequence

from assignors.sticky.claims import Ownership
from assignors.sticky.dealing import Hand, Pool, Shedder, merged, tidy, without


def share_evenly(ownership: Ownership, counts: Mapping[str, int]) -> list[Hand]:
    """Give every member the same number of partitions, or one more, and move as few as possible.

    With n = q * M + r partitions for M members, balanced means q for all and q + 1 for r of them. A member
    that owns `own` keeps at most q + 1 if it is one of these r, and at most q otherwise; so nothing
    balanced keeps more than sum(min(own, q)) + min(r, members that own more than q). This keeps just that:
    the r are taken from the members that own more than q, as long as there are any, and nobody gives away
    but what is above its quota. Linear in partitions and members.

    Args:
        ownership: the partitions that have an owner, and the others.
        counts: the topics, with their numbers of partitions.
    """
    owned, sizes = ownership.owned, ownership.sizes
    quota, longer = divmod(sum(counts.values()), len(sizes))
    over = [member for member, size in enumerate(sizes) if size > quota]
    longer_ones = set(over[:longer])
    for member, size in enumerate(sizes):
        if len(longer_ones) == longer:
            break
        if size <= quota:
            longer_ones.add(member)

    kept = list(owned)
    free = {topic: list(numbers) for topic, numbers in ownership.free.items()} if over else {}
    if over:
        shedder = Shedder()
        for member in over:
            excess = sizes[member] - quota - (member in longer_ones)
            if excess:
                shed = shedder.shed(kept[member], excess)
                kept[member] = without(kept[member], shed)
                for topic, numbers in shed.items():
                    free.setdefault(topic, []).extend(numbers)
    needs = {}
    for member, size in enumerate(sizes):
        need = quota + (member in longer_ones) - size
        if need > 0:
            needs[member] = need
    dealt = Pool(free if over else ownership.free).deal(needs) if needs else {}
    return [
        (merged(kept[member], [dealt[member]]) if kept[member] else dealt[member])
        if member in dealt
        else tidy(kept[member])
        for member in range(len(kept))
    ]
