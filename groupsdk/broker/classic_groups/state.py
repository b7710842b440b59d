"""Name the states of a group, and which may follow which."""

from collections.abc import Mapping
from typing import Final

from groupsdk.broker.group_status import GroupState


_EMPTY, _PREPARING, _COMPLETING, _STABLE, _DEAD = GroupState

TRANSITIONS: Final[Mapping[GroupState, frozenset[GroupState]]] = {
    _EMPTY: frozenset({_PREPARING, _DEAD}),
    _PREPARING: frozenset({_COMPLETING, _EMPTY, _DEAD}),
    _COMPLETING: frozenset({_STABLE, _PREPARING, _DEAD}),
    _STABLE: frozenset({_PREPARING, _DEAD}),
    _DEAD: frozenset({_DEAD}),
}
"""Where a group can go from each state (Kafka: ClassicGroupState)."""
