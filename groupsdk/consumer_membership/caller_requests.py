"""Send what the caller asks of its coordinator beside the membership: commits, offsets, topics.

As Kafka's `CommitRequestManager`: a commit carries the member epoch of the moment at which it is *sent*, which may
be newer than that of the moment at which it was made. The epoch grows while the member keeps its partitions, and
what it gives up it gives up on the caller's own thread, so a commit made before is about partitions that are
still its own. Beyond a loss of the membership nothing is carried over: such a commit is refused here.
"""

from dataclasses import replace

from groupsdk.consumer_membership.membership import ConsumerMembership
from groupsdk.consumer_membership.replies import (
    REQUEST_REPLIES,
    ConsumerReaction,
    ConsumerReply,
)
from groupsdk.error_code import ErrorCode
from groupsdk.errors import CoordinatorNotAvailableError, GroupSdkError, IllegalGenerationError
from groupsdk.membership.actions import AnswerCaller
from groupsdk.membership.context import MemberContext
from groupsdk.membership.events import CallerRequest
from groupsdk.membership.in_flight import InFlightRequest
from groupsdk.membership.replies import error_codes
from groupsdk.membership.requests import CoordinatorRequest
from groupsdk.wire.messages.offset_commit import OffsetCommitRequest
from groupsdk.wire.messages.offset_fetch import OffsetFetchRequest
from groupsdk.wire.schema import Response


_PROCEED = ConsumerReply(ConsumerReaction.PROCEED, "")


class CallerRequests:
    """The requests of the caller that wait for an answer. Each is told exactly one."""

    def __init__(self, context: MemberContext, membership: ConsumerMembership) -> None:
        self._context = context
        self._membership = membership

    def ask(self, event: CallerRequest) -> None:
        """Send a request, or tell at once why it cannot be sent now."""
        context = self._context
        asked = f"{event.request.api.key.name} of group {context.config.group_id!r}"
        refusal: GroupSdkError | None = None
        if context.discovery.coordinator is None:
            refusal = CoordinatorNotAvailableError(ErrorCode.COORDINATOR_NOT_AVAILABLE, asked)
        elif isinstance(event.request, OffsetCommitRequest) and not self._is_ours(event.request):
            refusal = IllegalGenerationError(ErrorCode.ILLEGAL_GENERATION, asked)
        if refusal is not None:
            context.actions.append(AnswerCaller(event.caller_request_id, refusal))
            return
        context.send(
            self._under_present_epoch(event.request),
            event.request.api.key,
            context.config.request_timeout_ms,
            caller_request_id=event.caller_request_id,
        )

    def answered(self, flight: InFlightRequest, response: Response) -> tuple[ConsumerReply, int]:
        """AnswerCaller the answer, and return what the machine is to do about it, with the error code."""
        assert flight.caller_request_id is not None
        self._context.actions.append(AnswerCaller(flight.caller_request_id, response))
        for code in error_codes(response):
            reply = REQUEST_REPLIES.get(ErrorCode.of(code), _PROCEED)
            if reply.reaction is not ConsumerReaction.PROCEED:
                return reply, code
        return _PROCEED, 0

    def refused(self, flight: InFlightRequest, error: GroupSdkError) -> None:
        """AnswerCaller that the broker is too old for a request, or that it cannot be written."""
        assert flight.caller_request_id is not None
        self._context.actions.append(AnswerCaller(flight.caller_request_id, error))

    def _is_ours(self, request: OffsetCommitRequest) -> bool:
        generation = self._context.generation
        return (
            request.member_id == generation.member_id
            # under an older one than that of its join, the member was another one
            and 0 <= self._membership.joined_epoch <= request.generation_id_or_member_epoch
            and request.generation_id_or_member_epoch <= generation.generation_id
        )

    def _under_present_epoch(self, request: CoordinatorRequest) -> CoordinatorRequest:
        generation = self._context.generation
        if isinstance(request, OffsetCommitRequest):
            return replace(request, generation_id_or_member_epoch=generation.generation_id)
        if isinstance(request, OffsetFetchRequest) and generation.generation_id >= 0:
            groups = tuple(
                replace(
                    each,
                    member_id=generation.member_id,
                    member_epoch=generation.generation_id,
                )
                for each in request.groups
            )
            return replace(request, groups=groups)
        return request
