"""The reply table: maps each error code of each response to the member's reaction.

The reactions are Kafka's (`AbstractCoordinator`'s response handlers); where ours differ the note says so.
"""

from collections.abc import Iterator
from enum import Enum
from typing import Any, Final

from groupsdk.error_code import ErrorCode
from groupsdk.lazy_dataclasses import dataclass
from groupsdk.wire.messages.describe_groups import DescribeGroupsResponse
from groupsdk.wire.messages.offset_commit import OffsetCommitResponse
from groupsdk.wire.messages.offset_fetch import OffsetFetchResponse
from groupsdk.wire.schema import ApiKey


class Reaction(Enum):
    """A member's reaction to an error code."""

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
    def tells(self) -> bool:
        """Whether a call of the caller raises the error."""
        return self in (Reaction.REPORT, Reaction.FAIL, Reaction.FENCE)

    @property
    def ends(self) -> bool:
        """Whether the error is `fatal`: every later call raises it."""
        return self is Reaction.FENCE


@dataclass(frozen=True, slots=True)
class Reply:
    """One row of the table."""

    reaction: Reaction
    """What the member does."""
    note: str
    """Why, for the log and for docs/protocol.md."""
    if_current: bool = False
    """Whether the error is ignored if the generation has changed since the request was sent."""


_MOVED = Reply(Reaction.REDISCOVER, "the coordinator moved or is not ready")
_UNKNOWN = Reply(Reaction.RESET_MEMBER, "the group does not know this member", if_current=True)
_STALE = Reply(Reaction.RESET_GENERATION, "the group is in another generation", if_current=True)
_PROCEED = Reply(Reaction.PROCEED, "")

REPLIES: Final[dict[ApiKey, dict[ErrorCode, Reply]]] = {
    ApiKey.JOIN_GROUP: {
        ErrorCode.NONE: _PROCEED,
        ErrorCode.COORDINATOR_LOAD_IN_PROGRESS: Reply(
            Reaction.REJOIN_LATER, "the coordinator is loading the group"
        ),
        ErrorCode.COORDINATOR_NOT_AVAILABLE: _MOVED,
        ErrorCode.NOT_COORDINATOR: _MOVED,
        ErrorCode.UNKNOWN_MEMBER_ID: _UNKNOWN,
        ErrorCode.MEMBER_ID_REQUIRED: Reply(
            Reaction.KEEP_GIVEN_ID, "first step of the two-step join (KIP-394)"
        ),
        ErrorCode.REBALANCE_IN_PROGRESS: Reply(
            Reaction.REJOIN_NOW, "the group started over while joining"
        ),
        ErrorCode.FENCED_INSTANCE_ID: Reply(
            Reaction.FENCE, "another process took the group.instance.id"
        ),
        ErrorCode.GROUP_MAX_SIZE_REACHED: Reply(
            Reaction.FAIL, "the group has group.max.size members, until one leaves"
        ),
    },
    ApiKey.SYNC_GROUP: {
        ErrorCode.NONE: _PROCEED,
        ErrorCode.COORDINATOR_LOAD_IN_PROGRESS: Reply(
            Reaction.REJOIN_LATER,
            "the coordinator is loading the group (fatal in Kafka's client, though it passes)",
        ),
        ErrorCode.COORDINATOR_NOT_AVAILABLE: _MOVED,
        ErrorCode.NOT_COORDINATOR: _MOVED,
        ErrorCode.REBALANCE_IN_PROGRESS: Reply(
            Reaction.REJOIN_NOW, "the group rebalances again before this generation was assigned"
        ),
        ErrorCode.UNKNOWN_MEMBER_ID: _UNKNOWN,
        ErrorCode.ILLEGAL_GENERATION: _STALE,
        ErrorCode.FENCED_INSTANCE_ID: Reply(
            Reaction.FENCE, "another process took the group.instance.id"
        ),
    },
    ApiKey.HEARTBEAT: {
        ErrorCode.NONE: _PROCEED,
        ErrorCode.COORDINATOR_NOT_AVAILABLE: _MOVED,
        ErrorCode.NOT_COORDINATOR: _MOVED,
        ErrorCode.REBALANCE_IN_PROGRESS: Reply(Reaction.REBALANCING, "the group is rebalancing"),
        ErrorCode.UNKNOWN_MEMBER_ID: _UNKNOWN,
        ErrorCode.ILLEGAL_GENERATION: _STALE,
        ErrorCode.FENCED_INSTANCE_ID: Reply(
            Reaction.FENCE, "another process took the group.instance.id", if_current=True
        ),
        ErrorCode.GROUP_AUTHORIZATION_FAILED: Reply(
            Reaction.REPORT,
            "the principal lost its right to the group (Kafka's client only repeats the heartbeat)",
        ),
    },
}
"""(API, error code) -> what to do. Codes that are not here: `DEFAULTS`."""

DEFAULTS: Final[dict[ApiKey, tuple[Reply, Reply]]] = {
    ApiKey.JOIN_GROUP: (
        Reply(Reaction.REJOIN_LATER, "Kafka calls this error retriable"),
        Reply(
            Reaction.FAIL, "only a change of the group, the broker or the settings can mend this"
        ),
    ),
    ApiKey.SYNC_GROUP: (
        Reply(Reaction.REJOIN_LATER, "Kafka calls this error retriable"),
        Reply(
            Reaction.FAIL, "only a change of the group, the broker or the settings can mend this"
        ),
    ),
    ApiKey.HEARTBEAT: (
        Reply(Reaction.RETRY, "Kafka calls this error retriable"),
        Reply(Reaction.RETRY, "not an answer to a heartbeat; the session timeout decides"),
    ),
}
"""API -> (for retriable codes, for all others)."""

CALLER_REQUEST_REPLIES: Final[dict[ErrorCode, Reply]] = {
    ErrorCode.COORDINATOR_NOT_AVAILABLE: _MOVED,
    ErrorCode.NOT_COORDINATOR: _MOVED,
    ErrorCode.REBALANCE_IN_PROGRESS: Reply(
        Reaction.REBALANCING, "the group rebalances, and the commit has to wait until that is over"
    ),
    ErrorCode.UNKNOWN_MEMBER_ID: Reply(
        Reaction.RESET_MEMBER, "the group does not know this member", if_current=True
    ),
    ErrorCode.ILLEGAL_GENERATION: Reply(
        Reaction.RESET_GENERATION, "the group is in another generation", if_current=True
    ),
    ErrorCode.FENCED_INSTANCE_ID: Reply(
        Reaction.FENCE, "another process took the group.instance.id", if_current=True
    ),
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


def reply_to_caller(response: object) -> tuple[Reply, int]:
    """Return the reaction to a response to the caller's request, and the error code behind it.

    Args:
        response: the decoded response, of whichever API the caller used.
    """
    for code in error_codes(response):
        reply = CALLER_REQUEST_REPLIES.get(ErrorCode.of(code), _PROCEED)
        if reply.reaction is not Reaction.PROCEED:
            return reply, code
    return _PROCEED, 0


def error_codes(response: Any) -> Iterator[int]:
    """Yield the error codes in an answer that are about the group, other than 0.

    Args:
        response: the decoded response.
    """
    codes: list[int] = []
    match response:
        case OffsetCommitResponse(topics=topics):
            codes = [each.error_code for topic in topics for each in topic.partitions]
        case OffsetFetchResponse(error_code=code, groups=groups):
            codes = [code, *(group.error_code for group in groups)]
        case DescribeGroupsResponse(groups=described):
            codes = [group.error_code for group in described]
        case _:
            pass
    yield from (code for code in codes if code)
