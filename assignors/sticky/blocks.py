"""Split the members into blocks, each of which is level in every balanced assignment."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol

from assignors.sticky.bits import bitset


@dataclass(frozen=True, slots=True)
class Block:
    """Members that share the rows they have among each other only.

    Attributes:
        members: ascending.
        level: the load of some of them; the others have one less.
        longer: how many have `level`.
    """

    members: list[int]
    level: int
    longer: int


class Levels(Protocol):
    """Loads that can be levelled, as by `Leveller`."""

    @property
    def loads(self) -> Sequence[int]:
        """By member: how many partitions it has."""
        ...

    def level(self, members: Sequence[int], top: int) -> int:
        """Move what some members have above `top` to others of them that have less, as much as can be."""
        ...


def find_blocks(leveller: Levels, members: Sequence[int]) -> list[Block]:
    """Balance the loads, and tell which members balance with each other.

    Take the mean load of some members, rounded up. Where not all that is above can be moved below, the
    members it could be moved to share more than fits under the mean: a denser part that nobody outside
    of it can help, so that it can be looked at alone, and the rest too. Where all can be moved, one
    less is tried. That cannot succeed, being below the mean; the members over it, and those that they could
    give to, are a block with loads of `level` and `level - 1`, and the rest is looked at alone.
    Every round splits a part or finishes one: fewer than two levellings for each member.

    Args:
        leveller: shares that are valid; levelled by this.
        members: all of them.
    """
    loads = leveller.loads
    blocks = []
    parts = [list(members)]
    while parts:
        part = parts.pop()
        total = sum(map(loads.__getitem__, part))
        if not total:
            continue
        level = -(-total // len(part))
        reached = leveller.level(part, level)
        if not reached:
            if min(map(loads.__getitem__, part)) < level - 1:
                reached = leveller.level(part, level - 1)
            else:
                # No need to look for a smaller block: within these loads anything is balanced.
                reached = bitset(part)
            block = [member for member in part if reached >> member & 1]
            longer = sum(loads[member] == level for member in block)
            blocks.append(Block(block, level, longer))
        else:
            parts.append([member for member in part if reached >> member & 1])
        rest = [member for member in part if not reached >> member & 1]
        if rest:
            parts.append(rest)
    return blocks
