"""Every move of a classic group from state to state, as a table of (state, trigger) -> state.

What a group does in each state:

- Empty: it has no members, perhaps offsets; it waits for a first member, or until its offsets expire.
- PreparingRebalance: parks joins until all members have joined or the rebalance timeout ends.
- CompletingRebalance: has a new generation, and parks syncs until the leader's assignment is in the log.
- Stable: answers syncs and heartbeats from the assignment that is in the log.
- Dead: answers everything with COORDINATOR_NOT_AVAILABLE; the coordinator is elsewhere.
"""

from collections.abc import Mapping
from enum import Enum
from typing import Final

from groupsdk.broker.group_status import GroupState


class GroupTrigger(Enum):
    """What moves a classic group; the value is its text in the diagram."""

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
