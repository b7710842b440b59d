"""The state machine of one classic member: an event and the time go in, actions come out."""

import logging
from random import Random
from typing import Final, assert_never, cast

from groupsdk.config import MemberConfig
from groupsdk.errors import (
    AuthenticationError,
    BrokerError,
    GroupSdkError,
    MemberClosedError,
    NetworkError,
    RequestTimeoutError,
    broker_error,
)
from groupsdk.membership.actions import (
    Action,
    AnswerCaller,
    Stop,
    Wake,
)
from groupsdk.membership.coordinator_access import CoordinatorAccess
from groupsdk.membership.events import (
    CallerRequest,
    CallFailed,
    CloseRequested,
    CoordinatorFound,
    CredentialsChanged,
    Disconnected,
    Event,
    FailureRaised,
    GroupAssigned,
    JoinDelivered,
    JoinGivenUp,
    JoinPrepared,
    LeaveRequested,
    LookupDelayed,
    LookupFailed,
    Polled,
    RejoinRequested,
    RequestRefused,
    ResponseReceived,
    TimerFired,
)
from groupsdk.membership.member import Deadline, Member, do_what_is_due
from groupsdk.membership.rebalance import Rebalance
from groupsdk.membership.replies import Reaction, Reply, reply_to, reply_to_caller
from groupsdk.membership.requests import (
    JOINING,
    PARKED,
    InFlightRequest,
    InFlightSummary,
    heartbeat_request,
    in_words,
    leave_request,
)
from groupsdk.membership.state import MemberState
from groupsdk.membership.view import MemberView
from groupsdk.types import GroupMembershipOperation
from groupsdk.wire.messages.describe_groups import DescribeGroupsResponse
from groupsdk.wire.messages.heartbeat import HeartbeatResponse
from groupsdk.wire.messages.join_group import JoinGroupResponse
from groupsdk.wire.messages.leave_group import LeaveGroupResponse
from groupsdk.wire.messages.sync_group import SyncGroupResponse
from groupsdk.wire.schema import ApiKey, Response


# A group is kept as one record, with all metadata and assignments, and brokers call it only unknown when
# that is over the limit of a record.
_LARGE_BYTES: Final = 500_000

_ANSWERED: Final = (Reaction.PROCEED, Reaction.KEEP_GIVEN_ID, Reaction.REBALANCING)
"""The reactions to an answer that carries what was asked for."""


