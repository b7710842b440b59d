"""The states of a member in the classic protocol, in whose terms the views of all members speak."""

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


IN_REBALANCE: Final = (MemberState.PREPARING_REBALANCE, MemberState.COMPLETING_REBALANCE)
"""Where a member stands between sending a JoinGroup and having its assignment."""
