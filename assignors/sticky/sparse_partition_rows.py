"""Rows, and who may have them, in very large and sparse groups.

Sets of bits take members * rows / 8 bytes, however few are in them. Here each member has the list of rows that it
reads, and nobody lists the readers of a row: turning the subscriptions around would take most of the time.
So searches run backwards, from members with room to the rows that they read, and on to whoever has those.
"""

from collections import Counter
from collections.abc import Collection, Iterable, Mapping, Sequence
from itertools import chain
from operator import itemgetter

from assignors.sticky.partition_rows import PartitionRows
from assignors.sticky.subscription_index import SubscriptionIndex


Racks = frozenset[str] | None
"""Racks of the replicas of a row; None where no member is off rack."""


class SparsePartitionRows:
    """All partitions, grouped without sets of readers, and who may have them."""

    __slots__ = ("_list_of", "_lists", "_member_racks", "_racks", "rows")

    def __init__(
        self,
        rows: PartitionRows,
        lists: Sequence[Sequence[int]],
        list_of: Sequence[int],
        member_racks: Sequence[str | None] = (),
        racks: Sequence[Racks] = (),
    ) -> None:
        self.rows = rows
        self._lists = lists
        self._list_of = list_of
        self._member_racks = member_racks
        self._racks = racks

    @property
    def have_racks(self) -> bool:
        """Whether some partition may be off rack for some member."""
        return any(racks is not None for racks in self._racks)

    def read_by(self, member: int) -> Sequence[int]:
        return self._lists[self._list_of[member]]

    def is_off_rack(self, row: int, member: int) -> bool:
        """Return whether all replicas of a row are in other racks than the member, if it has one."""
        racks, own = self._racks[row], self._member_racks[member]
        return racks is not None and bool(own) and own not in racks


def make_sparse_partition_rows(
    subscription_index: SubscriptionIndex,
    counts: Mapping[str, int],
    member_racks: Sequence[str | None],
    replica_racks: Mapping[str, Sequence[Collection[str]]],
) -> SparsePartitionRows:
    """Group the partitions of all topics, in time linear in subscriptions and partitions.

    Topics are grouped by their readers only if members share lists of topics. Otherwise hardly two topics have the
    same readers, and each is a row, numbered in order.
    """
    topics = subscription_index.topics
    number = {topic: index for index, topic in enumerate(topics)}
    of_list = [_once(each, number) for each in subscription_index.topic_lists]
    # The same topics in another order are the same list.
    places: dict[tuple[int, ...], int] = {}
    place_of_list = [places.setdefault(each, len(places)) for each in of_list]
    list_of = [place_of_list[each] for each in subscription_index.list_of]
    lists: list[Sequence[int]] = list(places)
    row_of_topic: Sequence[int] = range(len(topics))
    if 2 * len(lists) <= len(list_of):
        row_of_topic, lists = _grouped(lists, len(topics))
    known_racks = frozenset(filter(None, member_racks))
    if not known_racks or not replica_racks:
        sizes = [0] * (1 + max(row_of_topic))
        for topic, row in zip(topics, row_of_topic, strict=True):
            sizes[row] += counts[topic]
        whole = dict(zip(topics, row_of_topic, strict=True))
        return SparsePartitionRows(PartitionRows(sizes, [], [], whole, {}), lists, list_of)
    rows, parts, racks = _divided(topics, counts, row_of_topic, replica_racks, known_racks)
    lists = [sorted(chain.from_iterable(map(parts.__getitem__, each))) for each in lists]
    return SparsePartitionRows(rows, lists, list_of, member_racks, racks)


def _once(topics: Collection[str], number: Mapping[str, int]) -> tuple[int, ...]:
    """Number topics, in order and without those that come twice."""
    if len(topics) == 1:
        return tuple(map(number.__getitem__, topics))
    # one call for all of them takes a third less than `map`
    found = sorted(itemgetter(*topics)(number))
    return tuple(found if len(set(found)) == len(found) else sorted(set(found)))


def _grouped(
    lists: Sequence[Sequence[int]], topics: int
) -> tuple[Sequence[int], list[Sequence[int]]]:
    """Group topics that are in the same lists; returns the row of each topic, and the rows of each list."""
    found: list[list[int]] = [[] for _ in range(topics)]
    for index, each in enumerate(lists):
        for topic in each:
            found[topic].append(index)
    numbers: dict[tuple[int, ...], int] = {}
    row_of_topic = [numbers.setdefault(tuple(each), len(numbers)) for each in found]
    reads: list[Sequence[int]] = [sorted({row_of_topic[topic] for topic in each}) for each in lists]
    return row_of_topic, reads


def _divided(
    topics: Sequence[str],
    counts: Mapping[str, int],
    row_of_topic: Sequence[int],
    replica_racks: Mapping[str, Sequence[Collection[str]]],
    known_racks: frozenset[str],
) -> tuple[PartitionRows, Sequence[Collection[int]], Sequence[Racks]]:
    """Divide rows by racks; returns the new ones, their numbers by what they were divided from, and racks."""
    parts: list[dict[Racks, int]] = [{} for _ in range(1 + max(row_of_topic))]
    racks_of: list[Racks] = []
    whole: dict[str, int] = {}
    divided: dict[str, list[int]] = {}
    for topic, undivided in zip(topics, row_of_topic, strict=True):
        part = parts[undivided]
        rows = []
        for racks in _racks(replica_racks.get(topic, ()), counts[topic], known_racks):
            row = part.setdefault(racks, len(racks_of))
            if row == len(racks_of):
                racks_of.append(racks)
            rows.append(row)
        if len(set(rows)) == 1:
            whole[topic] = rows[0]
        else:
            divided[topic] = rows
    sizes = [0] * len(racks_of)
    for topic, row in whole.items():
        sizes[row] += counts[topic]
    for row, count in Counter(chain.from_iterable(divided.values())).items():
        sizes[row] += count
    return (
        PartitionRows(sizes, [], [], whole, divided),
        [list(part.values()) for part in parts],
        racks_of,
    )


def _racks(
    replicas: Sequence[Collection[str]], count: int, known_racks: frozenset[str]
) -> Iterable[Racks]:
    """Yield the racks of each partition, without those in which no member is."""
    seen: dict[Collection[str], Racks] = {}
    for each in replicas[:count]:
        key = each if isinstance(each, tuple | frozenset) else frozenset(each)
        if key not in seen:
            names = frozenset(filter(None, key))
            near = names & known_racks
            seen[key] = None if not names or near == known_racks else near
        yield seen[key]
    for _ in range(len(replicas), count):
        yield None
