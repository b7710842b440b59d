"""A snapshot of a consumer-protocol member's state, for its caller."""

from dataclasses import dataclass

from groupsdk.consumer_membership.state import ConsumerMemberState
from groupsdk.membership.view import MemberView


@dataclass(frozen=True, slots=True)
class ConsumerMemberView(MemberView):
    """A `MemberView` with the state of both protocols: `state` is the classic equivalent."""

    consumer_state: ConsumerMemberState = ConsumerMemberState.UNSUBSCRIBED
    """The state in the consumer protocol."""
