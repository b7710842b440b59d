"""The reply tables of the classic protocol: error code by error code, what the member does.

The reactions are Kafka's (`AbstractCoordinator`'s response handlers); where ours differ the note says so.
"""

from typing import Final

from groupsdk.error_code import ErrorCode
from groupsdk.lazy_imports import override
from groupsdk.member.membership import Reaction, Reply
from groupsdk.wire.schema import ApiKey


class ClassicReaction(Reaction):
    """A classic member's reaction to an error code."""

    PROCEED = "go on"
    REJOIN_NOW = "join again at once, with the same member id and generation"
    REJOIN_LATER = "join again after a backoff"
    KEEP_GIVEN_ID = "join again at once with the member id of the answer"
    REDISCOVER = "look for the coordinator again"
    RESET_GENERATION = "forget the generation, keep the member id, join again at once"
    RESET_MEMBER = "forget generation and member id, join again at once"
    REBALANCING = "still alive; join again if stable"
    RETRY = "heartbeat again after a backoff"
    REPORT = "tell the caller, go on"
    FAIL = "tell the caller, join again after a backoff"
    FENCE = "forget everything and tell the caller, for good"

    @property
    @override
    def tells(self) -> bool:
        """Whether a call of the caller raises the error."""
        return self in (ClassicReaction.REPORT, ClassicReaction.FAIL, ClassicReaction.FENCE)

    @property
    @override
    def ends(self) -> bool:
        """Whether the error is `fatal`: every later call raises it."""
        return self is ClassicReaction.FENCE


_MOVED = Reply(ClassicReaction.REDISCOVER, "the coordinator moved or is not ready")
_UNKNOWN = Reply(
    ClassicReaction.RESET_MEMBER, "the group does not know this member", if_current=True
)
_STALE = Reply(
    ClassicReaction.RESET_GENERATION, "the group is in another generation", if_current=True
)
_PROCEED = Reply(ClassicReaction.PROCEED, "")
_INSTANCE_TAKEN = "another process took the group.instance.id"
_FENCED = Reply(ClassicReaction.FENCE, _INSTANCE_TAKEN)
_FENCED_IF_CURRENT = Reply(ClassicReaction.FENCE, _INSTANCE_TAKEN, if_current=True)

REPLIES: Final[dict[ApiKey, dict[ErrorCode, Reply]]] = {
    ApiKey.JOIN_GROUP: {
        ErrorCode.NONE: _PROCEED,
        ErrorCode.COORDINATOR_LOAD_IN_PROGRESS: Reply(
            ClassicReaction.REJOIN_LATER, "the coordinator is loading the group"
        ),
        ErrorCode.COORDINATOR_NOT_AVAILABLE: _MOVED,
        ErrorCode.NOT_COORDINATOR: _MOVED,
        ErrorCode.UNKNOWN_MEMBER_ID: _UNKNOWN,
        ErrorCode.MEMBER_ID_REQUIRED: Reply(
            ClassicReaction.KEEP_GIVEN_ID, "first step of the two-step join (KIP-394)"
        ),
        ErrorCode.REBALANCE_IN_PROGRESS: Reply(
            ClassicReaction.REJOIN_NOW, "the group started over while joining"
        ),
        ErrorCode.FENCED_INSTANCE_ID: _FENCED,
        ErrorCode.GROUP_MAX_SIZE_REACHED: Reply(
            ClassicReaction.FAIL, "the group has group.max.size members, until one leaves"
        ),
    },
    ApiKey.SYNC_GROUP: {
        ErrorCode.NONE: _PROCEED,
        ErrorCode.COORDINATOR_LOAD_IN_PROGRESS: Reply(
            ClassicReaction.REJOIN_LATER,
            "the coordinator is loading the group (fatal in Kafka's client, though it passes)",
        ),
        ErrorCode.COORDINATOR_NOT_AVAILABLE: _MOVED,
        ErrorCode.NOT_COORDINATOR: _MOVED,
        ErrorCode.REBALANCE_IN_PROGRESS: Reply(
            ClassicReaction.REJOIN_NOW,
            "the group rebalances again before this generation was assigned",
        ),
        ErrorCode.UNKNOWN_MEMBER_ID: _UNKNOWN,
        ErrorCode.ILLEGAL_GENERATION: _STALE,
        ErrorCode.FENCED_INSTANCE_ID: _FENCED,
    },
    ApiKey.HEARTBEAT: {
        ErrorCode.NONE: _PROCEED,
        ErrorCode.COORDINATOR_NOT_AVAILABLE: _MOVED,
        ErrorCode.NOT_COORDINATOR: _MOVED,
        ErrorCode.REBALANCE_IN_PROGRESS: Reply(
            ClassicReaction.REBALANCING, "the group is rebalancing"
        ),
        ErrorCode.UNKNOWN_MEMBER_ID: _UNKNOWN,
        ErrorCode.ILLEGAL_GENERATION: _STALE,
        ErrorCode.FENCED_INSTANCE_ID: _FENCED_IF_CURRENT,
        ErrorCode.GROUP_AUTHORIZATION_FAILED: Reply(
            ClassicReaction.REPORT,
            "the principal lost its right to the group (Kafka's client only repeats the heartbeat)",
        ),
    },
}
"""(API, error code) -> what to do. Codes that are not here: `DEFAULTS`."""

_JOINING_DEFAULTS = (
    Reply(ClassicReaction.REJOIN_LATER, "Kafka calls this error retriable"),
    Reply(
        ClassicReaction.FAIL, "only a change of the group, the broker or the settings can mend this"
    ),
)

DEFAULTS: Final[dict[ApiKey, tuple[Reply, Reply]]] = {
    ApiKey.JOIN_GROUP: _JOINING_DEFAULTS,
    ApiKey.SYNC_GROUP: _JOINING_DEFAULTS,
    ApiKey.HEARTBEAT: (
        Reply(ClassicReaction.RETRY, "Kafka calls this error retriable"),
        Reply(ClassicReaction.RETRY, "not an answer to a heartbeat; the session timeout decides"),
    ),
}
"""API -> (for retriable codes, for all others)."""

CALLER_REQUEST_REPLIES: Final[dict[ErrorCode, Reply]] = {
    ErrorCode.COORDINATOR_NOT_AVAILABLE: _MOVED,
    ErrorCode.NOT_COORDINATOR: _MOVED,
    ErrorCode.REBALANCE_IN_PROGRESS: Reply(
        ClassicReaction.REBALANCING,
        "the group rebalances, and the commit has to wait until that is over",
        is_logged=False,
    ),
    ErrorCode.UNKNOWN_MEMBER_ID: _UNKNOWN,
    ErrorCode.ILLEGAL_GENERATION: _STALE,
    ErrorCode.FENCED_INSTANCE_ID: _FENCED_IF_CURRENT,
}
"""Error code -> reaction, for the requests that the caller makes beside the membership (`ConsumerCoordinator`)."""


def reply_to(api: ApiKey, code: int) -> Reply:
    """Return a member's reaction to error code `code`, known or not, in a response of `api`."""
    error_code = ErrorCode.of(code)
    reply = REPLIES[api].get(error_code)
    if reply is None:
        retriable, other = DEFAULTS[api]
        reply = retriable if error_code.retriable else other
    return reply
