"""Share out where all members subscribe to the same topics, and racks do not matter."""

from assignors.sticky.claims import Ownership
from assignors.sticky.handover import Handover, hand_over


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
