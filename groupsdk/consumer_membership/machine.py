"""Decide for one member of the consumer protocol: an event and the time go in, actions come out."""

import base64
import logging
from random import Random
from typing import Final, assert_never, cast

from groupsdk.consumer_membership.broker_pace import BrokerPacedHeartbeat
from groupsdk.consumer_membership.caller_requests import CallerRequests
from groupsdk.consumer_membership.config import ConsumerMemberConfig
from groupsdk.consumer_membership.membership import ConsumerMembership
from groupsdk.consumer_membership.replies import (
    ConsumerReaction,
    ConsumerReply,
    heartbeat_reply,
)
from groupsdk.consumer_membership.state import (
    HEARTBEATING,
    IN_GROUP,
    ConsumerMemberState,
)
from groupsdk.consumer_membership.view import ConsumerMemberView
from groupsdk.error_code import ErrorCode
from groupsdk.errors import (
    AuthenticationError,
    DecodeError,
    GroupSdkError,
    MemberClosedError,
    NetworkError,
    RequestTimeoutError,
    UnsupportedVersionError,
    broker_error,
)
from groupsdk.membership import events
from groupsdk.membership.actions import Action, AnswerCaller, Stop, Wake
from groupsdk.membership.context import MemberContext
from groupsdk.membership.coordinator_access import CoordinatorAccess
from groupsdk.membership.in_flight import InFlightRequest
from groupsdk.types import GroupMembershipOperation
from groupsdk.wire.messages.consumer_group_heartbeat import ConsumerGroupHeartbeatResponse
from groupsdk.wire.messages.describe_configs import DescribeConfigsResponse
from groupsdk.wire.messages.metadata import MetadataResponse
from groupsdk.wire.schema import ApiKey, Response


_HEARTBEAT: Final = ApiKey.CONSUMER_GROUP_HEARTBEAT
_NEEDS: Final = (
    "the consumer protocol needs Apache Kafka 4.0 and the feature group.version=1; without them use"
    " group.protocol=classic"
)


