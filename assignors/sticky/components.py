"""Split a block into its connected components: members that have no row in common, nor through others, share nothing.

Each component balances within itself, so a block of many is solved a component at a time: how often a flow searches
goes by the greatest of them, and not by all.
"""

from collections.abc import Callable, Iterable, Iterator, Sequence

from assignors.sticky.max_flow import Block


_PASSES = 4
_BRIEF = 32
"""So many items of each group mostly tell that all are connected."""

_TOGETHER = 64
"""Components with fewer members are solved together: each flow costs a little for the whole group."""


def components(groups: Sequence[Sequence[int]], items: int) -> list[list[int]]:
    """Return which groups of items, each below `items`, are connected: by items they share, or through others.

    Linear in the groups, but for the logarithm of a union-find. A group without items is a component of its own.
    """
    if not groups:
        return []
    # Mostly all are connected, or nearly all are, which sets find in a fraction of the time.
    every = range(1, len(groups))
    if not _left_out(set(groups[0]), groups, every, _BRIEF):
        return [list(range(len(groups)))]
    seen, rest = set(groups[0]), list(every)
    for _ in range(_PASSES):
        left = _left_out(seen, groups, rest)
        if not left:
            return [list(range(len(groups)))]
        if len(left) == len(rest):
            others = set(left)
            first = [index for index in range(len(groups)) if index not in others]
            return [first, *_united(groups, left, items)]
        rest = left
    return _united(groups, range(len(groups)), items)


def _left_out(
    seen: set[int],
    groups: Sequence[Sequence[int]],
    indexes: Iterable[int],
    most: int | None = None,
) -> list[int]:
    """Take in what shares an item with what was seen, so many items of each; returns which groups do not."""
    left = []
    for index in indexes:
        if seen.isdisjoint(groups[index]):
            left.append(index)
        else:
            seen.update(groups[index][:most])
    return left


def _united(groups: Sequence[Sequence[int]], indexes: Sequence[int], items: int) -> list[list[int]]:
    parent = list(range(items))
    found: dict[int, list[int]] = {}
    for index in indexes:
        group = iter(groups[index])
        first = _root(parent, next(group, -1))
        for item in group:
            root = item
            while parent[root] != root:
                parent[root] = root = parent[parent[root]]
            parent[root] = first
    for index in indexes:
        group = iter(groups[index])
        item = next(group, -1)
        found.setdefault(_root(parent, item) if item >= 0 else -1 - index, []).append(index)
    return list(found.values())


def _root(parent: list[int], item: int) -> int:
    while parent[item] != item:
        parent[item] = item = parent[parent[item]]
    return item


def split_block(
    block: Block, loads: Sequence[int], parts: Callable[[], list[list[int]]]
) -> Iterator[Block]:
    """Yield the blocks of the components of a block, small ones together; `parts` has places in its members.

    The loads of a component are balanced as they are, so that those of its members tell how many have `level`.
    """
    if len(block.members) <= _TOGETHER:
        yield block
        return
    found = parts()
    if len(found) == 1:
        yield block
        return
    places: list[int] = []
    for number, part in enumerate(found, 1):
        places += part
        if len(places) >= _TOGETHER or (places and number == len(found)):
            members = [block.members[place] for place in sorted(places)]
            longer = sum(loads[member] == block.level for member in members)
            yield Block(members, block.level, longer)
            places = []
