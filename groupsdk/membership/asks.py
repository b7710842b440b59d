"""Carry what the caller asks of its coordinator beside the membership: offsets and metadata.

Such a request goes over the member's own connection, so that it is in order with its joins, and an error in
the answer is about the same membership that the heartbeats keep up: what a stale commit is told, the machine
hears too. The reactions are those of Kafka's `ConsumerCoordinator`.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, Final

from groupsdk.error_code import ErrorCode
from groupsdk.errors import (
    CoordinatorNotAvailableError,
    GroupSdkError,
    IllegalGenerationError,
    RebalanceInProgressError,
)
from groupsdk.membership.actions import Tell
from groupsdk.membership.context import MemberContext
from groupsdk.membership.events import CoordinatorAsked
from groupsdk.membership.inflight import PARKED, InFlight
from groupsdk.membership.replies import Reaction, Reply
from groupsdk.wire.messages.describe_groups import DescribeGroupsResponse
from groupsdk.wire.messages.offset_commit import OffsetCommitRequest, OffsetCommitResponse
from groupsdk.wire.messages.offset_fetch import OffsetFetchResponse
from groupsdk.wire.schema import Response


_MOVED: Final = Reply(Reaction.REDISCOVER, "the coordinator moved or is not ready")
_PROCEED: Final = Reply(Reaction.PROCEED, "")

ASK_REPLIES: Final[dict[ErrorCode, Reply]] = {
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
"""What the answer to a commit, or to another question of the caller, says about the membership."""


@dataclass(frozen=True, slots=True)
class Heard:
    """What an answer says about the membership."""

    reply: Reply
    code: int


class Asks:
    """The requests of the caller that wait for an answer. Each is told exactly one."""

    def __init__(self, context: MemberContext) -> None:
        self._context = context

    def ask(self, event: CoordinatorAsked) -> None:
        """Send a request, or tell at once why it cannot be sent now."""
        context = self._context
        refusal = self._refusal(event)
        if refusal is not None:
            context.actions.append(Tell(event.ask_id, refusal))
            return
        context.send(
            event.request,
            event.request.api.key,
            context.config.request_timeout_ms,
            ask_id=event.ask_id,
        )

    def answered(self, flight: InFlight, response: Response) -> Heard:
        """Tell the answer, and return what the machine is to do about it."""
        assert flight.ask_id is not None
        self._context.actions.append(Tell(flight.ask_id, response))
        for code in error_codes(response):
            reply = ASK_REPLIES.get(ErrorCode.of(code), _PROCEED)
            if reply.reaction is not Reaction.PROCEED:
                return Heard(reply, code)
        return Heard(_PROCEED, 0)

    def refused(self, flight: InFlight, error: GroupSdkError) -> None:
        """Tell that the broker is too old for a request, or that it cannot be written."""
        assert flight.ask_id is not None
        self._context.actions.append(Tell(flight.ask_id, error))

    def _refusal(self, event: CoordinatorAsked) -> GroupSdkError | None:
        context, request = self._context, event.request
        asked = f"{request.api.key.name} of group {context.config.group_id!r}"
        if context.discovery.coordinator is None:
            return CoordinatorNotAvailableError(ErrorCode.COORDINATOR_NOT_AVAILABLE, asked)
        if context.requests.has(*PARKED):
            # The broker reads nothing more from the connection before it has answered the join.
            return RebalanceInProgressError(ErrorCode.REBALANCE_IN_PROGRESS, asked)
        if isinstance(request, OffsetCommitRequest) and not self._is_current(request):
            return IllegalGenerationError(ErrorCode.ILLEGAL_GENERATION, asked)
        return None

    def _is_current(self, request: OffsetCommitRequest) -> bool:
        generation = self._context.generation
        return (
            request.generation_id_or_member_epoch == generation.generation_id >= 0
            and request.member_id == generation.member_id
        )


def error_codes(response: Any) -> Iterator[int]:
    """Yield the error codes in an answer that are about the group, other than 0."""
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
