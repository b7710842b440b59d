"""Name the states of a group, and which may follow which."""

from collections.abc import Mapping
from enum import Enum
from typing import Final


class GroupState(Enum):
    """The state of a classic group; the value is its name on the wire."""

    EMPTY = "Empty"
    """No members; offsets, perhaps."""
    PREPARING_REBALANCE = "PreparingRebalance"
    """Waits for members to join."""
    COMPLETING_REBALANCE = "CompletingRebalance"
    """Has a new generation, and waits for the leader's assignment."""
    STABLE = "Stable"
    """Every member has, or can have, its assignment."""
    DEAD = "Dead"
    """Gone from this coordinator."""


_EMPTY, _PREPARING, _COMPLETING, _STABLE, _DEAD = GroupState

TRANSITIONS: Final[Mapping[GroupState, frozenset[GroupState]]] = {
    _EMPTY: frozenset({_PREPARING, _DEAD}),
    _PREPARING: frozenset({_COMPLETING, _EMPTY, _DEAD}),
    _COMPLETING: frozenset({_STABLE, _PREPARING, _DEAD}),
    _STABLE: frozenset({_PREPARING, _DEAD}),
    _DEAD: frozenset({_DEAD}),
}
"""Where a group can go from each state (Kafka: ClassicGroupState)."""
