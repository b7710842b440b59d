"""From numbers to partitions: who keeps which, who gives which away, and who gets those."""

from bisect import bisect_left
from collections import defaultdict
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import cast

from assignors.sticky.claims import Ownership
from assignors.sticky.hands import Hand, by_topic, merged, tidy
from assignors.sticky.pool import Pool, Singles
from assignors.sticky.rows import Counts, Rows
from groupsdk.assignment import Partitions


def without(partitions: Partitions, shed: Mapping[str, Sequence[int]]) -> Partitions:
    """Leave some partitions out, of those that are there."""
    left = dict(partitions)
    for topic, numbers in shed.items():
        if len(numbers) == len(left[topic]):
            del left[topic]
        else:
            gone = set(numbers)
            left[topic] = tuple([number for number in left[topic] if number not in gone])
    return left


class Shedder:
    """Decides which partitions a member gives away when all that counts is how many.

    Those of the topics that it has most of, so that each topic stays spread; of a topic the last ones, as
    Java's assignors do. Among topics it has equally many of, one after the other is taken, and the next
    member goes on where this one stopped: or all members would give away the same topic, and whoever
    joins would read nothing else.
    """

    __slots__ = ("_next",)

    def __init__(self) -> None:
        self._next = ""

    def shed(self, partitions: Mapping[str, Sequence[int]], count: int) -> dict[str, list[int]]:
        """Choose `count` of a member's partitions, which has at least as many."""
        lengths = list(map(len, partitions.values()))
        most = max(lengths, default=0)
        if count < lengths.count(most):
            # One each of some of those that it has most of: by far the most common.
            tall = [t for t, n in zip(partitions, lengths, strict=True) if n == most]
            return {topic: [max(partitions[topic])] for topic in self._turn(sorted(tall), count)}
        heights = dict(zip(partitions, lengths, strict=True))
        level = _level(heights.values(), sum(heights.values()) - count)
        cut = {topic: height - level for topic, height in heights.items() if height > level}
        extra = count - sum(cut.values())
        if extra:
            # The level is the lowest that does not take too many; what is missing comes from those on it.
            on_level = sorted([topic for topic, height in heights.items() if height >= level])
            for topic in self._turn(on_level, extra):
                cut[topic] = cut.get(topic, 0) + 1
        return {topic: sorted(partitions[topic])[-number:] for topic, number in cut.items()}

    def _turn(self, topics: list[str], count: int) -> list[str]:
        """Take so many of some topics in order, from where the last ones were taken."""
        start = bisect_left(topics, self._next)
        taken = (topics + topics)[start : start + count]
        if taken:
            self._next = taken[-1] + "\0"
        return taken


def _level(heights: Iterable[int], keep: int) -> int:
    """Find the lowest level to which all heights can be cut so that at least `keep` is left."""
    level = left = 0
    ordered = sorted(heights)
    for index, height in enumerate(ordered):
        higher = len(ordered) - index
        if left + (height - level) * higher >= keep:
            return level - (left - keep) // higher
        left += (height - level) * higher
        level = height
    return level


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
