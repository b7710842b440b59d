"""The state machine of one member, whatever its protocol: an event and the time go in, actions come out."""

import logging
from typing import Any, Final, assert_never, cast

from groupsdk.error_code import ErrorCode
from groupsdk.errors import (
    AuthenticationError,
    GroupSdkError,
    IllegalGenerationError,
    MemberClosedError,
    NetworkError,
    RebalanceInProgressError,
    RequestTimeoutError,
    broker_error,
)
from groupsdk.member import events
from groupsdk.member.actions import Action, AnswerCaller, Send, Stop, Wake
from groupsdk.member.coordinator_access import CoordinatorAccess
from groupsdk.member.member import Deadline
from groupsdk.member.membership import (
    MOVED,
    InGroupResponse,
    Membership,
    Reply,
    reply_to_caller,
)
from groupsdk.member.requests import PARKED, CoordinatorRequest, InFlightRequest, InFlightSummary
from groupsdk.member.state import MemberState
from groupsdk.member.view import MemberView
from groupsdk.types import GroupMembershipOperation
from groupsdk.wire.messages.offsets import OffsetCommitRequest
from groupsdk.wire.schema import Response


_MOST_STEPS: Final = 20
"""More than can be due at once."""


class MembershipMachine:
    """One member of one group, without I/O.

    Call `handle` with everything that happens, one event at a time, and carry out the actions that it
    returns, in order. Then show the caller's side `view`, if it is another than before. The machine is
    not thread-safe: one thread owns it.

    No action calls user code, which runs in the caller's thread and may have to be called again: `MemberView.call`
    names the callback until it is answered.
    """

    def __init__(self, membership: Membership) -> None:
        self._membership = membership
        self._member = membership.member
        self._config = membership.member.config
        self._access = CoordinatorAccess(membership.member)
        self._deadlines: list[Deadline] | None = None
        """What is due when, as long as nothing happens; None: it has to be listed again."""
        self._close_by_ms: int | None = None
        self._stopped = False
        self._wake_at_ms: int | None = None
        self.view = self._make_view()
        """The whole state, for the caller's side; the same object for as long as nothing in it changes."""

    def handle(self, event: events.Event, now_ms: int) -> list[Action]:
        """Process an event at a time of a clock that never goes back. Return the actions to carry out, in order."""
        self._member.now_ms = now_ms
        actions: list[Action] = []
        if isinstance(event, events.TimerFired):
            self._wake_at_ms = None
        else:
            self._deadlines = None
            if isinstance(event, events.ResponseReceived):
                actions = [] if self._stopped else self._on_response(event)
            else:
                self._member.count(event)
                actions = [] if self._stopped else self._on_event(event)
        if not self._stopped:
            actions += self._advance()
        view = self._make_view()
        if view != self.view:
            self.view = view
        return actions

    def metrics(self, now_ms: int) -> dict[str, float]:
        """Return the values of Java's coordinator metrics for this protocol, by Kafka's names."""
        values = self._member.metrics.snapshot(now_ms)
        hidden = self._membership.hidden_metrics
        return {name: value for name, value in values.items() if not name.startswith(hidden)}

    def _make_view(self) -> MemberView:
        member, membership = self._member, self._membership
        details: Any = membership.view_details
        return membership.view_type(
            state=member.state,
            generation=member.generation,
            is_leader=member.is_leader,
            assignment_epoch=member.assignment_epoch,
            joining=member.call is not None or membership.joining,
            coordinator=member.coordinator,
            valid_until_ms=member.heartbeat.possession.until_ms,
            poll_until_ms=member.heartbeat.poll_until_ms,
            call=member.call,
            failure=member.failure,
            trouble=member.trouble,
            events=member.recorder.events,
            stopped=self._stopped,
            handled=member.handled,
            **details,
        )

    def _on_event(self, event: events.Event) -> list[Action]:
        member, membership = self._member, self._membership
        match event:
            case events.Polled(unreported_ms):
                member.unreported_ms = unreported_ms
                return self._caller_seen()
            case events.RejoinRequested() | events.RebalanceExpected():
                self._on_rebalance_wish(event)
            case events.JoinPrepared() | events.GroupAssigned() | events.JoinDelivered():
                return [*self._caller_seen(), *membership.answered(event)]
            case events.CallFailed(call_id, description):
                membership.call_failed(call_id, description)
            case events.FailureRaised(failure_id):
                member.failure_raised(failure_id)
            case events.JoinGivenUp() | events.LeaveRequested() | events.CloseRequested():
                return self._on_leaving(event)
            case events.CredentialsChanged():
                self._access.credentials_changed()
                if member.failure is not None:
                    self._forget_refusal(member.failure.error)
            case events.CallerRequest():
                return [self._on_caller_request(event)]
            case _:
                return self._on_network(event)
        return []

    def _on_rebalance_wish(self, event: events.RejoinRequested | events.RebalanceExpected) -> None:
        if isinstance(event, events.RejoinRequested):
            self._membership.ask_rejoin(event.reason, hand_over=event.hand_over)
        else:
            self._member.heartbeat.expect_rebalance(self._member.now_ms, event.for_ms)

    def _caller_seen(self) -> list[Action]:
        member = self._member
        # the timer may be late, after this process slept: what has lapsed is not revived by a poll
        late = member.caller_present and member.now_ms >= member.heartbeat.poll_until_ms
        actions = self._leave_for_poll_timeout() if late else []
        member.caller_present = True
        member.heartbeat.polled(member.now_ms + member.unreported_ms)
        return actions

    def _on_leaving(
        self, event: events.JoinGivenUp | events.LeaveRequested | events.CloseRequested
    ) -> list[Action]:
        member = self._member
        match event:
            case events.JoinGivenUp():
                return self._membership.give_up_join()
            case events.LeaveRequested(reason):
                actions = self._membership.leave(GroupMembershipOperation.LEAVE_GROUP, reason)
                member.caller_present = False
                return actions
            case events.CloseRequested(operation, timeout_ms, reason):
                if self._close_by_ms is not None:
                    return []
                self._close_by_ms = member.now_ms + timeout_ms
                return self._membership.leave(operation, reason)
            case _:
                assert_never(event)

    def _forget_refusal(self, error: GroupSdkError) -> None:
        if isinstance(error, AuthenticationError):  # of credentials that are not used any more
            self._member.recovered_from(error)

    def _leave_for_poll_timeout(self) -> list[Action]:
        member = self._member
        member.caller_present = False
        if member.state is MemberState.UNJOINED:
            return []
        interval_ms = self._config.poll_interval_ms
        member.log(
            logging.WARNING,
            "the caller has not polled for max.poll.interval.ms (%d ms): it is stuck or too slow. The"
            " member leaves, and joins again at the next poll; poll more often or raise the interval",
            interval_ms,
        )
        reason = f"the caller has not polled for {interval_ms} ms"
        return self._membership.leave_for_poll_timeout(reason)

    # The caller's own requests. They go over the member's connection, so that they are in order with its joins,
    # and an error in the response is about the same membership that the heartbeats keep up.

    def _on_caller_request(self, event: events.CallerRequest) -> Action:
        caller_request_id, request = event.caller_request_id, event.request
        if self._close_by_ms is not None:
            return AnswerCaller(caller_request_id, MemberClosedError("the member is closed"))
        refusal = self._refusal(request)
        if refusal is not None:
            return AnswerCaller(caller_request_id, refusal)
        return self._send_for_caller(
            self._membership.brought_up_to_date(request), caller_request_id
        )

    def _refusal(self, request: CoordinatorRequest) -> GroupSdkError | None:
        """Return why a request cannot be sent now; None if it can."""
        member = self._member
        asked = f"{request.api.key.name} of group {self._config.group_id!r}"
        if member.coordinator is None:
            return member.without_coordinator(asked)
        if not PARKED.isdisjoint(member.requests.summary.apis):
            # The broker reads nothing more from the connection before it has answered the join.
            return RebalanceInProgressError(ErrorCode.REBALANCE_IN_PROGRESS, asked)
        if isinstance(request, OffsetCommitRequest):
            if not self._membership.is_of_membership(request):
                return IllegalGenerationError(ErrorCode.ILLEGAL_GENERATION, asked)
            return member.unproven(asked)
        return None

    def _send_for_caller(self, request: CoordinatorRequest, caller_request_id: int) -> Send:
        return self._member.send(
            request,
            request.api.key,
            self._config.request_timeout_ms,
            caller_request_id=caller_request_id,
        )

    def _on_network(
        self,
        event: events.CoordinatorFound
        | events.LookupDelayed
        | events.LookupFailed
        | events.Disconnected
        | events.RequestRefused
        | events.ResponseReceived
        | events.TimerFired,
    ) -> list[Action]:
        member = self._member
        match event:
            case events.CoordinatorFound(node):
                self._access.found(node)
                member.heartbeat.reset_session(member.now_ms)
                member.heartbeat.hurry(member.now_ms)
            case events.LookupDelayed(error):
                self._access.delayed(error)
            case events.LookupFailed(error):
                self._access.failed(error)
            case events.Disconnected(error, connected):
                actions = self._lose_coordinator(error, connected=connected)
                if not error.retriable:
                    # refused credentials, say, or bytes that are not Kafka's: it goes on, but must be known
                    member.fail(error)
                return actions
            case events.RequestRefused(request_id, error):
                return self._on_refused(request_id, error)
            case events.ResponseReceived() | events.TimerFired():
                raise AssertionError(f"{type(event).__name__} is handled before")
            case _:
                assert_never(event)
        return []

    def _on_refused(self, request_id: int, error: GroupSdkError) -> list[Action]:
        flight = self._member.requests.take(request_id)
        if flight is None:
            return []
        if flight.caller_request_id is not None:
            return [AnswerCaller(flight.caller_request_id, error)]
        return self._membership.unsent(flight, error)

    def _on_response(self, event: events.ResponseReceived) -> list[Action]:
        member, membership = self._member, self._membership
        flight = member.requests.take(event.request_id)
        if flight is None:
            return []
        if flight.caller_request_id is not None:
            return self._on_caller_answered(
                flight, flight.caller_request_id, cast("Response", event.response)
            )
        if flight.api not in membership.in_group_apis:
            return self._on_other_answer(flight, event.response)
        response = cast("InGroupResponse", event.response)
        code = response.error_code
        reply = membership.reply_to(flight.api, code) if code else None
        if member.trouble is not None:
            self._access.answered(flight.api)
        if reply is None or reply.reaction is not membership.rediscover:
            self._access.reached(in_group=True)
        if flight.api in PARKED:
            # No heartbeat went out meanwhile: only this shows that the coordinator is there.
            member.heartbeat.reset_session(member.now_ms)
        else:
            member.metrics.heartbeat_received(member.now_ms - flight.sent_ms, member.now_ms)
        actions = membership.on_answer(flight, response, reply)
        if actions is None:
            assert reply is not None, "without an error code there is nothing to react to"
            return self._react(reply, flight, code, response)
        return actions

    def _on_other_answer(self, flight: InFlightRequest, response: object) -> list[Action]:
        actions = self._membership.on_other_answer(response)
        code = getattr(response, "error_code", 0) if flight.api is self._membership.leave_api else 0
        if code in MOVED:
            asked = f"{flight.api.name} of group {self._config.group_id!r}"
            actions += self._lose_coordinator(broker_error(code, asked))
        return actions

    def _on_caller_answered(
        self, flight: InFlightRequest, caller_request_id: int, response: Response
    ) -> list[Action]:
        actions: list[Action] = [AnswerCaller(caller_request_id, response)]
        found = reply_to_caller(self._membership.caller_replies, response)
        if found is None or found[0].reaction is not self._membership.rediscover:
            self._access.reached()
        if found is not None:
            reply, code = found
            actions += self._react(reply, flight, code, response)
        return actions

    def _react(
        self, reply: Reply, flight: InFlightRequest, code: int, response: object
    ) -> list[Action]:
        member, membership = self._member, self._membership
        error = broker_error(code, membership.describe(flight, reply, code, response))
        why = f"{error.error_code.name} in answer to {flight.api.name}"
        if reply.if_current and flight.generation != member.generation:
            member.log(logging.DEBUG, "%s is about %s: ignored", why, flight.generation)
            return []
        if reply.is_logged:
            member.log_thinned(
                ("reply", flight.api, code),
                logging.WARNING if reply.reaction.tells else logging.INFO,
                "%s: %s; reaction: %s",
                why,
                reply.note,
                reply.reaction.value,
            )
        actions = membership.carry_out(reply.reaction, flight, error, why)
        if reply.reaction is membership.rediscover:
            actions += self._lose_coordinator(error)
        return actions

    def _lose_coordinator(self, error: GroupSdkError, *, connected: bool = True) -> list[Action]:
        """Look up the coordinator again, after an error response or a lost connection."""
        if self._member.coordinator is None:
            return []
        actions, flights = self._access.lost(error, connected=connected)
        return [*actions, *self._membership.coordinator_lost(flights, error)]

    def _advance(self) -> list[Action]:
        """Do all work that is due, and set the timer for the next deadline."""
        now_ms = self._member.now_ms
        actions: list[Action] = []
        deadlines = self._deadlines
        if deadlines is None:
            deadlines = self._list_deadlines()
        next_ms: int | None = None
        for _ in range(_MOST_STEPS):
            next_ms = None
            for at_ms, step in deadlines:
                if at_ms <= now_ms:
                    actions += step()
                    deadlines = self._list_deadlines()
                    break
                if next_ms is None or at_ms < next_ms:
                    next_ms = at_ms
            else:
                break
        else:
            raise AssertionError("the machine spins: something stays due whatever is done about it")
        self._deadlines = deadlines
        if next_ms != self._wake_at_ms:
            self._wake_at_ms = next_ms
            actions.append(Wake(next_ms))
        return actions

    def _list_deadlines(self) -> list[Deadline]:
        """Return what is due when, the most urgent first: each guard of the machine is evaluated here.

        Nothing in it depends on the time: what is decided here holds until the next event.
        """
        member = self._member
        heartbeat, in_flight = member.heartbeat, member.requests.summary
        if self._close_by_ms is not None:
            return self._close_deadlines(in_flight, self._close_by_ms)
        deadlines = self._membership.leave_deadlines() if member.owes_leave else []
        if in_flight.first is not None:
            deadlines.append((in_flight.first.deadline_ms, self._time_out_request))
        if member.caller_present:
            deadlines.append((heartbeat.poll_until_ms, self._leave_for_poll_timeout))
        if member.call is not None:
            deadlines += self._membership.call_deadlines()
        # A member of a group may still be saved, whatever its caller is yet to be told.
        ready = member.caller_present and member.failure is None
        wanted = (
            member.state is not MemberState.UNJOINED
            or (ready and member.fatal is None)
            or member.owes_leave
        )
        if not wanted or member.coordinator is None:
            deadlines += self._access.deadlines(wanted=wanted)
        if member.coordinator is None:
            return deadlines
        if PARKED.isdisjoint(in_flight.apis):
            if heartbeat.session_until_ms is not None:
                deadlines.append((heartbeat.session_until_ms, self._give_up_coordinator))
            if (
                heartbeat.next_ms is not None
                and self._membership.heartbeat_api not in in_flight.apis
            ):
                deadlines.append((heartbeat.next_ms, self._beat))
        deadlines += self._membership.deadlines(can_call=ready and member.call is None)
        return deadlines

    def _close_deadlines(self, in_flight: InFlightSummary, close_by_ms: int) -> list[Deadline]:
        if self._stopped:
            return []
        membership, member = self._membership, self._member
        if not member.owes_leave and membership.leave_api not in in_flight.apis:
            return [(member.now_ms, self._stop)]
        deadlines: list[Deadline] = [(close_by_ms, self._stop), *membership.leave_deadlines()]
        if in_flight.first is not None:
            deadlines.append((in_flight.first.deadline_ms, self._time_out_request))
        if member.coordinator is None:
            deadlines += self._access.deadlines(wanted=True)
        return deadlines

    def _time_out_request(self) -> list[Action]:
        overdue = self._member.requests.summary.first
        assert overdue is not None
        waited_ms = self._member.now_ms - overdue.sent_ms
        return self._lose_coordinator(
            RequestTimeoutError(f"no answer to {overdue.api.name} within {waited_ms} ms")
        )

    def _give_up_coordinator(self) -> list[Action]:
        silent_ms = self._member.heartbeat.possession.session_timeout_ms
        return self._lose_coordinator(NetworkError(f"no heartbeat answered for {silent_ms} ms"))

    def _beat(self) -> list[Action]:
        member, membership = self._member, self._membership
        member.heartbeat.sent(member.now_ms)
        member.metrics.last_heartbeat_ms = member.now_ms
        timeout_ms = self._config.request_timeout_ms
        return [member.send(membership.heartbeat(), membership.heartbeat_api, timeout_ms)]

    def _stop(self) -> list[Action]:
        self._stopped = True
        return [Stop()]
