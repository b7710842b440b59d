"""The states of groups of both protocols, the transitions of classic ones, and the status of a group."""

from collections.abc import Mapping
from dataclasses import dataclass
from enum import Enum
from typing import Final


class GroupState(Enum):
    """The state of a classic group; the value is its name on the wire."""

    EMPTY = "Empty"
    """It has no members, perhaps offsets; it waits for a first member, or until its offsets expire."""
    PREPARING_REBALANCE = "PreparingRebalance"
    """It parks joins until all members have joined or the rebalance timeout ends."""
    COMPLETING_REBALANCE = "CompletingRebalance"
    """It has a new generation, and parks syncs until the leader's assignment is in the log."""
    STABLE = "Stable"
    """It answers syncs and heartbeats from the assignment that is in the log."""
    DEAD = "Dead"
    """It answers everything with COORDINATOR_NOT_AVAILABLE; the coordinator is elsewhere."""


class GroupTrigger(Enum):
    """The trigger of a classic group's transition; the value is its text in the diagram."""

    REBALANCE = "a member joins, leaves, fails or changes"
    MEMBERS_JOINED = "all have joined, or the time is over"
    ALL_GONE = "no member is left"
    MEMBERS_RECORDED = "a record with members is in the log"
    EMPTY_RECORDED = "a record without members is in the log"
    UNLOADED = "the coordinator moves"


_EMPTY, _PREPARING, _COMPLETING, _STABLE, _DEAD = GroupState
_REBALANCE, _JOINED, _GONE, _RECORDED, _EMPTY_RECORDED, _UNLOADED = GroupTrigger

TRANSITIONS: Final[Mapping[tuple[GroupState, GroupTrigger], GroupState]] = {
    (_EMPTY, _REBALANCE): _PREPARING,
    (_STABLE, _REBALANCE): _PREPARING,
    (_COMPLETING, _REBALANCE): _PREPARING,
    (_PREPARING, _JOINED): _COMPLETING,
    (_PREPARING, _GONE): _EMPTY,
    (_COMPLETING, _RECORDED): _STABLE,
    # of a static member that came back; and while a log is loaded, which has no rebalances
    (_STABLE, _RECORDED): _STABLE,
    (_EMPTY, _RECORDED): _STABLE,
    (_EMPTY, _EMPTY_RECORDED): _EMPTY,
    (_STABLE, _EMPTY_RECORDED): _EMPTY,
    **{(each, _UNLOADED): _DEAD for each in GroupState},
}
"""Where a group goes from each state (Kafka: ClassicGroupState)."""


class ConsumerGroupState(Enum):
    """The state of a consumer group, under Kafka's names."""

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
    """The status of a group of either kind: its state and the members it waits for, to find out why a rebalance takes long.

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
        """Return whether members have no assignment, or not yet their target assignment."""
        return self.state.value in _REBALANCING
