"""The problem in numbers: which rows of alike partitions there are, and who may have them."""

from collections import Counter
from collections.abc import Collection, Mapping, Sequence, Set
from dataclasses import dataclass

from assignors.sticky.bits import transpose
from groupsdk.assignment import Partitions


Counts = dict[int, int]
"""Row to a number of partitions above 0."""


@dataclass(frozen=True, slots=True)
class Rows:
    """Partitions that no rule tells apart, grouped: same subscribers, and replicas in the same racks.

    Attributes:
        sizes: by row: number of partitions.
        readers: by row: the set of members subscribed.
        far: by row: the readers that are in another rack than all replicas.
        row_of_topic: for topics that lie in one row as a whole.
        rows_of_topic: for the others, by partition.
    """

    sizes: list[int]
    readers: list[int]
    far: list[int]
    row_of_topic: dict[str, int]
    rows_of_topic: dict[str, list[int]]

    @property
    def have_racks(self) -> bool:
        """Whether some partition is off rack for some member."""
        return any(self.far)

    def count(self, partitions: Partitions) -> Counts:
        """Count some partitions by row."""
        counts: Counts
        if not self.rows_of_topic and all(partitions.values()):
            rows_found = map(self.row_of_topic.__getitem__, partitions)
            if len(self.row_of_topic) == len(self.sizes):
                return dict(zip(rows_found, map(len, partitions.values()), strict=True))
            if sum(map(len, partitions.values())) == len(partitions):
                return dict(Counter(rows_found))
        counts = {}
        for topic, numbers in partitions.items():
            rows = self.rows_of_topic.get(topic)
            if rows is not None:
                for number in numbers:
                    row = rows[number]
                    counts[row] = counts.get(row, 0) + 1
            elif numbers:
                row = self.row_of_topic[topic]
                counts[row] = counts.get(row, 0) + len(numbers)
        return counts

    def split(
        self, partitions: Partitions, only: Collection[int] | None = None
    ) -> dict[int, dict[str, Sequence[int]]]:
        """Tell partitions apart by row.

        Args:
            partitions: any.
            only: the rows that are asked for; what lies in others may be left out.
        """
        parts: dict[int, dict[str, Sequence[int]]] = {}
        for topic, numbers in partitions.items():
            rows = self.rows_of_topic.get(topic)
            if rows is None:
                row = self.row_of_topic[topic]
                if numbers and (only is None or row in only):
                    parts.setdefault(row, {})[topic] = numbers
            elif len(numbers) == 1:
                parts.setdefault(rows[numbers[0]], {})[topic] = numbers
            else:
                by_row: dict[int, list[int]] = {}
                for number in numbers:
                    by_row.setdefault(rows[number], []).append(number)
                for row, those in by_row.items():
                    parts.setdefault(row, {})[topic] = those
        return parts


def make_rows(
    subscribed: Sequence[Set[str]],
    counts: Mapping[str, int],
    member_racks: Sequence[str | None],
    replica_racks: Mapping[str, Sequence[Collection[str]]],
) -> Rows:
    """Group the partitions of all topics.

    Takes time in the order of the subscriptions and of members * rows / 8 bytes of memory moved.

    Args:
        subscribed: by member; equal ones are best the same object.
        counts: the known topics that have a subscriber, with their numbers of partitions.
        member_racks: by member; None where it does not say.
        replica_racks: topic to the racks of each partition's replicas, where known.
    """
    topics = sorted(counts)
    row_of_topic, readers = _readers(subscribed, topics)
    sizes = [0] * len(readers)
    in_rack: dict[str, int] = {}
    for member, rack in enumerate(member_racks):
        if rack:
            in_rack[rack] = in_rack.get(rack, 0) | 1 << member
    if not in_rack or not replica_racks:
        for topic, row in row_of_topic.items():
            sizes[row] += counts[topic]
        return Rows(sizes, readers, [0] * len(readers), row_of_topic, {})

    racks = _Racks(in_rack)
    numbers: dict[tuple[int, int], int] = {}
    sizes = []
    whole: dict[str, int] = {}
    divided: dict[str, list[int]] = {}
    for topic in topics:
        audience = readers[row_of_topic[topic]]
        far = racks.far(replica_racks.get(topic, ()), counts[topic])
        rows_of_far: dict[int, int] = {}
        for each, size in Counter(far).items():
            key = (audience, each & audience)
            row = rows_of_far[each] = numbers.setdefault(key, len(numbers))
            if row == len(sizes):
                sizes.append(0)
            sizes[row] += size
        used = set(rows_of_far.values())
        if len(used) == 1:
            whole[topic] = used.pop()
        else:
            divided[topic] = list(map(rows_of_far.__getitem__, far))
    return Rows(sizes, [key[0] for key in numbers], [key[1] for key in numbers], whole, divided)


class _Racks:
    """Finds the members that are off rack for a partition."""

    def __init__(self, in_rack: Mapping[str, int]) -> None:
        self._in_rack = in_rack
        self._everyone = sum(in_rack.values())
        self._known: dict[tuple[str, ...] | frozenset[str], int] = {}

    def far(self, replicas: Sequence[Collection[str]], count: int) -> list[int]:
        """List the members off rack, by partition; nobody where the replicas' racks are not known."""
        found = []
        for racks in replicas[:count]:
            key = racks if isinstance(racks, tuple | frozenset) else tuple(racks)
            far = self._known.get(key)
            if far is None:
                far = self._known[key] = self._find(key)
            found.append(far)
        found.extend([0] * (count - len(found)))
        return found

    def _find(self, racks: tuple[str, ...] | frozenset[str]) -> int:
        names = {rack for rack in racks if rack}
        if not names:
            return 0
        near = sum(self._in_rack.get(rack, 0) for rack in names)
        return self._everyone & ~near


def _readers(
    subscribed: Sequence[Set[str]], topics: Sequence[str]
) -> tuple[dict[str, int], list[int]]:
    """Group topics by their subscribers; returns the row of each topic, and the readers of each row."""
    number = {topic: index for index, topic in enumerate(topics)}
    lists: dict[int, int] = {}
    list_of = [lists.setdefault(id(each), len(lists)) for each in subscribed]
    distinct = {id(each): each for each in subscribed}
    wanted = []
    for each in map(distinct.__getitem__, lists):
        text = bytearray(b"0") * len(topics)
        for index in map(number.__getitem__, each):
            text[index] = 49
        text.reverse()
        wanted.append(int(text, 2))
    rows: dict[int, int] = {}
    columns = transpose(wanted, len(topics))
    row_of_topic = {
        topic: rows.setdefault(column, len(rows))
        for topic, column in zip(topics, columns, strict=True)
    }
    if len(lists) == len(subscribed):
        return row_of_topic, list(rows)
    rows_of_list = transpose(list(rows), len(lists))
    return row_of_topic, transpose([rows_of_list[each] for each in list_of], len(rows))
