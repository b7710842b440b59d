"""Who may have which rows, as lists: for groups so large and so sparse that sets as bits would be mostly zeros.

Takes memory in the order of the subscriptions, where sets as bits take members * rows / 8 bytes.
"""

from collections import Counter, deque
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import chain, repeat

from assignors.sticky.readership import Readership
from assignors.sticky.rows import Counts, Rows


_NOBODY: frozenset[int] = frozenset()


@dataclass(frozen=True, slots=True)
class Links:
    """Which members may have partitions of which rows.

    Attributes:
        readers: by row: the members subscribed, ascending.
        far: by row: the readers that are in another rack than all replicas.
    """

    readers: list[tuple[int, ...]]
    far: list[frozenset[int]]

    @property
    def have_racks(self) -> bool:
        """Whether some partition is off rack for some member."""
        return any(self.far)


def make_links(
    readership: Readership,
    counts: Mapping[str, int],
    member_racks: Sequence[str | None],
    replica_racks: Mapping[str, Sequence[Collection[str]]],
) -> tuple[Rows, Links]:
    """Group the partitions of all topics as `make_rows` does; the rows have no sets of members.

    Takes time in the order of the subscriptions; with racks in that of partitions and of the readers of
    each topic for each different set of racks as well.
    """
    row_of_topic, readers = _by_readers(readership)
    if not any(member_racks) or not replica_racks:
        sizes = [0] * len(readers)
        for topic, row in row_of_topic.items():
            sizes[row] += counts[topic]
        return Rows(sizes, [], [], row_of_topic, {}), Links(readers, [_NOBODY] * len(readers))
    known: dict[tuple[int, frozenset[str]], frozenset[int]] = {}
    numbers: dict[tuple[int, frozenset[int]], int] = {}
    whole: dict[str, int] = {}
    divided: dict[str, list[int]] = {}
    for topic, audience in row_of_topic.items():
        rows = []
        replicas = [frozenset(filter(None, each)) for each in replica_racks.get(topic, ())]
        missing = counts[topic] - len(replicas)
        for names in chain(replicas[: counts[topic]], repeat(frozenset[str](), max(0, missing))):
            far = known.get((audience, names))
            if far is None:
                far = _NOBODY if not names else _far(readers[audience], member_racks, names)
                known[audience, names] = far
            rows.append(numbers.setdefault((audience, far), len(numbers)))
        if len(set(rows)) == 1:
            whole[topic] = rows[0]
        else:
            divided[topic] = rows
    sizes = [0] * len(numbers)
    for topic, row in whole.items():
        sizes[row] += counts[topic]
    for row, count in Counter(chain.from_iterable(divided.values())).items():
        sizes[row] += count
    links = Links([readers[audience] for audience, _ in numbers], [far for _, far in numbers])
    return Rows(sizes, [], [], whole, divided), links


def _far(
    readers: Iterable[int], racks: Sequence[str | None], names: frozenset[str]
) -> frozenset[int]:
    return frozenset(member for member in readers if racks[member] and racks[member] not in names)


def _by_readers(readership: Readership) -> tuple[dict[str, int], list[tuple[int, ...]]]:
    """Group topics by their subscribers, in order; returns the row of each topic, and the readers of each."""
    found: dict[str, list[int]] = {topic: [] for topic in readership.topics}
    for index, topics in enumerate(readership.topic_lists):
        # A topic that a list has twice counts once.
        once = topics if len(set(topics)) == len(topics) else set(topics)
        deque(map(list.append, map(found.__getitem__, once), repeat(index)), maxlen=0)
    rows: dict[tuple[int, ...], int] = {}
    row_of_topic = {
        topic: rows.setdefault(tuple(lists), len(rows)) for topic, lists in found.items()
    }
    if len(readership.topic_lists) == len(readership.list_of):
        return row_of_topic, list(rows)
    members_of: list[list[int]] = [[] for _ in readership.topic_lists]
    for member, number in enumerate(readership.list_of):
        members_of[number].append(member)
    readers = [
        tuple(sorted(chain.from_iterable(map(members_of.__getitem__, lists)))) for lists in rows
    ]
    return row_of_topic, readers


