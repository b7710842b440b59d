"""The states of a member of the classic protocol, and every transition between them.

Two rules: every transition is in `TRANSITIONS`, and a pair that is not
in it is a bug. The diagram in docs/protocol.md is drawn from this table, and the actions from the states.
"""

from enum import Enum
from typing import Final


class MemberState(Enum):
    """Where a member stands in Kafka's group protocol (`AbstractCoordinator.MemberState`)."""

    UNJOINED = "unjoined"
    """In no generation.

    action: no heartbeats; wait until the caller polls, then find the coordinator and send JoinGroup.
    transition: join sent => PREPARING_REBALANCE
    """
    PREPARING_REBALANCE = "preparing_rebalance"
    """A JoinGroup is on its way, or parked at the group coordinator until all members have joined.

    action: no heartbeats, since the coordinator does not expire a member whose join it holds; wait for the
        answer, which comes when all members have joined or the rebalance timeout is over.
    transition: join answered => COMPLETING_REBALANCE; join sent again => PREPARING_REBALANCE;
        expelled, fenced or left => UNJOINED
    """
    COMPLETING_REBALANCE = "completing_rebalance"
    """In a new generation, without its assignment.

    action: as the leader, have the caller run `perform_assignment` and heartbeat meanwhile; then send
        SyncGroup and wait for its answer, without heartbeats while the coordinator holds it.
    transition: sync answered => STABLE; join sent, as the group rebalances again => PREPARING_REBALANCE;
        expelled, fenced or left => UNJOINED
    """
    STABLE = "stable"
    """In a generation, with an assignment.

    action: have the caller run `on_join_complete` once; heartbeat every heartbeat.interval.ms.
    transition: join sent => PREPARING_REBALANCE; expelled, fenced or left => UNJOINED
    """


class Trigger(Enum):
    """The triggers of a member's transitions."""

    JOIN_SENT = "join sent"
    JOIN_ANSWERED = "join answered"
    SYNC_ANSWERED = "sync answered"
    RESET = "expelled, fenced or left"


IN_REBALANCE: Final = (MemberState.PREPARING_REBALANCE, MemberState.COMPLETING_REBALANCE)
"""Where a member stands between sending a JoinGroup and having its assignment."""

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
    """Return the state that a trigger leads to.

    Args:
        state: the current state.
        trigger: what happened.

    Raises:
        ValueError: `TRANSITIONS` has no such transition; the machine has a bug.
    """
    try:
        return TRANSITIONS[state, trigger]
    except KeyError:
        raise ValueError(f"no transition from {state.name} on '{trigger.value}'") from None
