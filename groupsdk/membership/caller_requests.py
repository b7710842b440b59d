"""Carry what the caller asks of its coordinator beside the membership: offsets and metadata.

Such a request goes over the member's own connection, so that it is in order with its joins, and an error in
the answer is about the same membership that the heartbeats keep up: what a stale commit is told, the machine
hears too. The reactions are those of Kafka's `ConsumerCoordinator`.
"""

from groupsdk.error_code import ErrorCode
from groupsdk.errors import (
    CoordinatorNotAvailableError,
    GroupSdkError,
    IllegalGenerationError,
    RebalanceInProgressError,
)
from groupsdk.membership.actions import AnswerCaller
from groupsdk.membership.context import MemberContext
from groupsdk.membership.events import CallerRequest
from groupsdk.membership.in_flight import PARKED, InFlightRequest
from groupsdk.membership.replies import Reply, reply_to_caller
from groupsdk.wire.messages.offset_commit import OffsetCommitRequest
from groupsdk.wire.schema import Response


class CallerRequests:
    """The requests of the caller that wait for an answer. Each is told exactly one."""

    def __init__(self, context: MemberContext) -> None:
        self._context = context

    def ask(self, event: CallerRequest) -> None:
        """Send a request, or tell at once why it cannot be sent now."""
        context = self._context
        refusal = self._refusal(event)
        if refusal is not None:
            context.actions.append(AnswerCaller(event.caller_request_id, refusal))
            return
        context.send(
            event.request,
            event.request.api.key,
            context.config.request_timeout_ms,
            caller_request_id=event.caller_request_id,
        )

    def answered(self, flight: InFlightRequest, response: Response) -> tuple[Reply, int]:
        """Hand the answer over; return what the machine is to do about it, and the error code behind that."""
        assert flight.caller_request_id is not None
        self._context.actions.append(AnswerCaller(flight.caller_request_id, response))
        return reply_to_caller(response)

    def refused(self, flight: InFlightRequest, error: GroupSdkError) -> None:
        """Tell that the broker is too old for a request, or that it cannot be written."""
        assert flight.caller_request_id is not None
        self._context.actions.append(AnswerCaller(flight.caller_request_id, error))

    def _refusal(self, event: CallerRequest) -> GroupSdkError | None:
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