class Holdings:
    """What members have, as what that differs from what they own.

    Most members of most groups keep what they own, and nobody needs to know of which rows that is.

    Attributes:
        extra: by member: how many of each row it has above what it owns of it.
        lost: by member: how many of each row it has below what it owns of it.
        loads: by member: how many it has in all.

    Args:
        sizes: by member: how many partitions it owns.
        owned: returns how many of each row a member owns; asked once for a member, and only where needed.
    """

    __slots__ = ("_known", "_owned", "extra", "loads", "lost")

    def __init__(self, sizes: Sequence[int], owned: Callable[[int], Counts]) -> None:
        self.extra: list[Counts] = [{} for _ in sizes]
        self.lost: list[Counts] = [{} for _ in sizes]
        self.loads = list(sizes)
        self._owned = owned
        self._known: dict[int, Counts] = {}

    def owned(self, member: int) -> Counts:
        """Return how many of each row a member owns."""
        known = self._known.get(member)
        if known is None:
            # In order, whatever the order of the claim: what is found first depends on it.
            known = self._known[member] = dict(sorted(self._owned(member).items()))
        return known

    def left(self, member: int, row: int) -> int:
        """Return how many of a row a member has."""
        return (
            self.owned(member).get(row, 0)
            + self.extra[member].get(row, 0)
            - self.lost[member].get(row, 0)
        )

    def held(self, member: int) -> Iterable[int]:
        """Return the rows of which a member has some."""
        owned, lost = self.owned(member), self.lost[member]
        kept: Iterable[int] = owned
        if lost:
            kept = [row for row, count in owned.items() if lost.get(row, 0) < count]
        extra = self.extra[member]
        if not extra:
            return kept
        return [*extra, *(row for row in kept if row not in extra)]

    def add(self, member: int, row: int, by: int) -> None:
        """Let a member have more of a row; `loads` are left as they are."""
        lost = self.lost[member]
        if row in lost:
            back = min(by, lost[row])
            _lower(lost, row, back)
            by -= back
        if by:
            extra = self.extra[member]
            extra[row] = extra.get(row, 0) + by

    def take(self, member: int, row: int, by: int) -> None:
        """Let a member have less of a row, which it has; `loads` are left as they are."""
        extra = self.extra[member]
        if row in extra:
            first = min(by, extra[row])
            _lower(extra, row, first)
            by -= first
        if by:
            lost = self.lost[member]
            lost[row] = lost.get(row, 0) + by

    def changes(self) -> tuple[dict[int, Counts], dict[int, Counts]]:
        """Return row to member to how many it has to get, and member to row to how many it has to give."""
        needs: dict[int, Counts] = {}
        for member, extra in enumerate(self.extra):
            for row, count in extra.items():
                if row in needs:
                    needs[row][member] = count
                else:
                    needs[row] = {member: count}
        excess = {
            member: dict(sorted(lost.items())) for member, lost in enumerate(self.lost) if lost
        }
        return needs, excess


def _lower(counts: Counts, row: int, by: int) -> None:
    left = counts[row] - by
    if left:
        counts[row] = left
    else:
        del counts[row]


def pour(supplies: Mapping[int, int], links: Links, holdings: Holdings) -> None:
    """Give out `supplies[row]` partitions of each row to the least loaded readers, and even that out.

    Rows with few readers go first, as they have least choice. Then members above the mean pass on what they
    got to members below it that read it. Both are no more than a good start, which mostly is balanced.
    """
    loads, extra, readers = holdings.loads, holdings.extra, links.readers
    load_of = loads.__getitem__
    for row in sorted(supplies, key=lambda row: (len(readers[row]), row)):
        supply = supplies[row]
        if supply == 1:
            member = min(readers[row], key=load_of)
            extra[member][row] = 1
            loads[member] += 1
            continue
        for member, count in _flood(supply, readers[row], loads):
            extra[member][row] = count
            loads[member] += count
    top = -(-sum(loads) // len(loads))
    # The mean itself may lie between two loads: nobody is to have less than the lower one either.
    for level in (top, top - 1):
        _even_out(level, links, holdings)


def _flood(supply: int, readers: Sequence[int], loads: Sequence[int]) -> list[tuple[int, int]]:
    """Fill up the least loaded members like water; returns those that get some, and how many."""
    ordered = sorted(readers, key=loads.__getitem__)
    wet = below = 0
    for member in ordered:
        if wet and loads[member] * wet - below >= supply:
            break
        below += loads[member]
        wet += 1
    level, longer = divmod(supply + below, wet)
    gains = [
        (member, level - loads[member] + (place < longer))
        for place, member in enumerate(ordered[:wet])
    ]
    return [(member, gain) for member, gain in gains if gain > 0]


def _even_out(level: int, links: Links, holdings: Holdings) -> None:
    loads, extra, readers = holdings.loads, holdings.extra, links.readers
    load_of = loads.__getitem__
    lacking = sum(load < level for load in loads)
    for giver, load in enumerate(list(loads)):
        if not lacking:
            return
        if load <= level or not extra[giver]:
            continue
        for row in list(extra[giver]):
            taker = min(readers[row], key=load_of)
            if loads[taker] >= level:
                continue
            # One each, as a topic is to be spread.
            _lower(extra[giver], row, 1)
            extra[taker][row] = extra[taker].get(row, 0) + 1
            loads[giver] -= 1
            loads[taker] += 1
            lacking -= loads[taker] == level
            if loads[giver] == level:
                break
