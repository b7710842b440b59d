"""Send the caller's own requests to the coordinator: commits, offset fetches, metadata.

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
from groupsdk.errors import GroupSdkError, IllegalGenerationError
from groupsdk.membership.actions import Action, AnswerCaller
from groupsdk.membership.events import CallerRequest
from groupsdk.membership.member import Member
from groupsdk.membership.replies import error_codes
from groupsdk.membership.requests import CoordinatorRequest
from groupsdk.wire.messages.offset_commit import OffsetCommitRequest
from groupsdk.wire.messages.offset_fetch import OffsetFetchRequest


_PROCEED = ConsumerReply(ConsumerReaction.PROCEED, "")


class CallerRequests:
    """Sends the caller's requests. Each gets exactly one response or error.

    Args:
        member: the member's data.
        membership: its epoch, under which commits are sent.
    """

    def __init__(self, member: Member, membership: ConsumerMembership) -> None:
        self._member = member
        self._membership = membership

    def send(self, event: CallerRequest) -> Action:
        """Send a request, or fail it at once if it cannot be sent now.

        Args:
            event: the request; a commit of an earlier membership fails with IllegalGenerationError.

        Returns:
            A `Send`, or an `AnswerCaller` with the error.
        """
        member = self._member
        asked = f"{event.request.api.key.name} of group {member.config.group_id!r}"
        refusal: GroupSdkError | None = None
        if member.coordinator is None:
            refusal = member.without_coordinator(asked)
        elif isinstance(event.request, OffsetCommitRequest):
            refusal = (
                member.unproven(asked)
                if self._is_ours(event.request)
                else IllegalGenerationError(ErrorCode.ILLEGAL_GENERATION, asked)
            )
        if refusal is not None:
            return AnswerCaller(event.caller_request_id, refusal)
        return member.send(
            self._under_present_epoch(event.request),
            event.request.api.key,
            member.config.request_timeout_ms,
            caller_request_id=event.caller_request_id,
        )

    def _is_ours(self, request: OffsetCommitRequest) -> bool:
        generation = self._member.generation
        return (
            request.member_id == generation.member_id
            # under an older one than that of its join, the member was another one
            and 0 <= self._membership.joined_epoch <= request.generation_id_or_member_epoch
            and request.generation_id_or_member_epoch <= generation.generation_id
        )

    def _under_present_epoch(self, request: CoordinatorRequest) -> CoordinatorRequest:
        generation = self._member.generation
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


def reply_to_caller(response: object) -> tuple[ConsumerReply, int]:
    """Return the reaction to a response to the caller's request, and the error code behind it.

    Args:
        response: the decoded response, of whichever API the caller used.
    """
    for code in error_codes(response):
        reply = REQUEST_REPLIES.get(ErrorCode.of(code), _PROCEED)
        if reply.reaction is not ConsumerReaction.PROCEED:
            return reply, code
    return _PROCEED, 0