class ConsumerMembershipMachine:
    """One member of one group of the consumer protocol (KIP-848), without I/O.

    It takes the events and returns the actions of `MembershipMachine`, so the same drivers run it. Its caller's
    two calls mean this: `PrepareJoin` asks what to subscribe to, and first (with `run_callback`) tells that
    whatever was owned is lost; `CompleteJoin` hands over an assignment, of which the caller works out the
    difference to what it has. That the caller has done so is the acknowledgement which the coordinator waits for.

    The machine is not thread-safe: one thread owns it.
    """

    def __init__(self, config: ConsumerMemberConfig, random: Random) -> None:
        self._config = config
        self._context = context = MemberContext(config, random)
        self._pace = BrokerPacedHeartbeat.of(config, context.backoff, random)
        context.heartbeat = self._pace
        self._membership = ConsumerMembership(config, context, self._pace, _new_member_id(random))
        self._access = CoordinatorAccess(context)
        self._requests = CallerRequests(context, self._membership)
        self._close_by_ms: int | None = None
        self._stopped = False
        self._wake_at_ms: int | None = None

    def handle(self, event: events.Event, now_ms: int) -> list[Action]:
        """Take in what happened and return what is to be done, in order.

        Args:
            event: what happened.
            now_ms: the time, in milliseconds of a clock that never goes back.
        """
        if self._stopped:
            return []
        self._context.now_ms = now_ms
        actions: list[Action] = []
        self._context.actions = actions
        if isinstance(event, events.TimerFired):
            self._wake_at_ms = None
        elif isinstance(event, events.NetworkEvent):
            self._on_network(event)
        elif isinstance(event, events.CallerRequest):
            self._on_asked(event)
        else:
            self._on_caller(event)
        self._advance()
        self._schedule()
        return actions

    @property
    def view(self) -> ConsumerMemberView:
        """The whole state, for the caller's side."""
        context, membership = self._context, self._membership
        state = membership.state
        return ConsumerMemberView(
            state=context.state,
            generation=context.generation,
            is_leader=False,
            assignment_epoch=membership.assignment_epoch,
            joining=state is not ConsumerMemberState.STABLE or membership.call is not None,
            coordinator=context.discovery.coordinator,
            valid_until_ms=self._pace.valid_until_ms if state in IN_GROUP else None,
            poll_until_ms=self._pace.poll_until_ms,
            call=membership.call,
            failure=context.failure,
            trouble=self._access.trouble,
            events=membership.recorder.events(),
            stopped=self._stopped,
            consumer_state=state,
        )

    def metrics(self, now_ms: int) -> dict[str, float]:
        """Return the values of the metrics that Java's consumer of this protocol has, by Kafka's names."""
        values = self._context.metrics.snapshot(now_ms)
        return {
            name: value for name, value in values.items() if not name.startswith(("join-", "sync-"))
        }

    # What the caller reports.

    def _on_caller(self, event: events.CallerEvent) -> None:
        context, membership = self._context, self._membership
        match event:
            case events.Polled(unreported_ms):
                context.caller_present = True
                self._pace.polled(context.now_ms + unreported_ms)
            case events.RejoinRequested(reason):
                membership.ask_again(reason)
            case (
                events.JoinPrepared()
                | events.JoinDelivered()
                | events.CallFailed()
                | events.FailureRaised()
            ):
                self._on_called(event)
            case events.LeaveRequested() | events.CloseRequested():
                self._on_leaving(event)
            case events.JoinGivenUp() | events.GroupAssigned():
                pass  # nothing is ever parked here, and nobody leads
            case events.CredentialsChanged():
                context.discovery.credentials_changed(context.now_ms)
                failure = context.failure
                if failure is not None and isinstance(failure.error, AuthenticationError):
                    context.recovered_from(failure.error)
            case _:
                assert_never(event)

    def _on_called(
        self,
        event: events.JoinPrepared
        | events.JoinDelivered
        | events.CallFailed
        | events.FailureRaised,
    ) -> None:
        membership = self._membership
        match event:
            case events.JoinPrepared(call_id, _, protocols):
                membership.prepared(call_id, protocols)
            case events.JoinDelivered(call_id):
                membership.delivered(call_id)
            case events.CallFailed(call_id, description):
                membership.call_failed(call_id, description)
            case events.FailureRaised(failure_id):
                self._context.failure_raised(failure_id)
                membership.fatal_raised()

    def _on_leaving(self, event: events.LeaveRequested | events.CloseRequested) -> None:
        context, membership = self._context, self._membership
        match event:
            case events.LeaveRequested(reason):
                membership.leave(GroupMembershipOperation.LEAVE_GROUP, reason)
                context.caller_present = False
            case events.CloseRequested(operation, timeout_ms, reason):
                if self._close_by_ms is None:
                    membership.leave(operation, reason)
                    self._close_by_ms = context.now_ms + timeout_ms

    def _on_asked(self, event: events.CallerRequest) -> None:
        if self._close_by_ms is None:
            self._requests.ask(event)
        else:
            closed = MemberClosedError("the member is closed")
            self._context.actions.append(AnswerCaller(event.caller_request_id, closed))

    # What the network reports.

    def _on_network(self, event: events.NetworkEvent) -> None:
        context = self._context
        match event:
            case events.CoordinatorFound(node):
                self._access.found(node)
                self._pace.reset_session(context.now_ms)
                self._hurry()
            case events.LookupDelayed(error):
                self._access.delayed(error)
            case events.LookupFailed(error):
                self._access.failed(error)
            case events.Disconnected(error, connected):
                self._lose_coordinator(error, connected=connected)
                if not error.retriable:
                    context.fail(error)
            case events.ResponseReceived(request_id, response):
                flight = context.requests.take(request_id)
                if flight is not None:
                    self._on_response(flight, response)
            case events.RequestRefused(request_id, error):
                flight = context.requests.take(request_id)
                if flight is not None:
                    self._on_refused(flight, error)
            case _:
                assert_never(event)

    def _on_response(self, flight: InFlightRequest, response: object) -> None:
        if flight.caller_request_id is not None:
            reply, code = self._requests.answered(flight, cast("Response", response))
            if reply.reaction is not ConsumerReaction.REDISCOVER:
                self._access.reached()
            if reply.reaction is not ConsumerReaction.PROCEED:
                self._react(reply, flight, code, None)
            return
        match response:
            case ConsumerGroupHeartbeatResponse():
                self._on_heartbeat_answered(flight, response)
            case MetadataResponse():
                self._membership.reconciliation.names_told(response)
            case DescribeConfigsResponse():
                self._on_session_told(response)
            case _:
                raise AssertionError(f"no member sends what {type(response).__name__} answers")

    def _on_session_told(self, response: DescribeConfigsResponse) -> None:
        why = self._pace.session_told(response)
        if why is not None:
            self._context.log_thinned(
                "session",
                logging.INFO,
                "the session timeout is not known (%s), and taken for %d ms",
                why,
                self._pace.session_timeout_ms,
            )

    def _on_heartbeat_answered(
        self, flight: InFlightRequest, response: ConsumerGroupHeartbeatResponse
    ) -> None:
        context, membership = self._context, self._membership
        reply = heartbeat_reply(response.error_code)
        self._access.answered(flight.api)
        if reply.reaction is not ConsumerReaction.REDISCOVER:
            context.discovery.answered()
            self._access.reached()
        context.metrics.heartbeat_received(context.now_ms - flight.sent_ms, context.now_ms)
        if membership.leave_sent:
            membership.leave_sent = False
            if response.error_code:
                told = broker_error(response.error_code, "leaving the group")
                context.log(logging.INFO, "%s", told)
        elif reply.reaction is not ConsumerReaction.PROCEED:
            membership.say_everything()
            self._react(reply, flight, response.error_code, response.error_message)
        elif membership.makes_sense(response):
            context.repeats.calm()
            membership.accepted(flight.sent_ms, response)
        else:
            membership.say_everything()
            self._pace.failed(context.now_ms)
            asked = f"a member with epoch {context.generation.generation_id}"
            context.fail(
                DecodeError(
                    "ConsumerGroupHeartbeatResponse without an error has member epoch"
                    f" {response.member_epoch} for {asked}"
                )
            )

    def _on_refused(self, flight: InFlightRequest, error: GroupSdkError) -> None:
        if flight.caller_request_id is not None:
            self._requests.refused(flight, error)
        elif flight.api is not _HEARTBEAT:
            self._context.log(logging.INFO, "%s cannot be asked: %s", flight.api.name, error)
        elif self._membership.leave_sent:
            self._membership.leave_sent = False
        else:
            if isinstance(error, UnsupportedVersionError):
                error = UnsupportedVersionError(f"{error}; {_NEEDS}")
            self._membership.refuse_for_good(error)

    # What to do about an error code.

    def _react(
        self, reply: ConsumerReply, flight: InFlightRequest, code: int, message: str | None
    ) -> None:
        context = self._context
        error = broker_error(code, self._in_words(flight.api, code, message))
        why = f"{error.error_code.name} in answer to {flight.api.name}"
        grave = reply.reaction in (ConsumerReaction.REPORT, ConsumerReaction.FAIL)
        context.log_thinned(
            ("reply", flight.api, code),
            logging.WARNING if grave else logging.INFO,
            "%s: %s; reaction: %s",
            why,
            reply.note,
            reply.reaction.value,
        )
        match reply.reaction:
            case ConsumerReaction.REDISCOVER:
                self._lose_coordinator(error)
            case ConsumerReaction.RETRY:
                self._pace.failed(context.now_ms)
            case ConsumerReaction.REPORT:
                self._pace.failed(context.now_ms)
                context.fail(error)
            case ConsumerReaction.HEARTBEAT:
                self._hurry()
            case ConsumerReaction.REJOIN:
                self._membership.fence(why)
            case ConsumerReaction.FAIL:
                self._membership.refuse_for_good(error)
            case _:
                raise AssertionError(f"{reply.reaction} is no reaction to an error")

    def _in_words(self, api: ApiKey, code: int, message: str | None) -> str:
        """Name a request for the error about it, with the setting of ours that the error is about."""
        config = self._config
        asked = f"{api.name} of group {config.group_id!r}"
        if code in (ErrorCode.FENCED_INSTANCE_ID, ErrorCode.UNRELEASED_INSTANCE_ID):
            asked += f" as group.instance.id={config.group_instance_id!r}"
        elif code == ErrorCode.UNSUPPORTED_ASSIGNOR:
            asked += f" with group.remote.assignor={config.server_assignor!r}"
        elif code == ErrorCode.INVALID_REGULAR_EXPRESSION:
            asked += f" with the pattern {self._membership.subscription.pattern!r}"
        elif code == ErrorCode.UNSUPPORTED_VERSION:
            asked += f" ({_NEEDS})"
        return f"{asked} (the broker: {message})" if message else asked

    def _hurry(self) -> None:
        if self._membership.state in HEARTBEATING:
            self._pace.hurry(self._context.now_ms)

    def _lose_coordinator(self, error: GroupSdkError, *, connected: bool = True) -> None:
        if self._context.discovery.coordinator is not None:
            self._membership.say_everything()
            self._access.lost(error, connected=connected)

    # What is due.

    def _advance(self) -> None:
        if self._close_by_ms is not None:
            self._advance_close(self._close_by_ms)
            return
        context, membership = self._context, self._membership
        now_ms = context.now_ms
        overdue = context.requests.overdue(now_ms)
        if overdue is not None:
            waited_ms = now_ms - overdue.sent_ms
            self._lose_coordinator(
                RequestTimeoutError(f"no answer to {overdue.api.name} within {waited_ms} ms")
            )
        if context.caller_present and self._pace.poll_expired(now_ms):
            membership.leave_for_poll_timeout()
        if self._watches_session and self._pace.session_expired(now_ms):
            silent_ms = self._pace.session_timeout_ms
            self._lose_coordinator(NetworkError(f"no heartbeat answered for {silent_ms} ms"))
        self._access.advance(wanted=self._wants_coordinator)
        if self._can_beat and self._pace.due(now_ms):
            membership.beat()
        if self._can_ask_session and now_ms >= self._pace.asks_session_at_ms():
            request = self._pace.session_request(self._config.group_id, now_ms)
            context.send(request, ApiKey.DESCRIBE_CONFIGS, self._config.request_timeout_ms)
        membership.reconciliation.ask_names()
        membership.advance_call()

    def _advance_close(self, close_by_ms: int) -> None:
        context = self._context
        # Beyond a deadline nothing is worth waiting for, however long the caller would.
        overdue = context.now_ms >= close_by_ms or context.requests.overdue(context.now_ms)
        if overdue or not context.requests.has(_HEARTBEAT):
            self._stopped = True
            context.actions.append(Stop())

    @property
    def _wants_coordinator(self) -> bool:
        if self._membership.fatal is not None:
            return False
        if self._membership.state in HEARTBEATING:
            return True  # the membership may still be saved, whatever the caller is yet to be told
        return self._context.caller_present and self._context.failure is None

    @property
    def _watches_session(self) -> bool:
        known = self._context.discovery.coordinator is not None
        return known and self._membership.state in HEARTBEATING

    @property
    def _can_beat(self) -> bool:
        return self._watches_session and not self._context.requests.has(_HEARTBEAT)

    @property
    def _can_ask_session(self) -> bool:
        context = self._context
        known = context.discovery.coordinator is not None
        joined = self._membership.state in IN_GROUP
        return known and joined and not context.requests.has(ApiKey.DESCRIBE_CONFIGS)

    def _schedule(self) -> None:
        context, membership = self._context, self._membership
        times = [context.requests.next_deadline_ms, self._close_by_ms]
        if self._close_by_ms is None:
            if context.caller_present:
                times.append(self._pace.poll_until_ms)
            if self._watches_session:
                times.append(self._pace.session_until_ms)
            if self._can_beat:
                times.append(self._pace.next_ms)
            if self._can_ask_session:
                times.append(self._pace.asks_session_at_ms())
            times.extend((membership.prepare_at_ms, membership.reconciliation.ask_names_at_ms))
            times.extend(self._access.times_ms(wanted=self._wants_coordinator))
        known = [at_ms for at_ms in times if at_ms is not None]
        wake_at_ms = None if self._stopped or not known else min(known)
        if wake_at_ms != self._wake_at_ms:
            self._wake_at_ms = wake_at_ms
            context.actions.append(Wake(wake_at_ms))


def _new_member_id(random: Random) -> str:
    """Return an id as Java's consumers make it: 128 random bits in 22 characters (KIP-1082).

    It is kept for as long as the member lives, over every loss of the membership.
    """
    raw = random.getrandbits(128).to_bytes(16, "big")
    return base64.urlsafe_b64encode(raw).rstrip(b"=").decode()
