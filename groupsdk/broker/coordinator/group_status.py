"""The states of groups of both protocols, their transitions, and the status of a group."""

from collections.abc import Mapping
from dataclasses import dataclass
from enum import Enum
from typing import Final


class GroupState(Enum):
    """The state of a classic group; the value is its name on the wire."""

    EMPTY = "Empty"
    """It has no members, but may have offsets; it exists until a member joins or its offsets expire."""
    PREPARING_REBALANCE = "PreparingRebalance"
    """It parks JoinGroups until all members have joined or the rebalance timeout ends."""
    COMPLETING_REBALANCE = "CompletingRebalance"
    """It has a new generation, and parks SyncGroups until the leader's assignment is in the log."""
    STABLE = "Stable"
    """It answers SyncGroups and heartbeats from the assignment in the log."""
    DEAD = "Dead"
    """It answers every request with COORDINATOR_NOT_AVAILABLE; the coordinator has moved."""


class GroupTrigger(Enum):
    """The trigger of a classic group's transition; the value is the label in the diagram."""

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
    # a static member rejoined; or the log is being loaded, which has no records of rebalances
    (_STABLE, _RECORDED): _STABLE,
    (_EMPTY, _RECORDED): _STABLE,
    (_EMPTY, _EMPTY_RECORDED): _EMPTY,
    (_STABLE, _EMPTY_RECORDED): _EMPTY,
    **{(each, _UNLOADED): _DEAD for each in GroupState},
}
"""The next state of a group for each state and trigger (Kafka: ClassicGroupState)."""


class ConsumerGroupState(Enum):
    """The state of a consumer group, under Kafka's names; it follows from the records in the log."""

    EMPTY = "Empty"
    """It has no members."""
    ASSIGNING = "Assigning"
    """The target assignment of its epoch has not been computed yet."""
    RECONCILING = "Reconciling"
    """Members have not reached their target assignment yet."""
    STABLE = "Stable"
    """All members have their target assignment."""
    DEAD = "Dead"
    """Never entered; in Kafka, a deleted group."""


class ConsumerGroupTrigger(Enum):
    """The trigger of a consumer group's transition; the value is the label in the diagram."""

    FIRST_MEMBER = "the record of a member"
    FIRST_MEMBER_OF_EPOCH = "the record of a member, and the epoch has no target"
    EPOCH_RAISED = "the epoch rises: a member joins, leaves or changes, or its topics do"
    TARGET_RECORDED = "the target of the epoch"
    STEP_LEFT = "a member joins, leaves or gets a step to take"
    REACHED = "the last member with a step to take reaches its target, or leaves"
    ALL_GONE = "no member is left"


_S, _T = ConsumerGroupState, ConsumerGroupTrigger

CONSUMER_TRANSITIONS: Final[
    Mapping[tuple[ConsumerGroupState, ConsumerGroupTrigger], ConsumerGroupState]
] = {
    (_S.EMPTY, _T.FIRST_MEMBER): _S.RECONCILING,
    (_S.EMPTY, _T.FIRST_MEMBER_OF_EPOCH): _S.ASSIGNING,
    (_S.RECONCILING, _T.EPOCH_RAISED): _S.ASSIGNING,
    (_S.STABLE, _T.EPOCH_RAISED): _S.ASSIGNING,
    (_S.ASSIGNING, _T.TARGET_RECORDED): _S.RECONCILING,
    (_S.STABLE, _T.STEP_LEFT): _S.RECONCILING,
    (_S.RECONCILING, _T.REACHED): _S.STABLE,
    (_S.RECONCILING, _T.ALL_GONE): _S.EMPTY,
    (_S.ASSIGNING, _T.ALL_GONE): _S.EMPTY,
}
"""The next state of a consumer group for each state and trigger, record by record (Kafka: ConsumerGroup)."""


_REBALANCING: Final = frozenset(
    {"PreparingRebalance", "CompletingRebalance", "Assigning", "Reconciling"}
)


@dataclass(frozen=True, slots=True)
class GroupStatus:
    """The state of a group of either kind, and the members it waits for; shows why a rebalance takes long.

    Attributes:
        generation_id: the generation; for a consumer group, its epoch.
        since_ms: when it entered its state, in milliseconds since 1970; None: unknown, as for every consumer group.
        waiting_for: the members that have not joined, or not synced, and assigned member ids that have not joined; for
            a consumer group, the members that have a reconciliation step to take.
        until_ms: when it goes on without them; None if it waits for no member.
    """

    group_id: str
    state: GroupState | ConsumerGroupState
    generation_id: int
    since_ms: int | None
    waiting_for: tuple[str, ...]
    until_ms: int | None

    @property
    def is_rebalancing(self) -> bool:
        """Whether members have no assignment, or not yet their target assignment."""
        return self.state.value in _REBALANCING
