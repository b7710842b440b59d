"""Say what a member does on each error code of each answer: one table.

The reactions are Kafka's (`AbstractCoordinator`'s response handlers); where ours differ the note says so.
"""

from dataclasses import dataclass
from enum import Enum
from typing import Final

from groupsdk.error_code import ErrorCode
from groupsdk.wire.schema import ApiKey


class Reaction(Enum):
    """What a member does about an error code."""

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
    FAIL = "tell the caller, who may try again"
    FENCE = "forget everything and tell the caller, for good"


@dataclass(frozen=True, slots=True)
class Reply:
    """One row of the table."""

    reaction: Reaction
    note: str
    """Why; for the log and for docs/protocol.md."""
    if_current: bool = False
    """Ignore the error when the generation has changed since the request was sent."""


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
        Reply(Reaction.FAIL, "joining again cannot mend this"),
    ),
    ApiKey.SYNC_GROUP: (
        Reply(Reaction.REJOIN_LATER, "Kafka calls this error retriable"),
        Reply(Reaction.FAIL, "joining again cannot mend this"),
    ),
    ApiKey.HEARTBEAT: (
        Reply(Reaction.RETRY, "Kafka calls this error retriable"),
        Reply(Reaction.RETRY, "not an answer to a heartbeat; the session timeout decides"),
    ),
}
"""API -> (for retriable codes, for all others)."""


def reply_to(api: ApiKey, code: int) -> Reply:
    """Return what a member does when `api` is answered with error code `code`, known or not."""
    error_code = ErrorCode.of(code)
    retriable, other = DEFAULTS[api]
    return REPLIES[api].get(error_code, retriable if error_code.retriable else other)
