"""Index the subscriptions: members, topics and topic lists become numbers."""

from collections.abc import Collection, Iterable, Sequence

from assignors.sticky.bitsets import bitset, transpose


_ZERO, _ONE = b"01"
_SPARSE = 20
_LARGE = 1 << 23
"""Below this many members * topics, bit sets are small whatever they hold."""


class SubscriptionIndex:
    """The topics that members subscribe to, by number.

    Building it takes time linear in the subscriptions, plus moving members * topics / 8 bytes of memory. `list_of` has the number of
    each member's topic list. If most members have a list of their own, all are treated as if they had.
    """

    __slots__ = (
        "_are_shared",
        "_are_short",
        "_lists",
        "_made",
        "_number",
        "_sets",
        "_subscriptions",
        "list_of",
        "topics",
    )

    def __init__(self, subscribed: Sequence[Collection[str]], topics: Iterable[str]) -> None:
        self.topics = sorted(topics)
        self._number = {topic: number for number, topic in enumerate(self.topics)}
        lists: dict[int, int] = {}
        self.list_of = [lists.setdefault(id(each), len(lists)) for each in subscribed]
        self._are_shared = 2 * len(lists) <= len(subscribed)
        if self._are_shared:
            distinct = {id(each): each for each in subscribed}
            self._lists = [distinct[each] for each in lists]
        else:
            # Mapping lists back to members would cost more than looking at some lists twice.
            self.list_of = list(range(len(subscribed)))
            self._lists = list(subscribed)
        # Lists with few of the topics, and shared lists, are fastest as sets.
        self._are_short = sum(map(len, self._lists)) * _SPARSE < len(self._lists) * len(self.topics)
        self._subscriptions = sum(map(len, subscribed))
        self._sets: dict[int, frozenset[str]] = {}
        self._made: list[bytearray] | None = None

    @property
    def lists(self) -> int:
        """The number of distinct topic lists; 1 if all members have the same one."""
        return len(self._lists)

    @property
    def topic_lists(self) -> Sequence[Collection[str]]:
        return self._lists

    @property
    def is_sparse(self) -> bool:
        """Whether bit sets would take far more memory and time than adjacency lists."""
        possible = len(self.list_of) * len(self.topics)
        return possible > _LARGE and self._subscriptions * _SPARSE < possible

    def has_all(self, member: int, topics: Collection[str]) -> bool:
        if self._are_shared or self._are_short:
            return self.known(member).issuperset(topics)
        # Building sets of all lists would take more time and memory than the rest of the plan.
        line = self._lines()[self.list_of[member]]
        try:
            return _ZERO not in map(line.__getitem__, map(self._number.__getitem__, topics))
        except KeyError:
            return False

    def known(self, member: int) -> frozenset[str]:
        number = self.list_of[member]
        if not self._are_shared:
            # Not cached: it is seldom needed twice and many times larger than the list.
            return frozenset(self._lists[number])
        if number not in self._sets:
            self._sets[number] = frozenset(self._lists[number])
        return self._sets[number]

    def rows(self) -> tuple[dict[str, int], list[int]]:
        """Group topics by their subscribers. Return the row of each topic and the readers of each row."""
        rows: dict[int, int] = {}
        row_of_topic = {
            topic: rows.setdefault(column, len(rows))
            for topic, column in zip(self.topics, self._columns(), strict=True)
        }
        if not self._are_shared:
            return row_of_topic, list(rows)
        rows_of_list = transpose(list(rows), len(self._lists))
        return row_of_topic, transpose([rows_of_list[each] for each in self.list_of], len(rows))

    def _columns(self) -> list[int]:
        """Return, by topic number, the set of lists that contain the topic."""
        width = len(self.topics)
        if self._are_short:
            found: list[list[int]] = [[] for _ in range(width)]
            for index, each in enumerate(self._lists):
                for topic in each:
                    found[self._number[topic]].append(index)
            return list(map(bitset, found))
        # Reversed, so that each column reads as a binary number.
        matrix = b"".join(reversed(self._lines()))
        return [int(matrix[index::width], 2) for index in range(width)]

    def _lines(self) -> list[bytearray]:
        """Return one bytes row for each list: "1" at the numbers of its topics, "0" elsewhere."""
        if self._made is None:
            number, width = self._number, len(self.topics)
            self._made = []
            for each in self._lists:
                line = bytearray(b"0") * width
                for topic in each:
                    line[number[topic]] = _ONE
                self._made.append(line)
        return self._made
