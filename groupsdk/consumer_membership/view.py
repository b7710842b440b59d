"""Show the whole state of a member of the consumer protocol at one moment, for its caller."""

from dataclasses import dataclass

from groupsdk.consumer_membership.state import ConsumerMemberState
from groupsdk.membership.view import MemberView


@dataclass(frozen=True, slots=True)
class ConsumerMemberView(MemberView):
    """A `MemberView`, whose `state` is in the terms of the classic protocol, with the member's own state."""

    consumer_state: ConsumerMemberState = ConsumerMemberState.UNSUBSCRIBED
