"""Decide for one member: an event and the time go in, actions come out."""

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
from groupsdk.membership import events
from groupsdk.membership.actions import (
    Action,
    AnswerCaller,
    FindCoordinator,
    Stop,
    StopLooking,
    Wake,
)
from groupsdk.membership.caller_requests import CallerRequests
from groupsdk.membership.connection_failures import ConnectionFailures, Outage
from groupsdk.membership.context import MemberContext
from groupsdk.membership.in_flight import JOINING, PARKED, InFlightRequest
from groupsdk.membership.rebalance import Rebalance
from groupsdk.membership.replies import Reaction, Reply, reply_to
from groupsdk.membership.requests import heartbeat_request, in_words, leave_request
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


class MembershipMachine:
    """One member of one group, as Kafka's `AbstractCoordinator` defines it, without I/O.

    Call `handle` with everything that happens, one event at a time, and carry out the actions that it
    returns, in order. Then show the caller's side what `view` returns. The machine is not thread-safe:
    one thread owns it.
    """

    def __init__(self, config: MemberConfig, random: Random) -> None:
        self._config = config
        self._context = MemberContext(config, random)
        self._rebalance = Rebalance(self._context)
        self._caller_requests = CallerRequests(self._context)
        self._trouble: str | None = None
        self._failures = ConnectionFailures()
        self._outage = Outage(config.socket_connection_setup_timeout_ms)
        self._reached_before = False
        self._lookup_error: GroupSdkError | None = None
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
    def view(self) -> MemberView:
        """The whole state, for the caller's side."""
        context, rebalance = self._context, self._rebalance
        return MemberView(
            state=context.state,
            generation=context.generation,
            is_leader=context.is_leader,
            assignment_epoch=rebalance.assignment_epoch,
            joining=rebalance.pending,
            coordinator=context.discovery.coordinator,
            valid_until_ms=context.heartbeat.valid_until_ms,
            poll_until_ms=context.heartbeat.poll_until_ms,
            call=rebalance.call,
            failure=context.failure,
            trouble=self._trouble,
            events=rebalance.events(),
            stopped=self._stopped,
        )

    def metrics(self, now_ms: int) -> dict[str, float]:
        """Return the values of Kafka's coordinator metrics, by Kafka's names."""
        return self._context.metrics.snapshot(now_ms)

    # What the caller reports.

    def _on_caller(self, event: events.CallerEvent) -> None:
        context = self._context
        match event:
            case events.Polled(unreported_ms):
                context.caller_present = True
                context.heartbeat.polled(context.now_ms + unreported_ms)
            case events.RejoinRequested(reason):
                self._rebalance.ask(reason)
            case events.JoinPrepared() | events.GroupAssigned() | events.JoinDelivered():
                self._rebalance.answered(event)
            case events.CallFailed(call_id, description):
                self._rebalance.call_failed(call_id, description)
            case events.FailureRaised(failure_id):
                context.failure_raised(failure_id)
            case events.JoinGivenUp() | events.LeaveRequested() | events.CloseRequested():
                self._on_leaving(event)
            case events.CredentialsChanged():
                context.discovery.credentials_changed(context.now_ms)
                if context.failure is not None:
                    self._forget_refusal(context.failure.error)
            case _:
                assert_never(event)

    def _on_leaving(
        self, event: events.JoinGivenUp | events.LeaveRequested | events.CloseRequested
    ) -> None:
        match event:
            case events.JoinGivenUp():
                self._give_up_join()
            case events.LeaveRequested(reason):
                self._leave(GroupMembershipOperation.LEAVE_GROUP, reason)
                self._context.caller_present = False
            case events.CloseRequested(operation, timeout_ms, reason):
                if self._close_by_ms is None:
                    self._leave(operation, reason)
                    self._close_by_ms = self._context.now_ms + timeout_ms
            case _:
                assert_never(event)

    def _forget_refusal(self, error: GroupSdkError) -> None:
        if isinstance(error, AuthenticationError):  # of credentials that are not used any more
            self._context.recovered_from(error)

    def _on_asked(self, event: events.CallerRequest) -> None:
        if self._close_by_ms is None:
            self._caller_requests.ask(event)
        else:
            closed = MemberClosedError("the member is closed")
            self._context.actions.append(AnswerCaller(event.caller_request_id, closed))

    # What the network reports.

    def _on_network(self, event: events.NetworkEvent) -> None:
        context = self._context
        match event:
            case events.CoordinatorFound(node):
                context.discovery.found(node)
                self._outage.found(context.now_ms)
                # Being found proves little: what made it close the connection may do so again.
                self._trouble = self._failures.trouble
                context.recovered_from(self._lookup_error)
                context.heartbeat.reset_session(context.now_ms)
                context.heartbeat.hurry(context.now_ms)
                context.log_thinned(
                    ("found", node), logging.INFO, "the group coordinator is %s", node
                )
            case events.LookupDelayed(error):
                self._trouble = str(error)
            case events.LookupFailed(error):
                self._trouble = str(error)
                self._lookup_error = error
                refused = isinstance(error, AuthenticationError)
                context.discovery.failed(context.now_ms, refused=refused)
                context.fail(error)
            case events.Disconnected(error, connected):
                self._lose_coordinator(error, connected=connected)
                if not error.retriable:
                    # refused credentials, say, or bytes that are not Kafka's: it goes on, but must be known
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
            self._on_told(flight, cast("Response", response))
            return
        match response:
            case JoinGroupResponse() | SyncGroupResponse() | HeartbeatResponse():
                self._on_coordinator_answered(flight, response)
            case LeaveGroupResponse():
                self._on_leave_answered(response)
            case DescribeGroupsResponse():
                self._rebalance.described(response)
            case _:
                raise AssertionError(f"no member sends what {type(response).__name__} answers")

    def _on_coordinator_answered(
        self,
        flight: InFlightRequest,
        response: JoinGroupResponse | SyncGroupResponse | HeartbeatResponse,
    ) -> None:
        context = self._context
        reply = reply_to(flight.api, response.error_code)
        self._failures.answered(flight.api)
        self._trouble = self._failures.trouble
        if reply.reaction is not Reaction.REDISCOVER:
            context.discovery.answered()
            self._reached()
        if flight.api in PARKED:
            # No heartbeat went out meanwhile: only this shows that the coordinator is there.
            context.heartbeat.reset_session(context.now_ms)
        else:
            context.metrics.heartbeat_received(context.now_ms - flight.sent_ms, context.now_ms)
        if reply.reaction not in (
            Reaction.PROCEED,
            Reaction.KEEP_GIVEN_ID,
            Reaction.REBALANCING,
        ):
            self._react(reply, flight, response.error_code)
            return
        match response:
            case JoinGroupResponse() if reply.reaction is Reaction.KEEP_GIVEN_ID:
                self._rebalance.member_id_given(response.member_id)
            case JoinGroupResponse():
                self._rebalance.joined(flight, response)
            case SyncGroupResponse():
                context.repeats.calm()
                self._rebalance.synced(flight, response)
            case HeartbeatResponse():
                self._on_heartbeat_accepted(flight, reply)

    def _on_heartbeat_accepted(self, flight: InFlightRequest, reply: Reply) -> None:
        context = self._context
        if flight.generation != context.generation:
            return
        rebalancing = reply.reaction is Reaction.REBALANCING
        context.repeats.calm()
        context.heartbeat.received(context.now_ms)
        context.heartbeat.prove(flight.sent_ms, rebalancing=rebalancing)
        if rebalancing and context.state is MemberState.STABLE:
            context.log(logging.INFO, "the group rebalances, which is a normal part of its life")
            self._rebalance.rejoin.request("the group is already rebalancing")

    def _on_told(self, flight: InFlightRequest, response: Response) -> None:
        reply, code = self._caller_requests.answered(flight, response)
        if reply.reaction is not Reaction.REDISCOVER:
            self._reached()
        if reply.reaction is Reaction.REBALANCING:
            self._rebalance.rejoin.request("the group is already rebalancing")
        elif reply.reaction is not Reaction.PROCEED:
            self._react(reply, flight, code)

    def _on_leave_answered(self, response: LeaveGroupResponse) -> None:
        for code in (response.error_code, *(member.error_code for member in response.members)):
            if code:
                self._context.log(logging.INFO, "%s", broker_error(code, "leaving the group"))

    def _on_refused(self, flight: InFlightRequest, error: GroupSdkError) -> None:
        if flight.caller_request_id is not None:
            self._caller_requests.refused(flight, error)
        elif flight.api in JOINING:
            self._rebalance.unsent(flight, error)
        elif flight.api is not ApiKey.LEAVE_GROUP:
            self._context.fail(error)

    # What to do about an error code.

    def _react(self, reply: Reply, flight: InFlightRequest, code: int) -> None:
        context, rebalance = self._context, self._rebalance
        asked = in_words(self._config, flight.api, code)
        if reply.reaction is Reaction.FAIL and flight.payload_bytes > _LARGE_BYTES:
            asked = (
                f"{asked} with {flight.payload} of {flight.payload_bytes} bytes"
                " (brokers commonly allow about 1 MB for the whole group)"
            )
        error = broker_error(code, asked)
        why = f"{error.error_code.name} in answer to {flight.api.name}"
        if reply.if_current and flight.generation != context.generation:
            context.log(logging.DEBUG, "%s is about %s: ignored", why, flight.generation)
            return
        grave = reply.reaction in (Reaction.REPORT, Reaction.FAIL, Reaction.FENCE)
        context.log_thinned(
            ("reply", flight.api, code),
            logging.WARNING if grave else logging.INFO,
            "%s: %s; reaction: %s",
            why,
            reply.note,
            reply.reaction.value,
        )
        match reply.reaction:
            case Reaction.REJOIN_NOW:
                rebalance.retry_now(why)
            case Reaction.REJOIN_LATER:
                rebalance.retry_later(why)
            case Reaction.REDISCOVER:
                if flight.api in PARKED:
                    rebalance.retry_later(why)
                self._lose_coordinator(error)
            case Reaction.RESET_GENERATION:
                rebalance.expel(why, keep_member_id=True)
            case Reaction.RESET_MEMBER:
                rebalance.expel(why, keep_member_id=False)
            case _:
                self._react_to_caller(reply.reaction, flight, error, why)

    def _react_to_caller(
        self, reaction: Reaction, flight: InFlightRequest, error: BrokerError, why: str
    ) -> None:
        match reaction:
            case Reaction.RETRY:
                self._context.heartbeat.failed(self._context.now_ms)
            case Reaction.REPORT:
                self._context.fail(error)
            case Reaction.FAIL:
                self._rebalance.refused(flight, error)
            case Reaction.FENCE:
                self._rebalance.expel(why, keep_member_id=False)
                self._context.fail(error)
            case _:
                raise AssertionError(f"{reaction} is no reaction to an error")

    # Losing the coordinator.

    def _lose_coordinator(self, error: GroupSdkError, *, connected: bool = True) -> None:
        """Look for the coordinator again, because of what was or was not answered."""
        context = self._context
        if context.discovery.coordinator is None:
            return
        flights = context.drop_connection(error)
        if connected:
            level = self._failures.lost(error, flights)
            self._trouble = (self._failures.trouble if flights else None) or str(error)
        else:
            level = logging.INFO
            self._failures.unreachable(error)
            self._trouble = str(error)
        self._log_loss(
            level, f"{'lost the group coordinator: ' if connected else ''}{self._trouble}"
        )
        refused = isinstance(error, AuthenticationError)
        context.discovery.lost(context.now_ms, refused=refused)
        self._outage.lost(context.now_ms, connected=connected)
        for flight in flights:
            if flight.is_one_of(*JOINING):
                self._rebalance.unanswered(flight, error)

    def _log_loss(self, level: int, text: str) -> None:
        if level >= logging.WARNING:
            self._context.log(level, "%s", text)  # rare enough as it is
        else:
            self._context.log_thinned("lost", level, "%s", text)

    def _reached(self) -> None:
        """Note that the coordinator answered as one."""
        self._reached_before = True
        away_ms = self._outage.end(self._context.now_ms)
        if away_ms is not None:
            self._context.log(
                logging.INFO, "the group coordinator answers again, after %d s", away_ms // 1000
            )

    def _watch_outage(self) -> None:
        """Warn of a coordinator that is out of reach: once soon, then at a steady interval."""
        context = self._context
        if not self._wants_coordinator:
            self._outage.end(context.now_ms)
            return
        if context.discovery.coordinator is None:
            self._outage.begin(context.now_ms)
        away_ms = self._outage.warn(context.now_ms)
        if away_ms is None:
            return
        hint = ""
        if not self._reached_before:
            hint = f"; check bootstrap.servers ({', '.join(self._config.bootstrap_servers)})"
        context.log(
            logging.WARNING,
            "no group coordinator for %d s: %s; still trying%s",
            away_ms // 1000,
            self._trouble or "no broker has answered",
            hint,
        )

    # Leaving.

    def _give_up_join(self) -> None:
        """Free the connection from a parked JoinGroup; the member stays in the generation that it was in.

        The coordinator takes commits of that generation until every member has joined.
        """
        if self._context.requests.has(ApiKey.JOIN_GROUP):
            self._context.drop_connection()
            self._rebalance.retry_later("the member is about to leave")

    def _leave(self, operation: GroupMembershipOperation, reason: str) -> None:
        context = self._context
        generation = context.generation
        dynamic = self._config.group_instance_id is None
        tell = (
            context.state is not MemberState.UNJOINED
            and generation.has_member_id
            and context.discovery.coordinator is not None
            and (
                operation is GroupMembershipOperation.LEAVE_GROUP
                or (dynamic and operation is GroupMembershipOperation.DEFAULT)
            )
        )
        if tell:
            context.log(logging.INFO, "leaves the group: %s", reason)
        # First, since it drops a connection on which the leave would wait behind a parked join or sync.
        self._rebalance.leave(reason)
        if tell:
            context.send(
                leave_request(self._config, generation.member_id, reason),
                ApiKey.LEAVE_GROUP,
                self._config.request_timeout_ms,
            )

    def _leave_for_poll_timeout(self) -> None:
        context = self._context
        context.caller_present = False
        if context.state is MemberState.UNJOINED:
            return
        context.log(
            logging.WARNING,
            "the caller has not polled for max.poll.interval.ms (%d ms): it is stuck or too slow. The"
            " member leaves, and joins again at the next poll; poll more often or raise the interval",
            self._config.poll_interval_ms,
        )
        self._leave(
            GroupMembershipOperation.DEFAULT,
            f"the caller has not polled for {self._config.poll_interval_ms} ms",
        )

    # What is due.

    def _advance(self) -> None:
        if self._close_by_ms is not None:
            self._advance_close(self._close_by_ms)
            return
        context, now_ms = self._context, self._context.now_ms
        overdue = context.requests.overdue(now_ms)
        if overdue is not None:
            waited_ms = now_ms - overdue.sent_ms
            self._lose_coordinator(
                RequestTimeoutError(f"no answer to {overdue.api.name} within {waited_ms} ms")
            )
        if context.caller_present and context.heartbeat.poll_expired(now_ms):
            self._leave_for_poll_timeout()
        if self._watches_session and context.heartbeat.session_expired(now_ms):
            self._lose_coordinator(
                NetworkError(f"no heartbeat answered for {self._config.session_timeout_ms} ms")
            )
        if context.discovery.looking and not self._wants_coordinator:
            context.discovery.stopped()
            context.actions.append(StopLooking())
        self._watch_outage()
        if self._wants_coordinator and context.discovery.due(now_ms):
            context.discovery.started()
            context.actions.append(FindCoordinator())
        if self._can_beat and context.heartbeat.due(now_ms):
            self._beat()
        if self._rebalance.can_start and now_ms >= self._rebalance.rejoin.retry_at_ms:
            self._rebalance.start()

    def _advance_close(self, close_by_ms: int) -> None:
        context = self._context
        # Beyond a deadline nothing is worth waiting for, however long the caller would.
        overdue = context.now_ms >= close_by_ms or context.requests.overdue(context.now_ms)
        if overdue or not context.requests.has(ApiKey.LEAVE_GROUP):
            self._stopped = True
            context.actions.append(Stop())

    @property
    def _wants_coordinator(self) -> bool:
        context = self._context
        if context.state is not MemberState.UNJOINED:
            return True  # it may still be saved, whatever the caller is yet to be told
        return context.caller_present and context.failure is None

    @property
    def _watches_session(self) -> bool:
        return self._context.discovery.coordinator is not None and not self._context.requests.has(
            *PARKED
        )

    @property
    def _can_beat(self) -> bool:
        return self._watches_session and not self._context.requests.has(ApiKey.HEARTBEAT)

    def _beat(self) -> None:
        context = self._context
        context.heartbeat.sent(context.now_ms)
        context.metrics.heartbeat_sent(context.now_ms)
        context.send(
            heartbeat_request(self._config, context.generation),
            ApiKey.HEARTBEAT,
            self._config.request_timeout_ms,
        )

    def _schedule(self) -> None:
        context = self._context
        times = [context.requests.next_deadline_ms, self._close_by_ms]
        if self._close_by_ms is None:
            if context.caller_present:
                times.append(context.heartbeat.poll_until_ms)
            if self._watches_session:
                times.append(context.heartbeat.session_until_ms)
            if self._can_beat:
                times.append(context.heartbeat.next_ms)
            if self._wants_coordinator:
                times.extend((context.discovery.retry_at_ms, self._outage.warn_at_ms))
            if self._rebalance.can_start:
                times.append(self._rebalance.rejoin.retry_at_ms)
        known = [at_ms for at_ms in times if at_ms is not None]
        wake_at_ms = None if self._stopped or not known else min(known)
        if wake_at_ms != self._wake_at_ms:
            self._wake_at_ms = wake_at_ms
            context.actions.append(Wake(wake_at_ms))
