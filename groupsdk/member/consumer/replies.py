"""The reaction of a consumer-protocol member to each error code of each response, as one table.

The reactions are those of Kafka's `ConsumerHeartbeatRequestManager`, `ConsumerMembershipManager` and
`CommitRequestManager`; where ours differ the note says so.
"""

from typing import Final

from groupsdk.error_code import ErrorCode
from groupsdk.lazy_imports import override
from groupsdk.member.membership import Reaction, Reply


class ConsumerReaction(Reaction):
    """A consumer-protocol member's reaction to an error code."""

    PROCEED = "go on"
    REDISCOVER = "look for the coordinator again, and send everything again"
    RETRY = "heartbeat again after a backoff, with everything"
    REJOIN = "give everything up as lost, and join again with the same member id"
    REPORT = "tell the caller, heartbeat again after a backoff"
    HEARTBEAT = "heartbeat at once: its answer says whether the member is still one"
    FAIL = "give everything up as lost; every call raises the error"

    @property
    @override
    def tells(self) -> bool:
        """Whether a call of the caller raises the error."""
        return self in (ConsumerReaction.REPORT, ConsumerReaction.FAIL)

    @property
    @override
    def ends(self) -> bool:
        """Whether the error is `fatal`: every later call raises it."""
        return self is ConsumerReaction.FAIL


_MOVED = Reply(ConsumerReaction.REDISCOVER, "the coordinator moved or is not ready")

HEARTBEAT_REPLIES: Final[dict[ErrorCode, Reply]] = {
    ErrorCode.NONE: Reply(ConsumerReaction.PROCEED, ""),
    ErrorCode.NOT_COORDINATOR: _MOVED,
    ErrorCode.COORDINATOR_NOT_AVAILABLE: _MOVED,
    ErrorCode.COORDINATOR_LOAD_IN_PROGRESS: Reply(
        ConsumerReaction.RETRY, "the coordinator is loading the group"
    ),
    ErrorCode.FENCED_MEMBER_EPOCH: Reply(
        ConsumerReaction.REJOIN, "the group has another epoch of this member"
    ),
    ErrorCode.UNKNOWN_MEMBER_ID: Reply(
        ConsumerReaction.REJOIN, "the group does not know this member any more"
    ),
    ErrorCode.TOPIC_AUTHORIZATION_FAILED: Reply(
        ConsumerReaction.REPORT, "the principal may not describe a topic of the subscription"
    ),
    ErrorCode.UNKNOWN_SERVER_ERROR: Reply(
        ConsumerReaction.REPORT,
        "an assignor of the broker raised, say, and the next heartbeat has it try again (fatal in Kafka's client)",
    ),
    ErrorCode.GROUP_AUTHORIZATION_FAILED: Reply(
        ConsumerReaction.REPORT,
        "the principal may not read the group, and may again: as in the classic protocol, where Java's callers poll on"
        " (fatal in Java's client of this one)",
    ),
    ErrorCode.GROUP_MAX_SIZE_REACHED: Reply(
        ConsumerReaction.REPORT,
        "the group has group.consumer.max.size members, until one leaves (fatal in Kafka's client)",
    ),
    ErrorCode.UNRELEASED_INSTANCE_ID: Reply(
        ConsumerReaction.REPORT,
        "another member holds the group.instance.id, until it leaves or its session ends (fatal in Kafka's client)",
    ),
    ErrorCode.UNSUPPORTED_ASSIGNOR: Reply(
        ConsumerReaction.REPORT,
        "group.consumer.assignors of this broker does not name the assignor, but may while brokers are restarted"
        " with it one by one (fatal in Kafka's client)",
    ),
    ErrorCode.GROUP_ID_NOT_FOUND: Reply(
        ConsumerReaction.REJOIN,
        "while the member was away the group was forgotten, or its other members made it a classic one (fatal in"
        " Kafka's client)",
    ),
    ErrorCode.UNSUPPORTED_VERSION: Reply(
        ConsumerReaction.FAIL, "the broker does not serve the consumer protocol"
    ),
    ErrorCode.INVALID_REQUEST: Reply(ConsumerReaction.FAIL, "repeating cannot mend it"),
    ErrorCode.FENCED_INSTANCE_ID: Reply(
        ConsumerReaction.FAIL, "another process took the group.instance.id"
    ),
    ErrorCode.INVALID_REGULAR_EXPRESSION: Reply(
        ConsumerReaction.FAIL, "the pattern is not one of RE2"
    ),
}
"""The reaction to each error code of a heartbeat. Codes that are missing: `HEARTBEAT_DEFAULTS`."""

JOIN_REPLIES: Final[dict[ErrorCode, Reply]] = {
    ErrorCode.GROUP_ID_NOT_FOUND: Reply(
        ConsumerReaction.REPORT,
        "the group is of another type, or its classic members cannot be taken over; its members may leave or change"
        " (fatal in Kafka's client)",
    ),
}
"""The error codes that mean something else in the response to a join."""

HEARTBEAT_DEFAULTS: Final = (
    Reply(ConsumerReaction.RETRY, "Kafka calls this error retriable"),
    Reply(ConsumerReaction.FAIL, "not an answer to a heartbeat"),
)
"""For retriable codes, for all others."""

_SUSPECT = Reply(
    ConsumerReaction.HEARTBEAT, "the coordinator knows another epoch, or does not know the member"
)

REQUEST_REPLIES: Final[dict[ErrorCode, Reply]] = {
    ErrorCode.NOT_COORDINATOR: _MOVED,
    ErrorCode.COORDINATOR_NOT_AVAILABLE: _MOVED,
    ErrorCode.STALE_MEMBER_EPOCH: _SUSPECT,
    ErrorCode.UNKNOWN_MEMBER_ID: _SUSPECT,
    ErrorCode.GROUP_ID_NOT_FOUND: _SUSPECT,
}
"""What error codes of a commit, or another request of the caller, mean for the membership.

Only heartbeats decide about it, as in Kafka's client: the caller has the error besides."""


def heartbeat_reply(code: int, *, joining: bool = False) -> Reply:
    """Return a member's reaction to the error code of a heartbeat; some mean something else while joining."""
    error_code = ErrorCode.of(code)
    if joining and error_code in JOIN_REPLIES:
        return JOIN_REPLIES[error_code]
    if error_code is ErrorCode.UNKNOWN_SERVER_ERROR and code != ErrorCode.UNKNOWN_SERVER_ERROR:
        return HEARTBEAT_DEFAULTS[1]  # a code of a later broker
    retriable, other = HEARTBEAT_DEFAULTS
    return HEARTBEAT_REPLIES.get(error_code, retriable if error_code.retriable else other)
