"""A copy-on-write mapping: the cost of drafting a group depends on the request's changes, not the group's size."""

from collections.abc import Iterator, Mapping, MutableMapping
from typing import Any, Final, TypeVar

from typing_extensions import override


K = TypeVar("K")
V = TypeVar("V")

_SMALL: Final = 16
"""Up to this size, copying a dictionary is as fast as overlaying it, and reads of the copy are faster."""


class Overlay(MutableMapping[K, V]):
    """A mapping of changes over a base mapping, which is not modified.

    Iteration order is that of a copy of the mapping after the same changes: an existing key
    keeps its place, and a key that was deleted and set again comes last.
    """

    __slots__ = ("_base", "_changed", "_gone")

    def __init__(self, base: Mapping[K, V]) -> None:
        self._base = base
        self._changed: dict[K, V] = {}
        self._gone: set[K] = set()

    @override
    def __getitem__(self, key: K) -> V:
        if key in self._changed:
            return self._changed[key]
        if key in self._gone:
            raise KeyError(key)
        return self._base[key]

    @override
    def get(self, key: K, default: Any = None) -> Any:
        """Return the value of a key, or the default."""
        if key in self._changed:
            return self._changed[key]
        return default if key in self._gone else self._base.get(key, default)

    @override
    def __setitem__(self, key: K, value: V) -> None:
        """Set a value."""
        self._changed[key] = value

    @override
    def __delitem__(self, key: K) -> None:
        if key not in self:
            raise KeyError(key)
        self._changed.pop(key, None)
        if key in self._base:
            self._gone.add(key)

    @override
    def __contains__(self, key: object) -> bool:
        """Return whether there is a key."""
        return key in self._changed or (key in self._base and key not in self._gone)

    @override
    def __iter__(self) -> Iterator[K]:
        """Iterate over the keys."""
        gone, base = self._gone, self._base
        for key in base:
            if key not in gone:
                yield key
        for key in self._changed:
            if key in gone or key not in base:
                yield key

    @override
    def __len__(self) -> int:
        """Return the number of keys."""
        gone, base = self._gone, self._base
        more = sum(1 for key in self._changed if key in gone or key not in base)
        return len(base) - len(gone) + more


def draft_of(table: Mapping[K, V]) -> MutableMapping[K, V]:
    """Return a mutable copy of a mapping, valid as long as the mapping itself does not change."""
    return dict(table) if len(table) <= _SMALL else Overlay(table)
