"""The rows of a protocol's reply tables: the member's reaction to an error code of a response."""

from collections.abc import Iterator, Mapping
from enum import Enum
from typing import Any

from groupsdk.error_code import ErrorCode
from groupsdk.lazy_dataclasses import dataclass
from groupsdk.wire.messages.groups import DescribeGroupsResponse
from groupsdk.wire.messages.offsets import OffsetCommitResponse, OffsetFetchResponse


class Reaction(Enum):
    """A member's reaction to an error code; each protocol has its own."""

    @property
    def tells(self) -> bool:
        """Whether a call of the caller raises the error."""
        raise NotImplementedError

    @property
    def ends(self) -> bool:
        """Whether the error is `fatal`: every later call raises it."""
        raise NotImplementedError


@dataclass(frozen=True, slots=True)
class Reply:
    """One row of a table."""

    reaction: Reaction
    """What the member does."""
    note: str
    """Why, for the log and for docs/protocol.md."""
    if_current: bool = False
    """Whether the error is ignored if the generation has changed since the request was sent."""
    is_logged: bool = True
    """Whether the reaction is worth a line in the log."""


def reply_to_caller(
    replies: Mapping[ErrorCode, Reply], response: object
) -> tuple[Reply, int] | None:
    """Return the reaction to a response to the caller's request, and the error code.

    None: there is none in the table.
    """
    for code in error_codes(response):
        reply = replies.get(ErrorCode.of(code))
        if reply is not None:
            return reply, code
    return None


def error_codes(response: Any) -> Iterator[int]:
    """Yield the error codes in a response that are about the group, other than 0."""
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
