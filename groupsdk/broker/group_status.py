"""Name the states of groups of both protocols, and show how far a group is."""

from dataclasses import dataclass
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


class ConsumerGroupState(Enum):
    """How far a group is, under Kafka's names."""

    EMPTY = "Empty"
    ASSIGNING = "Assigning"
    RECONCILING = "Reconciling"
    STABLE = "Stable"
    DEAD = "Dead"


_REBALANCING: Final = frozenset(
    {"PreparingRebalance", "CompletingRebalance", "Assigning", "Reconciling"}
)


@dataclass(frozen=True, slots=True)
class GroupStatus:
    """Say how far a group of either kind is, and whom it waits for: what to ask when a rebalance takes long.

    Attributes:
        generation_id: of a consumer group its epoch.
        since_ms: since when it is in its state; None if its record does not say, as a consumer group's does not.
        waiting_for: the members that have not joined, or not synced, and ids that have not come back; of a consumer
            group, those that have a step to take.
        until_ms: when it goes on without them; None while it waits for nobody.
    """

    group_id: str
    state: GroupState | ConsumerGroupState
    generation_id: int
    since_ms: int | None
    waiting_for: tuple[str, ...]
    until_ms: int | None

    @property
    def is_rebalancing(self) -> bool:
        """Return whether members have no assignment to work on, or not the one that they are to have."""
        return self.state.value in _REBALANCING
