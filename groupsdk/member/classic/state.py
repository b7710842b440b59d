"""Every transition between the states of a classic member.

A pair that is not in `TRANSITIONS` is a bug. The diagram in docs/protocol.md is drawn from this table.
"""

from enum import Enum
from typing import Final

from groupsdk.member.state import MemberState


class Trigger(Enum):
    """The triggers of a member's transitions."""

    JOIN_SENT = "join sent"
    JOIN_ANSWERED = "join answered"
    SYNC_ANSWERED = "sync answered"
    RESET = "expelled, fenced or left"


TRANSITIONS: Final[dict[tuple[MemberState, Trigger], MemberState]] = {
    (MemberState.UNJOINED, Trigger.JOIN_SENT): MemberState.PREPARING_REBALANCE,
    (MemberState.UNJOINED, Trigger.RESET): MemberState.UNJOINED,
    (MemberState.PREPARING_REBALANCE, Trigger.JOIN_SENT): MemberState.PREPARING_REBALANCE,
    (MemberState.PREPARING_REBALANCE, Trigger.JOIN_ANSWERED): MemberState.COMPLETING_REBALANCE,
    (MemberState.PREPARING_REBALANCE, Trigger.RESET): MemberState.UNJOINED,
    (MemberState.COMPLETING_REBALANCE, Trigger.JOIN_SENT): MemberState.PREPARING_REBALANCE,
    (MemberState.COMPLETING_REBALANCE, Trigger.SYNC_ANSWERED): MemberState.STABLE,
    (MemberState.COMPLETING_REBALANCE, Trigger.RESET): MemberState.UNJOINED,
    (MemberState.STABLE, Trigger.JOIN_SENT): MemberState.PREPARING_REBALANCE,
    (MemberState.STABLE, Trigger.RESET): MemberState.UNJOINED,
}
"""(state, trigger) -> next state."""


def next_state(state: MemberState, trigger: Trigger) -> MemberState:
    try:
        return TRANSITIONS[state, trigger]
    except KeyError:
        raise ValueError(f"no transition from {state.name} on '{trigger.value}'") from None
