"""The state machine of one consumer-protocol member: an event and the time go in, actions come out."""

import base64
import logging
from random import Random
from typing import Final, assert_never, cast

from groupsdk.consumer_membership.broker_pace import BrokerPacedHeartbeat
from groupsdk.consumer_membership.caller_requests import CallerRequests, reply_to_caller
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
    ConsumerMemberView,
)
from groupsdk.error_code import ErrorCode
from groupsdk.errors import (
    AuthenticationError,
    DecodeError,
    EncodeError,
    GroupSdkError,
    MemberClosedError,
    NetworkError,
    RequestTimeoutError,
    UnsupportedVersionError,
    broker_error,
)
from groupsdk.membership import events
from groupsdk.membership.actions import Action, AnswerCaller, Stop, Wake
from groupsdk.membership.coordinator_access import CoordinatorAccess
from groupsdk.membership.member import Deadline, Member, do_what_is_due
from groupsdk.membership.requests import InFlightRequest
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
_PATTERN_NEEDS: Final = (
    "a SubscriptionPattern is matched by the broker, which needs Apache Kafka 4.0 and the feature group.version=1;"
    " without them subscribe to re.compile(...), which the client matches"
)


class ConsumerMembershipMachine:
    """One member of one group of the consumer protocol (KIP-848), without I/O.

    It takes the events and returns the actions of `MembershipMachine`, so the same drivers run it. Its caller's
    two calls mean this: `PrepareJoin` asks for the subscription, and with `run_callback` first reports that all
    partitions are lost; `CompleteJoin` hands over an assignment, and the caller applies the difference to what it owns.
    The coordinator waits for the acknowledgement that this is done.

    The machine is not thread-safe: one thread owns it.

    Args:
        config: the member's settings.
        random: where jitter and the member id come from.
    """

    def __init__(self, config: ConsumerMemberConfig, random: Random) -> None:
        self._config = config
        self._member = member = Member(config, random)
        self._pace = BrokerPacedHeartbeat.of(config, member.backoff, random)
        member.heartbeat = self._pace
        self._membership = ConsumerMembership(config, member, self._pace, _new_member_id(random))
        self._access = CoordinatorAccess(member)
        self._requests = CallerRequests(member, self._membership)
        self._close_by_ms: int | None = None
        self._stopped = False
        self._wake_at_ms: int | None = None
        self.view = self._make_view()
        """The whole state, for the caller's side; the same object for as long as nothing in it changes."""

    def handle(self, event: events.Event, now_ms: int) -> list[Action]:
        """Process an event and return the actions to carry out, in order.

        Args:
            event: what happened.
            now_ms: the time, in milliseconds of a clock that never goes back.
        """
        self._member.now_ms = now_ms
        actions: list[Action] = []
        if not self._stopped:
            actions = [*self._on_event(event), *self._advance()]
        self._member.count(event)
        view = self._make_view()
        if view != self.view:
            self.view = view
        return actions

    def _on_event(self, event: events.Event) -> list[Action]:
        if isinstance(event, events.TimerFired):
            self._wake_at_ms = None
            return []
        if isinstance(event, events.NetworkEvent):
            return self._on_network(event)
        if isinstance(event, events.CallerRequest):
            return [self._on_caller_request(event)]
        return self._on_caller(event)

    def _make_view(self) -> ConsumerMemberView:
        member, membership = self._member, self._membership
        state = membership.state
        return ConsumerMemberView(
            state=member.state,
            generation=member.generation,
            is_leader=False,
            assignment_epoch=membership.assignment_epoch,
            joining=state is not ConsumerMemberState.STABLE or membership.call is not None,
            coordinator=member.coordinator,
            valid_until_ms=self._pace.possession.until_ms if state in IN_GROUP else None,
            poll_until_ms=self._pace.poll_until_ms,
            call=membership.call,
            failure=member.failure,
            trouble=self._access.trouble,
            events=membership.recorder.events,
            stopped=self._stopped,
            handled=member.handled,
            consumer_state=state,
        )

    def metrics(self, now_ms: int) -> dict[str, float]:
        """Return the values of the metrics that Java's consumer of this protocol has, by Kafka's names.

        Args:
            now_ms: the time, to which rates refer.
        """
        values = self._member.metrics.snapshot(now_ms)
        return {
            name: value for name, value in values.items() if not name.startswith(("join-", "sync-"))
        }

    # What the caller reports.

    def _on_caller(self, event: events.CallerEvent) -> list[Action]:
        member, membership = self._member, self._membership
        match event:
            case events.Polled(unreported_ms):
                member.unreported_ms = unreported_ms
                return self._caller_seen()
            case events.RejoinRequested(reason):
                membership.ask_again(reason)
            case (
                events.JoinPrepared()
                | events.JoinDelivered()
                | events.CallFailed()
                | events.FailureRaised()
            ):
                return self._on_called(event)
            case events.LeaveRequested() | events.CloseRequested():
                return self._on_leaving(event)
            case events.JoinGivenUp() | events.GroupAssigned():
                pass  # nothing is ever parked here, and nobody leads
            case events.CredentialsChanged():
                self._access.credentials_changed()
                failure = member.failure
                if failure is not None and isinstance(failure.error, AuthenticationError):
                    member.recovered_from(failure.error)
            case _:
                assert_never(event)
        return []

    def _on_called(
        self,
        event: events.JoinPrepared
        | events.JoinDelivered
        | events.CallFailed
        | events.FailureRaised,
    ) -> list[Action]:
        membership = self._membership
        match event:
            case events.JoinPrepared(call_id, _, protocols):
                actions = self._caller_seen()
                membership.prepared(call_id, protocols)
                return actions
            case events.JoinDelivered(call_id):
                actions = self._caller_seen()
                membership.delivered(call_id)
                return actions
            case events.CallFailed(call_id, description):
                membership.call_failed(call_id, description)
            case events.FailureRaised(failure_id):
                self._member.failure_raised(failure_id)
        return []

    def _caller_seen(self) -> list[Action]:
        member, pace = self._member, self._pace
        # the timer may be late, after this process slept: what has lapsed is not revived by a poll
        late = member.caller_present and member.now_ms >= pace.poll_until_ms
        actions = self._membership.leave_for_poll_timeout() if late else []
        member.caller_present = True
        pace.polled(member.now_ms + member.unreported_ms)
        return actions

    def _on_leaving(self, event: events.LeaveRequested | events.CloseRequested) -> list[Action]:
        member, membership = self._member, self._membership
        match event:
            case events.LeaveRequested(reason):
                actions = membership.leave(GroupMembershipOperation.LEAVE_GROUP, reason)
                member.caller_present = False
                return actions
            case events.CloseRequested(operation, timeout_ms, reason):
                if self._close_by_ms is not None:
                    return []
                self._close_by_ms = member.now_ms + timeout_ms
                return membership.leave(operation, reason)
            case _:
                assert_never(event)

    def _on_caller_request(self, event: events.CallerRequest) -> Action:
        if self._close_by_ms is None:
            return self._requests.send(event)
        return AnswerCaller(event.caller_request_id, MemberClosedError("the member is closed"))

    # What the network reports.

    def _on_network(self, event: events.NetworkEvent) -> list[Action]:
        member = self._member
        match event:
            case events.CoordinatorFound(node):
                self._access.found(node)
                self._pace.reset_session(member.now_ms)
                self._hurry()
            case events.LookupDelayed(error):
                self._access.delayed(error)
            case events.LookupFailed(error):
                self._access.failed(error)
            case events.Disconnected(error, connected):
                actions = self._lose_coordinator(error, connected=connected)
                if not error.retriable:
                    member.fail(error)
                return actions
            case events.ResponseReceived(request_id, response):
                flight = member.requests.take(request_id)
                if flight is not None:
                    return self._on_response(flight, response)
            case events.RequestRefused(request_id, error):
                flight = member.requests.take(request_id)
                if flight is not None:
                    return self._on_refused(flight, error)
            case _:
                assert_never(event)
        return []

    def _on_response(self, flight: InFlightRequest, response: object) -> list[Action]:
        if flight.caller_request_id is not None:
            answer: Action = AnswerCaller(flight.caller_request_id, cast("Response", response))
            reply, code = reply_to_caller(response)
            if reply.reaction is not ConsumerReaction.REDISCOVER:
                self._access.reached()
            if reply.reaction is ConsumerReaction.PROCEED:
                return [answer]
            return [answer, *self._react(reply, flight, code, None)]
        match response:
            case ConsumerGroupHeartbeatResponse():
                return self._on_heartbeat_answered(flight, response)
            case MetadataResponse():
                self._membership.reconciliation.names_told(response)
            case DescribeConfigsResponse():
                self._on_session_told(response)
            case _:
                raise AssertionError(
                    f"unexpected response {type(response).__name__}: members do not send its request"
                )
        return []

    def _on_session_told(self, response: DescribeConfigsResponse) -> None:
        why = self._pace.session_told(response)
        if why is not None:
            self._member.log_thinned(
                "session",
                logging.INFO,
                "the session timeout is not known (%s), and taken for %d ms",
                why,
                self._pace.session_timeout_ms,
            )

    def _on_heartbeat_answered(
        self, flight: InFlightRequest, response: ConsumerGroupHeartbeatResponse
    ) -> list[Action]:
        member, membership = self._member, self._membership
        joining = membership.state is ConsumerMemberState.JOINING
        reply = heartbeat_reply(response.error_code, joining=joining)
        self._access.answered(flight.api)
        if reply.reaction is not ConsumerReaction.REDISCOVER:
            self._access.reached(in_group=True)
        member.metrics.heartbeat_received(member.now_ms - flight.sent_ms, member.now_ms)
        if membership.leave_sent:
            membership.leave_sent = False
            if response.error_code:
                told = broker_error(response.error_code, "leaving the group")
                member.log(logging.INFO, "%s", told)
        elif reply.reaction is not ConsumerReaction.PROCEED:
            membership.say_everything()
            return self._react(reply, flight, response.error_code, response.error_message)
        elif (nonsense := membership.nonsense(response)) is not None:
            membership.say_everything()
            self._pace.failed(member.now_ms)
            member.fail(DecodeError(f"ConsumerGroupHeartbeatResponse without an error {nonsense}"))
        else:
            member.log_thinner.calm()
            membership.accepted(flight.sent_ms, response)
        return []

    def _on_refused(self, flight: InFlightRequest, error: GroupSdkError) -> list[Action]:
        if flight.caller_request_id is not None:
            return [AnswerCaller(flight.caller_request_id, error)]
        if flight.api is not _HEARTBEAT:
            self._member.log(logging.INFO, "%s cannot be asked: %s", flight.api.name, error)
        elif self._membership.leave_sent:
            self._membership.leave_sent = False
        else:
            if self._membership.subscription.pattern is not None:
                # a broker of 3.x may have a version of the request that cannot carry a pattern
                if isinstance(error, UnsupportedVersionError | EncodeError):
                    error = UnsupportedVersionError(f"{_PATTERN_NEEDS} ({error})")
            elif isinstance(error, UnsupportedVersionError):
                error = UnsupportedVersionError(f"{error}; {_NEEDS}")
            self._membership.refuse_for_good(error)
        return []

    # What to do about an error code.

    def _react(
        self, reply: ConsumerReply, flight: InFlightRequest, code: int, message: str | None
    ) -> list[Action]:
        member = self._member
        error = broker_error(code, self._in_words(flight.api, code, message))
        why = f"{error.error_code.name} in answer to {flight.api.name}"
        member.log_thinned(
            ("reply", flight.api, code),
            logging.WARNING if reply.reaction.tells else logging.INFO,
            "%s: %s; reaction: %s",
            why,
            reply.note,
            reply.reaction.value,
        )
        match reply.reaction:
            case ConsumerReaction.REDISCOVER:
                return self._lose_coordinator(error)
            case ConsumerReaction.RETRY:
                self._pace.failed(member.now_ms)
            case ConsumerReaction.REPORT:
                self._pace.failed(member.now_ms)
                member.fail(error)
            case ConsumerReaction.HEARTBEAT:
                self._hurry()
            case ConsumerReaction.REJOIN:
                self._membership.fence(why)
            case ConsumerReaction.FAIL:
                self._membership.refuse_for_good(error)
            case _:
                raise AssertionError(f"{reply.reaction} is not a reaction to an error")
        return []

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
            pattern = self._membership.subscription.pattern
            asked += f" ({_NEEDS if pattern is None else _PATTERN_NEEDS})"
        return f"{asked} (the broker: {message})" if message else asked

    def _hurry(self) -> None:
        if self._membership.state in HEARTBEATING:
            self._pace.hurry(self._member.now_ms)

    def _lose_coordinator(self, error: GroupSdkError, *, connected: bool = True) -> list[Action]:
        if self._member.coordinator is None:
            return []
        self._membership.answer_lost()
        actions, _ = self._access.lost(error, connected=connected)
        return actions

    # What is due.

    def _advance(self) -> list[Action]:
        """Do all work that is due, and set the timer for the next deadline."""
        now_ms = self._member.now_ms
        actions, next_ms = do_what_is_due(self._deadlines, now_ms)
        if self._close_by_ms is None and not self._stopped:
            self._membership.advance_call()
            more, next_ms = do_what_is_due(self._deadlines, now_ms)
            actions += more
        if next_ms != self._wake_at_ms:
            self._wake_at_ms = next_ms
            actions.append(Wake(next_ms))
        return actions

    def _deadlines(self) -> list[Deadline]:
        """Return what is due when, the most urgent first: each guard of the machine is evaluated here."""
        member, membership, pace = self._member, self._membership, self._pace
        if self._stopped:
            return []
        first = member.requests.summary.first
        if self._close_by_ms is not None:
            return [self._close_deadline(self._close_by_ms, first)]
        deadlines: list[Deadline] = []
        if first is not None:
            deadlines.append((first.deadline_ms, self._time_out_request))
        if member.caller_present:
            deadlines.append((pace.poll_until_ms, membership.leave_for_poll_timeout))
        deadlines += self._access.deadlines(wanted=self._wants_coordinator)
        if member.coordinator is None:
            return deadlines
        if membership.state in HEARTBEATING:
            deadlines += self._heartbeat_deadlines()
        if membership.state in IN_GROUP and not member.requests.has(ApiKey.DESCRIBE_CONFIGS):
            deadlines.append((pace.asks_session_at_ms(), self._ask_session))
        ask_names_at_ms = membership.reconciliation.ask_names_at_ms
        if ask_names_at_ms is not None:
            deadlines.append((ask_names_at_ms, membership.reconciliation.ask_names))
        if membership.prepare_at_ms is not None:
            deadlines.append((membership.prepare_at_ms, membership.advance_call))
        return deadlines

    def _heartbeat_deadlines(self) -> list[Deadline]:
        pace, deadlines = self._pace, list[Deadline]()
        if pace.session_until_ms is not None:
            deadlines.append((pace.session_until_ms, self._give_up_coordinator))
        if pace.next_ms is not None and not self._member.requests.has(_HEARTBEAT):
            deadlines.append((pace.next_ms, self._membership.beat))
        return deadlines

    def _close_deadline(self, close_by_ms: int, first: InFlightRequest | None) -> Deadline:
        # Beyond a deadline nothing is worth waiting for, however long the caller would.
        if first is None or not self._member.requests.has(_HEARTBEAT):
            return self._member.now_ms, self._stop
        return min(close_by_ms, first.deadline_ms), self._stop

    @property
    def _wants_coordinator(self) -> bool:
        if self._membership.fatal is not None:
            return False
        if self._membership.state in HEARTBEATING:
            return True  # the membership may still be saved, whatever the caller is yet to be told
        return self._member.caller_present and self._member.failure is None

    def _time_out_request(self) -> list[Action]:
        overdue = self._member.requests.summary.first
        assert overdue is not None
        waited_ms = self._member.now_ms - overdue.sent_ms
        return self._lose_coordinator(
            RequestTimeoutError(f"no answer to {overdue.api.name} within {waited_ms} ms")
        )

    def _give_up_coordinator(self) -> list[Action]:
        silent_ms = self._pace.session_timeout_ms
        return self._lose_coordinator(NetworkError(f"no heartbeat answered for {silent_ms} ms"))

    def _ask_session(self) -> list[Action]:
        member = self._member
        request = self._pace.session_request(self._config.group_id, member.now_ms)
        return [member.send(request, ApiKey.DESCRIBE_CONFIGS, self._config.request_timeout_ms)]

    def _stop(self) -> list[Action]:
        self._stopped = True
        return [Stop()]


def _new_member_id(random: Random) -> str:
    """Return an id as Java's consumers make it: 128 random bits in 22 characters (KIP-1082).

    It is kept for as long as the member lives, over every loss of the membership.
    """
    raw = random.getrandbits(128).to_bytes(16, "big")
    return base64.urlsafe_b64encode(raw).rstrip(b"=").decode()