class MembershipMachine:
    """One member of one group, as Kafka's `AbstractCoordinator` defines it, without I/O.

    Call `handle` with everything that happens, one event at a time, and carry out the actions that it
    returns, in order. Then show the caller's side `view`, where it is another than before. The machine is
    not thread-safe: one thread owns it.

    The user's code is not called by an action, since it runs in the caller's thread and may be asked for
    again: what is to be called stands in `MemberView.call` until it is answered.

    Args:
        config: the member's settings.
        random: where jitter comes from.
    """

    def __init__(self, config: MemberConfig, random: Random) -> None:
        self._config = config
        self._member = Member(config, random)
        self._rebalance = Rebalance(self._member)
        self._access = CoordinatorAccess(self._member)
        self._close_by_ms: int | None = None
        self._stopped = False
        self._wake_at_ms: int | None = None
        self.view = self._make_view()
        """The whole state, for the caller's side; the same object for as long as nothing in it changes."""

    def handle(self, event: Event, now_ms: int) -> list[Action]:
        """Process an event and return the actions to carry out, in order.

        Args:
            event: what happened.
            now_ms: the time, in milliseconds of a clock that never goes back.
        """
        self._member.now_ms = now_ms
        actions: list[Action] = []
        if isinstance(event, TimerFired):
            self._wake_at_ms = None
        elif isinstance(event, ResponseReceived):
            actions = [] if self._stopped else self._on_response(event)
        else:
            self._member.count(event)
            actions = [] if self._stopped else self._on_event(event)
        actions += [] if self._stopped else self._advance()
        view = self._make_view()
        if view != self.view:
            self.view = view
        return actions

    def metrics(self, now_ms: int) -> dict[str, float]:
        """Return the values of Kafka's coordinator metrics, by Kafka's names."""
        return self._member.metrics.snapshot(now_ms)

    def _make_view(self) -> MemberView:
        member, rebalance = self._member, self._rebalance
        return MemberView(
            state=member.state,
            generation=member.generation,
            is_leader=member.is_leader,
            assignment_epoch=rebalance.assignment_epoch,
            joining=rebalance.rejoin.needed
            or rebalance.call is not None
            or member.requests.summary.joining,
            coordinator=member.coordinator,
            valid_until_ms=member.heartbeat.possession.until_ms,
            poll_until_ms=member.heartbeat.poll_until_ms,
            call=rebalance.call,
            failure=member.failure,
            trouble=self._access.trouble,
            events=rebalance.recorder.events,
            stopped=self._stopped,
            handled=member.handled,
        )

    # What the caller reports.

    def _on_event(self, event: Event) -> list[Action]:
        member = self._member
        match event:
            case Polled(unreported_ms):
                member.unreported_ms = unreported_ms
                return self._caller_seen()
            case RejoinRequested(reason):
                self._rebalance.ask(reason)
            case JoinPrepared() | GroupAssigned() | JoinDelivered():
                return [*self._caller_seen(), *self._rebalance.answered(event)]
            case CallFailed(call_id, description):
                self._rebalance.call_failed(call_id, description)
            case FailureRaised(failure_id):
                member.failure_raised(failure_id)
            case JoinGivenUp() | LeaveRequested() | CloseRequested():
                return self._on_leaving(event)
            case CredentialsChanged():
                self._access.credentials_changed()
                if member.failure is not None:
                    self._forget_refusal(member.failure.error)
            case CallerRequest():
                return [self._on_caller_request(event)]
            case _:
                return self._on_network(event)
        return []

    def _caller_seen(self) -> list[Action]:
        member = self._member
        # the timer may be late, after this process slept: what has lapsed is not revived by a poll
        late = member.caller_present and member.now_ms >= member.heartbeat.poll_until_ms
        actions = self._leave_for_poll_timeout() if late else []
        member.caller_present = True
        member.heartbeat.polled(member.now_ms + member.unreported_ms)
        return actions

    def _on_leaving(self, event: JoinGivenUp | LeaveRequested | CloseRequested) -> list[Action]:
        match event:
            case JoinGivenUp():
                return self._give_up_join()
            case LeaveRequested(reason):
                actions = self._leave(GroupMembershipOperation.LEAVE_GROUP, reason)
                self._member.caller_present = False
                return actions
            case CloseRequested(operation, timeout_ms, reason):
                if self._close_by_ms is None:
                    self._close_by_ms = self._member.now_ms + timeout_ms
                    return self._leave(operation, reason)
                return []
            case _:
                assert_never(event)

    def _forget_refusal(self, error: GroupSdkError) -> None:
        if isinstance(error, AuthenticationError):  # of credentials that are not used any more
            self._member.recovered_from(error)

    def _on_caller_request(self, event: CallerRequest) -> Action:
        if self._close_by_ms is None:
            return self._member.send_for_caller(event)
        return AnswerCaller(event.caller_request_id, MemberClosedError("the member is closed"))

    # What the network reports.

    def _on_network(
        self,
        event: CoordinatorFound
        | LookupDelayed
        | LookupFailed
        | Disconnected
        | RequestRefused
        | ResponseReceived
        | TimerFired,
    ) -> list[Action]:
        member = self._member
        match event:
            case CoordinatorFound(node):
                self._access.found(node)
                member.heartbeat.reset_session(member.now_ms)
                member.heartbeat.hurry(member.now_ms)
            case LookupDelayed(error):
                self._access.delayed(error)
            case LookupFailed(error):
                self._access.failed(error)
            case Disconnected(error, connected):
                actions = self._lose_coordinator(error, connected=connected)
                if not error.retriable:
                    # refused credentials, say, or bytes that are not Kafka's: it goes on, but must be known
                    member.fail(error)
                return actions
            case RequestRefused(request_id, error):
                flight = member.requests.take(request_id)
                if flight is not None:
                    return self._on_refused(flight, error)
            case ResponseReceived() | TimerFired():
                raise AssertionError(f"{type(event).__name__} is handled before")
            case _:
                assert_never(event)
        return []

    def _on_response(self, event: ResponseReceived) -> list[Action]:
        flight, response = self._member.requests.take(event.request_id), event.response
        if flight is None:
            return []
        if flight.caller_request_id is not None:
            return self._on_caller_answered(
                flight, flight.caller_request_id, cast("Response", response)
            )
        match response:
            case JoinGroupResponse() | SyncGroupResponse() | HeartbeatResponse():
                return self._on_coordinator_answered(flight, response)
            case LeaveGroupResponse():
                self._on_leave_answered(response)
                return []
            case DescribeGroupsResponse():
                return self._rebalance.described(response)
            case _:
                raise AssertionError(
                    f"unexpected response {type(response).__name__}: members do not send its request"
                )

    def _on_coordinator_answered(
        self,
        flight: InFlightRequest,
        response: JoinGroupResponse | SyncGroupResponse | HeartbeatResponse,
    ) -> list[Action]:
        member = self._member
        reply = reply_to(flight.api, response.error_code)
        if self._access.trouble is not None:
            self._access.answered(flight.api)
        if reply.reaction is not Reaction.REDISCOVER:
            self._access.reached(in_group=True)
        if flight.api in PARKED:
            # No heartbeat went out meanwhile: only this shows that the coordinator is there.
            member.heartbeat.reset_session(member.now_ms)
        else:
            member.metrics.heartbeat_received(member.now_ms - flight.sent_ms, member.now_ms)
        if reply.reaction not in _ANSWERED:
            return self._react(reply, flight, response.error_code)
        match response:
            case HeartbeatResponse():
                self._on_heartbeat_accepted(flight, reply)
                return []
            case JoinGroupResponse() if reply.reaction is Reaction.KEEP_GIVEN_ID:
                return self._rebalance.member_id_given(response.member_id)
            case JoinGroupResponse():
                return self._rebalance.joined(flight, response)
            case SyncGroupResponse():
                member.log_thinner.calm()
                return self._rebalance.synced(flight, response)

    def _on_heartbeat_accepted(self, flight: InFlightRequest, reply: Reply) -> None:
        member = self._member
        if flight.generation != member.generation:
            return
        rebalancing = reply.reaction is Reaction.REBALANCING
        member.log_thinner.calm()
        # a leader that does not sync in time is expelled, though its heartbeats are answered without an error
        unsettled = rebalancing or member.state is MemberState.COMPLETING_REBALANCE
        member.heartbeat.accepted(member.now_ms, flight.sent_ms, rebalancing=unsettled)
        if rebalancing and member.state is MemberState.STABLE:
            member.log(logging.INFO, "the group is rebalancing")
            self._rebalance.rejoin.request("the group is already rebalancing")

    def _on_caller_answered(
        self, flight: InFlightRequest, caller_request_id: int, response: Response
    ) -> list[Action]:
        actions: list[Action] = [AnswerCaller(caller_request_id, response)]
        reply, code = reply_to_caller(response)
        if reply.reaction is not Reaction.REDISCOVER:
            self._access.reached()
        if reply.reaction is Reaction.REBALANCING:
            self._rebalance.rejoin.request("the group is already rebalancing")
        elif reply.reaction is not Reaction.PROCEED:
            actions += self._react(reply, flight, code)
        return actions

    def _on_leave_answered(self, response: LeaveGroupResponse) -> None:
        for code in (response.error_code, *(member.error_code for member in response.members)):
            if code:
                self._member.log(logging.INFO, "%s", broker_error(code, "leaving the group"))

    def _on_refused(self, flight: InFlightRequest, error: GroupSdkError) -> list[Action]:
        if flight.caller_request_id is not None:
            return [AnswerCaller(flight.caller_request_id, error)]
        if flight.api in JOINING:
            return self._rebalance.unsent(flight, error)
        if flight.api is not ApiKey.LEAVE_GROUP:
            self._member.fail(error)
        return []

    # What to do about an error code.

    def _react(self, reply: Reply, flight: InFlightRequest, code: int) -> list[Action]:
        member = self._member
        asked = in_words(self._config, flight.api, code)
        if reply.reaction is Reaction.FAIL and flight.payload_bytes > _LARGE_BYTES:
            asked = (
                f"{asked} with {flight.payload} of {flight.payload_bytes} bytes"
                " (brokers commonly allow about 1 MB for the whole group)"
            )
        error = broker_error(code, asked)
        why = f"{error.error_code.name} in answer to {flight.api.name}"
        if reply.if_current and flight.generation != member.generation:
            member.log(logging.DEBUG, "%s is about %s: ignored", why, flight.generation)
            return []
        member.log_thinned(
            ("reply", flight.api, code),
            logging.WARNING if reply.reaction.tells else logging.INFO,
            "%s: %s; reaction: %s",
            why,
            reply.note,
            reply.reaction.value,
        )
        return self._carry_out(reply.reaction, flight, error, why)

    def _carry_out(
        self, reaction: Reaction, flight: InFlightRequest, error: BrokerError, why: str
    ) -> list[Action]:
        member, rebalance = self._member, self._rebalance
        match reaction:
            case Reaction.REJOIN_NOW:
                return rebalance.retry_now(why)
            case Reaction.REJOIN_LATER:
                return rebalance.retry_later(why)
            case Reaction.REDISCOVER:
                retried = rebalance.retry_later(why) if flight.api in PARKED else []
                return [*retried, *self._lose_coordinator(error)]
            case Reaction.RESET_GENERATION:
                return rebalance.expel(why, keep_member_id=True)
            case Reaction.RESET_MEMBER:
                return rebalance.expel(why, keep_member_id=False)
            case Reaction.FENCE:
                expelled = rebalance.expel(why, keep_member_id=False)
                member.fail(error)
                return expelled
            case Reaction.FAIL:
                return rebalance.refused(flight, error)
            case Reaction.REPORT:
                member.fail(error)
            case Reaction.RETRY:
                member.heartbeat.failed(member.now_ms)
            case _:
                raise AssertionError(f"{reaction} is not a reaction to an error")
        return []

    # Losing the coordinator.

    def _lose_coordinator(self, error: GroupSdkError, *, connected: bool = True) -> list[Action]:
        """Look up the coordinator again, after an error response or a lost connection."""
        actions, flights = self._access.lost(error, connected=connected)
        for flight in flights:
            if flight.is_one_of(*JOINING):
                actions += self._rebalance.unanswered(flight, error)
        return actions

    # Leaving.

    def _give_up_join(self) -> list[Action]:
        """Free the connection from a parked JoinGroup; the member stays in the generation that it was in.

        The coordinator takes commits of that generation until every member has joined.
        """
        if not self._member.requests.has(ApiKey.JOIN_GROUP):
            return []
        actions, _ = self._member.drop_connection()
        return [*actions, *self._rebalance.retry_later("the member is about to leave")]

    def _leave(self, operation: GroupMembershipOperation, reason: str) -> list[Action]:
        member = self._member
        generation = member.generation
        dynamic = self._config.group_instance_id is None
        tell = (
            member.state is not MemberState.UNJOINED
            and generation.has_member_id
            and member.coordinator is not None
            and (
                operation is GroupMembershipOperation.LEAVE_GROUP
                or (dynamic and operation is GroupMembershipOperation.DEFAULT)
            )
        )
        if tell:
            member.log(logging.INFO, "leaving the group: %s", reason)
        # First, since it drops a connection on which the leave would wait behind a parked join or sync.
        actions = self._rebalance.leave(reason)
        if tell:
            request = leave_request(self._config, generation.member_id, reason)
            actions.append(
                member.send(request, ApiKey.LEAVE_GROUP, self._config.request_timeout_ms)
            )
        return actions

    def _leave_for_poll_timeout(self) -> list[Action]:
        member = self._member
        member.caller_present = False
        if member.state is MemberState.UNJOINED:
            return []
        member.log(
            logging.WARNING,
            "the caller has not polled for max.poll.interval.ms (%d ms): it is stuck or too slow. The"
            " member leaves, and joins again at the next poll; poll more often or raise the interval",
            self._config.poll_interval_ms,
        )
        return self._leave(
            GroupMembershipOperation.DEFAULT,
            f"the caller has not polled for {self._config.poll_interval_ms} ms",
        )

    # What is due.

    def _advance(self) -> list[Action]:
        """Do all work that is due, and set the timer for the next deadline."""
        actions, next_ms = do_what_is_due(self._deadlines, self._member.now_ms)
        if next_ms != self._wake_at_ms:
            self._wake_at_ms = next_ms
            actions.append(Wake(next_ms))
        return actions

    def _deadlines(self) -> list[Deadline]:
        """Return what is due when, the most urgent first: each guard of the machine is evaluated here, once a step.

        Nothing in it depends on the time: what is decided here holds until the next event.
        """
        member, in_flight = self._member, self._member.requests.summary
        if self._stopped:
            return []
        if self._close_by_ms is not None:
            # Beyond a deadline nothing is worth waiting for, however long the caller would.
            return [(self._close_deadline_ms(in_flight, self._close_by_ms), self._stop)]
        deadlines: list[Deadline] = []
        heartbeat, rejoin = member.heartbeat, self._rebalance.rejoin
        if in_flight.first is not None:
            deadlines.append((in_flight.first.deadline_ms, self._time_out_request))
        if member.caller_present:
            deadlines.append((heartbeat.poll_until_ms, self._leave_for_poll_timeout))
        deadlines += self._rebalance.lapse_deadlines()
        # A member of a group may still be saved, whatever its caller is yet to be told.
        wanted = member.state is not MemberState.UNJOINED or (
            member.caller_present and member.failure is None
        )
        if not wanted or member.coordinator is None:
            deadlines += self._access.deadlines(wanted=wanted)
        if member.coordinator is None:
            return deadlines
        if heartbeat.session_until_ms is not None and not in_flight.parked:
            deadlines.append((heartbeat.session_until_ms, self._give_up_coordinator))
            if heartbeat.next_ms is not None and not in_flight.heartbeat:
                deadlines.append((heartbeat.next_ms, self._beat))
        if (
            rejoin.needed
            and self._rebalance.call is None
            and member.caller_present
            and member.failure is None
            and not in_flight.joining
        ):
            deadlines.append((rejoin.retry_at_ms, self._rebalance.start))
        return deadlines

    def _close_deadline_ms(self, in_flight: InFlightSummary, close_by_ms: int) -> int:
        if not in_flight.leave or in_flight.first is None:
            return self._member.now_ms
        return min(close_by_ms, in_flight.first.deadline_ms)

    def _time_out_request(self) -> list[Action]:
        overdue = self._member.requests.summary.first
        assert overdue is not None
        waited_ms = self._member.now_ms - overdue.sent_ms
        return self._lose_coordinator(
            RequestTimeoutError(f"no answer to {overdue.api.name} within {waited_ms} ms")
        )

    def _give_up_coordinator(self) -> list[Action]:
        return self._lose_coordinator(
            NetworkError(f"no heartbeat answered for {self._config.session_timeout_ms} ms")
        )

    def _beat(self) -> list[Action]:
        member = self._member
        member.heartbeat.sent(member.now_ms)
        member.metrics.heartbeat_sent(member.now_ms)
        request = heartbeat_request(self._config, member.generation)
        return [member.send(request, ApiKey.HEARTBEAT, self._config.request_timeout_ms)]

    def _stop(self) -> list[Action]:
        self._stopped = True
        return [Stop()]
