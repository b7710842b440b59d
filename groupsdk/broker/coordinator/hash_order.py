"""The iteration order of Java's hash tables, by which Kafka breaks ties: its assignors, and votes for a protocol.

A table has a power of two of bins, selected by the low bits of a key's spread hash; keys of one bin form a list.
Bins of eight and more keys, which Java turns into trees, are not modelled: ids do not collide like that by chance.
"""

from collections.abc import Callable, Collection, Hashable, Iterable, Iterator
from functools import lru_cache
from typing import Generic, TypeVar
from uuid import UUID

from groupsdk.wire.coordinator_records.partitioner import java_hash


_WORD = 0xFFFFFFFF
_DOUBLE_WORD = 0xFFFFFFFFFFFFFFFF
_FIRST_BINS = 16
_FIBONACCI = 0x9E3779B97F4A7C15
_KEPT_CHARS = 256
"""Hashes of longer texts, which clients choose up to 32 KiB, are not kept with them."""


K = TypeVar("K", bound=Hashable)


def capacity_for(size: int) -> int:
    """Return the initial capacity that Kafka and Java use for a number of keys."""
    return size * 4 // 3 + 1


def uuid_hash(topic_id: UUID) -> int:
    """Return the hash code of a Kafka Uuid as an unsigned 32-bit integer."""
    folded = (topic_id.int >> 64) ^ (topic_id.int & _DOUBLE_WORD)
    return folded >> 32 ^ folded & _WORD


def text_hash(text: str) -> int:
    """Return the hash code of a Java String, unsigned; cached, since a group's members are sorted at every epoch."""
    return _kept_hash(text) if len(text) <= _KEPT_CHARS else java_hash(text) & _WORD


@lru_cache(maxsize=16_384)
def _kept_hash(text: str) -> int:
    return java_hash(text) & _WORD


def int_hash(number: int) -> int:
    """Return the hash code of a Java Integer, unsigned."""
    return number & _WORD


class HashOrder(Generic[K]):
    """The keys of a Java HashMap or HashSet, in its iteration order."""

    __slots__ = ("_bins", "_code", "_count", "_keys")

    def __init__(self, code: Callable[[K], int], capacity: int = _FIRST_BINS) -> None:
        self._code = code
        self._count = _power_of_two(capacity)
        # only bins that have had keys: most tables have few, and an assignor creates several per member
        self._bins: dict[int, list[K]] = {}
        self._keys: set[K] = set()

    @classmethod
    def of(cls, code: Callable[[K], int], keys: Iterable[K]) -> "HashOrder[K]":
        """Return the order of a HashSet that is constructed from a collection."""
        listed = list(keys)
        made = cls(code, max(capacity_for(len(listed)), _FIRST_BINS))
        for key in listed:
            made.put(key)
        return made

    def put(self, key: K) -> None:
        """Add a key as Java's `put` and `add` do: last in its bin; the table grows afterwards."""
        if key in self._keys:
            return
        self._bin(key).append(key)
        self._keys.add(key)
        if self._is_over():
            self._grow()

    def compute(self, key: K) -> None:
        """Add a key as Java's `computeIfAbsent` does: first in its bin; the table grows beforehand, even for a known key."""
        if self._is_over():
            self._grow()
        if key not in self._keys:
            self._bin(key).insert(0, key)
            self._keys.add(key)

    def remove(self, key: K) -> None:
        """Remove a key; the table does not shrink."""
        self._keys.remove(key)
        self._bin(key).remove(key)

    def __iter__(self) -> Iterator[K]:
        """Iterate over the keys in the table's order."""
        bins = self._bins
        for number in sorted(bins) if len(bins) > 1 else bins:
            yield from bins[number]

    def __len__(self) -> int:
        """Return the number of keys."""
        return len(self._keys)

    def _bin(self, key: K) -> list[K]:
        word = self._code(key) & _WORD
        number = (word ^ word >> 16) & self._count - 1
        found = self._bins.get(number)
        if found is None:
            found = self._bins[number] = []
        return found

    def _is_over(self) -> bool:
        return len(self._keys) > self._count * 3 // 4

    def _grow(self) -> None:
        before = list(self)
        self._count *= 2
        self._bins = {}
        for key in before:
            self._bin(key).append(key)


def timeline_order(keys: Collection[str]) -> list[str]:
    """List keys, in insertion order, in the iteration order of a TimelineHashMap, as the coordinator's state is.

    The high bits of a product select the bin; within one bin, the last comes first.
    """
    bins = 2
    while len(keys) * 3 > bins * 4:
        bins *= 2
    shift = 65 - bins.bit_length()

    def slot(key: str) -> int:
        code = text_hash(key)
        signed = code - 2**32 if code >= 2**31 else code
        return (signed * _FIBONACCI & _DOUBLE_WORD) >> shift

    listed = list(keys)
    listed.reverse()
    return sorted(listed, key=slot)


def members_order(member_ids: Iterable[str], new: Collection[str] = ()) -> list[str]:
    """List members, in the order in which they joined, in the order in which Kafka's assignors iterate them.

    The coordinator copies them from a TimelineHashMap into a HashMap, the `new` ones last.
    """
    every, added = list(member_ids), frozenset(new)
    order: HashOrder[str] = HashOrder(text_hash)
    for member_id in timeline_order([each for each in every if each not in added]):
        order.put(member_id)
    for member_id in every:
        order.put(member_id)
    return list(order)


def _power_of_two(capacity: int) -> int:
    return 1 << max(capacity - 1, 0).bit_length()
