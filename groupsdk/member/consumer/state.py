"""The states of a consumer-protocol member, every transition between them, and the view that shows them.

As in the classic protocol, every transition is in `TRANSITIONS`, and a pair that is not in it is
a bug. The diagram in docs/protocol.md is drawn from this table.
"""

from dataclasses import dataclass
from enum import Enum
from typing import Final

from groupsdk.member.state import MemberState
from groupsdk.member.view import MemberView


class ConsumerMemberState(Enum):
    """Where a member stands in the consumer protocol (`org.apache.kafka.clients.consumer.internals.MemberState`)."""

    UNSUBSCRIBED = "unsubscribed"
    """Not in the group, and the caller wants nothing of it: no heartbeat."""
    JOINING = "joining"
    """Asking to be let in, with epoch 0 and everything that the coordinator has to know."""
    RECONCILING = "reconciling"
    """Told of partitions to give up or to take; the caller does that within a poll. Heartbeats go on."""
    ACKNOWLEDGING = "acknowledging"
    """The caller has done so, and the coordinator is to be told at once."""
    STABLE = "stable"
    """Holding what the coordinator assigned last."""
    FENCED = "fenced"
    """Out of the group by the coordinator's word, until the caller has heard that its partitions are lost."""
    PREPARE_LEAVING = "prepare_leaving"
    """About to leave, once its partitions are given up."""
    LEAVING = "leaving"
    """Its partitions are given up; the leave is to be sent."""
    STALE = "stale"
    """Has left since the caller stayed away for too long, and joins again when it comes back."""
    FATAL = "fatal"
    """Refused for good: every call raises why."""


class ConsumerTrigger(Enum):
    """The triggers of a consumer-protocol member's transitions."""

    SUBSCRIBED = "the caller polls with a subscription"
    TARGET_CHANGED = "other partitions are assigned"
    TAKEN_UP = "the caller has taken the assignment up"
    ACKNOWLEDGED = "the acknowledgement is sent"
    PARTLY_ACKNOWLEDGED = "the acknowledgement of a part is sent"
    FENCED = "fenced"
    LOSS_HEARD = "the caller has heard of the loss"
    LEAVE = "the caller leaves, or is away for too long"
    GIVEN_UP = "the partitions are given up"
    LEFT = "the leave is sent"
    LEFT_BEHIND = "the leave is sent, and the caller is away"
    REFUSED = "refused for good"


_S, _T = ConsumerMemberState, ConsumerTrigger

TRANSITIONS: Final[dict[tuple[ConsumerMemberState, ConsumerTrigger], ConsumerMemberState]] = {
    (_S.UNSUBSCRIBED, _T.SUBSCRIBED): _S.JOINING,
    (_S.JOINING, _T.TARGET_CHANGED): _S.RECONCILING,
    (_S.JOINING, _T.FENCED): _S.FENCED,
    (_S.JOINING, _T.LEAVE): _S.PREPARE_LEAVING,
    (_S.JOINING, _T.REFUSED): _S.FATAL,
    (_S.RECONCILING, _T.TARGET_CHANGED): _S.RECONCILING,
    (_S.RECONCILING, _T.TAKEN_UP): _S.ACKNOWLEDGING,
    (_S.RECONCILING, _T.FENCED): _S.FENCED,
    (_S.RECONCILING, _T.LEAVE): _S.PREPARE_LEAVING,
    (_S.RECONCILING, _T.REFUSED): _S.FATAL,
    (_S.ACKNOWLEDGING, _T.ACKNOWLEDGED): _S.STABLE,
    (_S.ACKNOWLEDGING, _T.PARTLY_ACKNOWLEDGED): _S.RECONCILING,
    (_S.ACKNOWLEDGING, _T.TARGET_CHANGED): _S.ACKNOWLEDGING,
    (_S.ACKNOWLEDGING, _T.FENCED): _S.FENCED,
    (_S.ACKNOWLEDGING, _T.LEAVE): _S.PREPARE_LEAVING,
    (_S.ACKNOWLEDGING, _T.REFUSED): _S.FATAL,
    (_S.STABLE, _T.TARGET_CHANGED): _S.RECONCILING,
    (_S.STABLE, _T.FENCED): _S.FENCED,
    (_S.STABLE, _T.LEAVE): _S.PREPARE_LEAVING,
    (_S.STABLE, _T.REFUSED): _S.FATAL,
    (_S.FENCED, _T.LOSS_HEARD): _S.JOINING,
    (_S.FENCED, _T.LEAVE): _S.UNSUBSCRIBED,
    (_S.PREPARE_LEAVING, _T.GIVEN_UP): _S.LEAVING,
    (_S.LEAVING, _T.LEFT): _S.UNSUBSCRIBED,
    (_S.LEAVING, _T.LEFT_BEHIND): _S.STALE,
    (_S.STALE, _T.LOSS_HEARD): _S.JOINING,
    (_S.STALE, _T.LEAVE): _S.UNSUBSCRIBED,
}
"""(state, trigger) -> next state."""

IN_GROUP: Final = frozenset({_S.RECONCILING, _S.ACKNOWLEDGING, _S.STABLE})
"""Where the coordinator has given the member an epoch, under which it may commit."""

HEARTBEATING: Final = IN_GROUP | {_S.JOINING}
"""Where heartbeats are sent."""

OUT_UNTIL_HEARD: Final = frozenset({_S.FENCED, _S.STALE})
"""The states in which the caller has to learn of its loss before the member may rejoin."""


def next_state(state: ConsumerMemberState, trigger: ConsumerTrigger) -> ConsumerMemberState:
    try:
        return TRANSITIONS[state, trigger]
    except KeyError:
        raise ValueError(f"no transition from {state.name} on '{trigger.value}'") from None


def in_classic_terms(state: ConsumerMemberState) -> MemberState:
    """Return the equivalent state of the classic protocol.

    A member that reconciles is STABLE in these terms: until it gives partitions up they are its own, and its
    commits count, as in the classic protocol between a heartbeat that tells of a rebalance and the next join."""
    if state in IN_GROUP:
        return MemberState.STABLE
    if state is ConsumerMemberState.JOINING:
        return MemberState.PREPARING_REBALANCE
    return MemberState.UNJOINED


@dataclass(frozen=True, slots=True)
class ConsumerMemberView(MemberView):
    """A `MemberView` with the state of both protocols: `state` is the classic equivalent."""

    consumer_state: ConsumerMemberState = ConsumerMemberState.UNSUBSCRIBED
