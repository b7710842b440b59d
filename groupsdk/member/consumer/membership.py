"""The consumer protocol (KIP-848): a member joins, reconciles, acknowledges, is fenced, leaves."""

import base64
import logging
from collections.abc import Mapping, Sequence
from dataclasses import replace
from random import Random
from typing import ClassVar, Final, cast

from groupsdk import errors
from groupsdk.error_code import ErrorCode
from groupsdk.lazy_imports import override
from groupsdk.member.actions import Action, CompleteJoin, PrepareJoin
from groupsdk.member.consumer.broker_pace import BrokerPacedHeartbeat
from groupsdk.member.consumer.heartbeat_fields import (
    LEAVE_EPOCH,
    LEAVE_TO_COME_BACK_EPOCH,
    PROTOCOL_NAME,
    HeartbeatFields,
    HeartbeatSubscription,
    PartitionsById,
    of_wire_form,
)
from groupsdk.member.consumer.reconciliation import Reconciliation
from groupsdk.member.consumer.replies import REQUEST_REPLIES, ConsumerReaction, heartbeat_reply
from groupsdk.member.consumer.state import (
    HEARTBEATING,
    IN_GROUP,
    OUT_UNTIL_HEARD,
    ConsumerMemberState,
    ConsumerMemberView,
    ConsumerTrigger,
    in_classic_terms,
    next_state,
)
from groupsdk.member.events import GroupAssigned, JoinDelivered, JoinPrepared
from groupsdk.member.member import Deadline, Member
from groupsdk.member.membership import (
    FIRST_JOIN,
    Answer,
    InGroupResponse,
    Membership,
    Reaction,
    Reply,
)
from groupsdk.member.requests import CoordinatorRequest, InFlightRequest
from groupsdk.member.view import MemberView
from groupsdk.settings.config import ConsumerMemberConfig
from groupsdk.types import (
    NO_GENERATION_ID,
    Generation,
    GroupMembershipOperation,
    ProtocolMetadata,
)
from groupsdk.wire.messages.configs import DescribeConfigsResponse
from groupsdk.wire.messages.consumer_groups import (
    ConsumerGroupHeartbeatRequest,
    ConsumerGroupHeartbeatResponse,
)
from groupsdk.wire.messages.metadata import MetadataResponse
from groupsdk.wire.messages.offsets import OffsetCommitRequest, OffsetFetchRequest
from groupsdk.wire.schema import ApiKey


_HEARTBEAT: Final = ApiKey.CONSUMER_GROUP_HEARTBEAT
_NEEDS: Final = (
    "the consumer protocol needs Apache Kafka 4.0 and the feature group.version=1; without them use"
    " group.protocol=classic"
)
_PATTERN_NEEDS: Final = (
    "a SubscriptionPattern is matched by the broker, which needs Apache Kafka 4.0 and the feature group.version=1;"
    " without them subscribe to re.compile(...), which the client matches"
)


class ConsumerMembership(Membership):
    """A member of the consumer protocol, as Kafka's `ConsumerMembershipManager` defines it.

    Its caller's two calls mean this: `PrepareJoin` asks for the subscription, and with `run_callback` first reports
    that all partitions are lost; `CompleteJoin` hands over an assignment, and the caller applies the difference to what
    it owns. The coordinator waits for the acknowledgement that this is done.
    """

    in_group_apis: ClassVar[frozenset[ApiKey]] = frozenset({_HEARTBEAT})
    heartbeat_api: ClassVar[ApiKey] = _HEARTBEAT
    leave_api: ClassVar[ApiKey] = _HEARTBEAT
    caller_replies: ClassVar[Mapping[ErrorCode, Reply]] = REQUEST_REPLIES
    rediscover: ClassVar[Reaction] = ConsumerReaction.REDISCOVER
    view_type: ClassVar[type[MemberView]] = ConsumerMemberView
    hidden_metrics: ClassVar[tuple[str, ...]] = ("join-", "sync-")
    joining = True

    def __init__(self, config: ConsumerMemberConfig, random: Random) -> None:
        member = Member(config, random)
        super().__init__(member)
        self.state = ConsumerMemberState.UNSUBSCRIBED
        self.view_details = {"consumer_state": self.state}
        self.subscription = HeartbeatSubscription()
        self.reconciliation = Reconciliation(member)
        self._config = config
        self._pace = BrokerPacedHeartbeat.of(config, member.backoff, random)
        member.heartbeat = self._pace
        self._member_id = _new_member_id(random)
        self._fields = HeartbeatFields(config, self._member_id)
        self._joined_epoch = NO_GENERATION_ID
        """The first epoch of this membership."""
        self._leave_sent = False
        """Whether the heartbeat in flight is a leave."""
        self._needs_prepare = True
        """Whether the caller still has to be told about a loss."""
        self._refresh: str | None = None
        """Why the caller's subscription is to be asked for again; None where it is not."""
        self._prepare_at_ms = 0
        self._join_reason = FIRST_JOIN
        self._cause: str | None = None
        """Our own change that explains the next assignment, for the recorder."""
        self._rebalance_since_ms: int | None = None
        self._revoking_when_sent = False
        self._listed_without_answer = False
        """Whether a heartbeat that named what is owned has had no answer yet."""
        self._fences_in_a_row = 0
        self._answer_lost = False
        """Whether the coordinator may read a heartbeat late whose answer nobody awaits any more."""
        self._say_all_at_ms = 0
        member.generation = self._no_generation()

    @override
    def ask_rejoin(self, reason: str, *, hand_over: bool = False) -> None:
        """Ask the caller for its subscription, which may have changed.

        An assignment that waits for the caller, or that it is taking up, is handed over again afterwards: it may
        hold topics that are not subscribed to any more."""
        if self.state not in HEARTBEATING:
            return
        self._refresh = reason
        if isinstance(self.member.call, CompleteJoin):
            self.member.call = None
            self.reconciliation.withdraw()

    @override
    def answered(self, answer: Answer) -> list[Action]:
        match answer:
            case JoinPrepared(call_id, _, protocols):
                self.prepared(call_id, protocols)
            case JoinDelivered(call_id):
                self.delivered(call_id)
            case GroupAssigned():
                pass  # nobody leads
        return []

    def prepared(self, call_id: int, protocols: Sequence[ProtocolMetadata]) -> None:
        """Apply the caller's subscription; by now the caller knows whether it has lost its partitions.

        An answer to an earlier call is dropped. Invalid metadata becomes an error for the caller."""
        if not self._takes(call_id):
            return
        try:
            subscription = HeartbeatSubscription.of(protocols)
        except errors.MetadataError as error:
            self.member.fail(error)
            self._prepare_failed()
            return
        changed = subscription != self.subscription
        self.subscription = self.reconciliation.subscription = subscription
        self._loss_heard()
        if self.state is ConsumerMemberState.UNSUBSCRIBED:
            self._move(ConsumerTrigger.SUBSCRIBED)
            self._begin_joining()
        elif self.state in HEARTBEATING and changed:
            self._cause = "the subscription has changed"
            self._pace.hurry(self.member.now_ms)

    def delivered(self, call_id: int) -> None:
        """Record that the caller has applied an assignment, and acknowledge it at once."""
        if not self._takes(call_id):
            return
        self.reconciliation.taken_up()
        self._move(ConsumerTrigger.TAKEN_UP)
        self.member.recorder.phase("acknowledge", self.member.now_ms)
        self._pace.hurry(self.member.now_ms)

    @override
    def call_failed(self, call_id: int, description: str) -> None:
        """Record that user code raised; the caller has the exception. A failure of an earlier call is ignored."""
        call, member = self.member.call, self.member
        if call is None or call.call_id != call_id:
            return
        if isinstance(call, PrepareJoin):
            member.log(logging.WARNING, "preparing to join raised %s", description)
            self.member.call = None
            self._prepare_failed()
        else:
            member.log(
                logging.WARNING,
                "taking the assignment up raised %s; it is handed over again at the next poll",
                description,
            )

    @override
    def leave(self, operation: GroupMembershipOperation, reason: str) -> list[Action]:
        """Leave the group, for good or not (KIP-1092), by a last heartbeat; the partitions are revoked."""
        self.member.call, self._refresh = None, None
        self._needs_prepare = True
        self.reconciliation.delivered = False
        actions: list[Action] = []
        if self.state in HEARTBEATING:
            actions = self._depart(self._leave_epoch(operation), reason, ConsumerTrigger.LEFT)
        elif self.state in OUT_UNTIL_HEARD:
            self._move(ConsumerTrigger.LEAVE)
        if self.member.assignment_epoch:
            self._join_reason = f"the member joins again after it has left: {reason}"
        return actions

    @override
    def leave_for_poll_timeout(self, reason: str) -> list[Action]:
        epoch = self._leave_epoch(GroupMembershipOperation.DEFAULT)
        actions = self._depart(epoch, reason, ConsumerTrigger.LEFT_BEHIND)
        self._join_reason = reason
        self._needs_prepare = True
        self._ask_caller()
        return actions

    # The caller's own requests. As Kafka's `CommitRequestManager`: a commit carries the member epoch of the moment at
    # which it is *sent*, which may be newer than that of the moment at which it was made. The epoch grows while the
    # member keeps its partitions, and it gives partitions up on the caller's own thread, so a commit made before is
    # about partitions that are still its own. A commit of an earlier membership is refused.

    @override
    def is_of_membership(self, commit: OffsetCommitRequest) -> bool:
        generation = self.member.generation
        return (
            commit.member_id == generation.member_id
            # under an older one than that of its join, the member was another one
            and 0 <= self._joined_epoch <= commit.generation_id_or_member_epoch
            and commit.generation_id_or_member_epoch <= generation.generation_id
        )

    @override
    def brought_up_to_date(self, request: CoordinatorRequest) -> CoordinatorRequest:
        generation = self.member.generation
        if isinstance(request, OffsetCommitRequest):
            return replace(request, generation_id_or_member_epoch=generation.generation_id)
        if isinstance(request, OffsetFetchRequest) and generation.generation_id >= 0:
            groups = tuple(
                replace(
                    group,
                    member_id=generation.member_id,
                    member_epoch=generation.generation_id,
                )
                for group in request.groups
            )
            return replace(request, groups=groups)
        return request

    @override
    def reply_to(self, api: ApiKey, code: int) -> Reply:
        return heartbeat_reply(code, joining=self.state is ConsumerMemberState.JOINING)

    @override
    def on_answer(
        self, flight: InFlightRequest, response: InGroupResponse, reply: Reply | None
    ) -> list[Action] | None:
        heartbeat, member = cast("ConsumerGroupHeartbeatResponse", response), self.member
        if self._leave_sent:
            self._leave_sent = False
            if reply is not None:
                told = errors.broker_error(heartbeat.error_code, "leaving the group")
                member.log(logging.INFO, "%s", told)
        elif reply is not None:
            self.say_everything()
            return None
        elif (nonsense := self._nonsense(heartbeat)) is not None:
            self.say_everything()
            self._pace.failed(member.now_ms)
            member.fail(
                errors.DecodeError(f"ConsumerGroupHeartbeatResponse without an error {nonsense}")
            )
        else:
            if member.log_thinner.counts:
                member.log_thinner.calm()
            self._accepted(flight.sent_ms, heartbeat)
        return []

    @override
    def on_other_answer(self, response: object) -> list[Action]:
        match response:
            case MetadataResponse():
                self.reconciliation.names_told(response)
            case DescribeConfigsResponse():
                self._on_session_told(response)
            case _:
                return super().on_other_answer(response)
        return []

    def _on_session_told(self, response: DescribeConfigsResponse) -> None:
        why = self._pace.session_told(response)
        if why is not None:
            self.member.log_thinned(
                "session",
                logging.INFO,
                "the session timeout is not known (%s), and taken for %d ms",
                why,
                self._pace.session_timeout_ms,
            )

    @override
    def describe(self, flight: InFlightRequest, reply: Reply, code: int, response: object) -> str:
        config = self._config
        asked = f"{flight.api.name} of group {config.group_id!r}"
        if code in (ErrorCode.FENCED_INSTANCE_ID, ErrorCode.UNRELEASED_INSTANCE_ID):
            asked += f" as group.instance.id={config.group_instance_id!r}"
        elif code == ErrorCode.UNSUPPORTED_ASSIGNOR:
            asked += f" with group.remote.assignor={config.server_assignor!r}"
        elif code == ErrorCode.INVALID_REGULAR_EXPRESSION:
            asked += f" with the pattern {self.subscription.pattern!r}"
        elif code == ErrorCode.UNSUPPORTED_VERSION:
            asked += f" ({_NEEDS if self.subscription.pattern is None else _PATTERN_NEEDS})"
        told = isinstance(response, ConsumerGroupHeartbeatResponse) and response.error_message
        return f"{asked} (the broker: {told})" if told else asked

    @override
    def carry_out(
        self, reaction: Reaction, flight: InFlightRequest, error: errors.BrokerError, why: str
    ) -> list[Action]:
        member = self.member
        match reaction:
            case ConsumerReaction.REDISCOVER:
                pass
            case ConsumerReaction.RETRY:
                self._pace.failed(member.now_ms)
            case ConsumerReaction.REPORT:
                self._pace.failed(member.now_ms)
                member.fail(error)
            case ConsumerReaction.HEARTBEAT:
                self._pace.hurry(member.now_ms)
            case ConsumerReaction.REJOIN:
                self._fence(why)
            case ConsumerReaction.FAIL:
                self._refuse_for_good(error)
            case _:
                raise AssertionError(f"{reaction} is not a reaction to an error")
        return []

    @override
    def unsent(self, flight: InFlightRequest, error: errors.GroupSdkError) -> list[Action]:
        if flight.api is not _HEARTBEAT:
            self.member.log(logging.INFO, "%s cannot be asked: %s", flight.api.name, error)
        elif self._leave_sent:
            self._leave_sent = False
        else:
            if self.subscription.pattern is not None:
                # a broker of 3.x may have a version of the request that cannot carry a pattern
                if isinstance(error, errors.UnsupportedVersionError | errors.EncodeError):
                    error = errors.UnsupportedVersionError(f"{_PATTERN_NEEDS} ({error})")
            elif isinstance(error, errors.UnsupportedVersionError):
                error = errors.UnsupportedVersionError(f"{error}; {_NEEDS}")
            self._refuse_for_good(error)
        return []

    @override
    def coordinator_lost(
        self, flights: tuple[InFlightRequest, ...], error: errors.GroupSdkError
    ) -> list[Action]:
        """Note that requests may have been under way over a connection that is given up.

        The next heartbeat says everything, which is answered with the assignment. But the coordinator may read one
        of the old connection even after that one. It tells an assignment once, so what it tells there is never
        heard of. Hence a heartbeat of each session says everything from now on.
        """
        self.say_everything()
        self._answer_lost = True
        return []

    def _accepted(self, sent_ms: int, response: ConsumerGroupHeartbeatResponse) -> None:
        """Process a heartbeat response without an error; the session counts from when the request was sent."""
        member, epoch = self.member, response.member_epoch
        joining = self.state is ConsumerMemberState.JOINING
        self._fences_in_a_row = 0
        if self._listed_without_answer:
            self._listed_without_answer = False
            self.reconciliation.listed()
        if response.heartbeat_interval_ms != self._pace.interval_ms:
            self._pace.paced(response.heartbeat_interval_ms, member.now_ms)
        self._pace.accepted(member.now_ms, sent_ms, rebalancing=self._revoking_when_sent)
        if joining:
            self._joined_epoch = epoch
        if epoch != member.generation.generation_id:
            member.generation = Generation(epoch, self._member_id, PROTOCOL_NAME)
            member.log(logging.INFO, "joined" if joining else "has a new member epoch")
            if not joining:
                # The group has a new assignment: what others have to free for this member first may follow soon.
                self._pace.soon(member.now_ms)
        assignment = response.assignment
        if assignment is not None or joining:
            topics = () if assignment is None else assignment.topic_partitions
            if self.reconciliation.aim(of_wire_form(topics)):
                self._begin_reconciling()

    def _nonsense(self, response: ConsumerGroupHeartbeatResponse) -> str | None:
        """Return what is invalid in a response without an error code; None if nothing is."""
        if response.member_id is not None and response.member_id != self._member_id:
            return f"is for the member {response.member_id!r}, not for {self._member_id!r}"
        epoch, told = self.member.generation.generation_id, response.member_epoch
        lowest = 1 if self.state is ConsumerMemberState.JOINING else epoch
        if told < lowest:
            return f"has member epoch {told} for a member with epoch {epoch}"
        if response.assignment is not None:
            for topic in response.assignment.topic_partitions:
                if topic.partitions and min(topic.partitions) < 0:
                    return f"assigns partition {min(topic.partitions)} of topic {topic.topic_id}"
        return None

    def _fence(self, why: str) -> None:
        """Handle being fenced: leave the group, and rejoin once the caller knows."""
        member = self.member
        if self.member.recorder.is_open:
            member.metrics.rebalance_failed(member.now_ms)
        self._log_end(ended=self.member.recorder.lose(member.now_ms) is not None)
        self._join_reason = why
        self._fences_in_a_row += 1
        self._forget_membership(ConsumerTrigger.FENCED)
        self._tell_loss()

    def _refuse_for_good(self, error: errors.GroupSdkError) -> None:
        """Handle a fatal error: leave the group; every call raises the error once the caller knows."""
        member = self.member
        error.retriable, error.fatal = False, True
        self.member.fatal = error
        member.metrics.rebalance_failed(member.now_ms)
        self._log_end(ended=self.member.recorder.fail(error, member.now_ms) is not None)
        self._forget_membership(ConsumerTrigger.REFUSED)
        self._tell_loss()

    def say_everything(self) -> None:
        """Send all fields with the next heartbeat, since it is unknown which have arrived."""
        self._fields.forget()
        self._leave_sent = False

    @override
    def deadlines(self, *, can_call: bool) -> list[Deadline]:
        member, reconciliation = self.member, self.reconciliation
        apis, deadlines = member.requests.summary.apis, list[Deadline]()
        if self.state in IN_GROUP and ApiKey.DESCRIBE_CONFIGS not in apis:
            deadlines.append((self._pace.ask_session_at_ms, self._ask_session))
        if reconciliation.unnamed and reconciliation.ask_names_at_ms is not None:
            deadlines.append((reconciliation.ask_names_at_ms, reconciliation.ask_names))
        if can_call:
            joins = self.state is ConsumerMemberState.UNSUBSCRIBED or self.state in OUT_UNTIL_HEARD
            if joins or self._refresh is not None:
                deadlines.append((self._prepare_at_ms, self._ask_caller))
            # Not while the list of what is owned is on its way: if the coordinator takes partitions away in that
            # moment which are not in the list, others get them at once. Its answer says so.
            hands_over = self.state is ConsumerMemberState.RECONCILING
            if hands_over and not self._listed_without_answer and reconciliation.has_step:
                deadlines.append((member.now_ms, self._hand_over))
        return deadlines

    @override
    def heartbeat(self) -> ConsumerGroupHeartbeatRequest:
        member, fields = self.member, self._fields
        self._revoking_when_sent = self.reconciliation.revoking
        if self.state is ConsumerMemberState.JOINING:
            member.recorder.attempt()
            return fields.join(self.subscription)
        if self._answer_lost and member.now_ms >= self._say_all_at_ms:
            fields.forget()
        if self._config.group_instance_id is not None and self.reconciliation.has_other_topics:
            fields.end_pattern()
        if not fields.knows_owned:
            self._say_all_at_ms = member.now_ms + self._pace.session_timeout_ms
        acknowledges = self.state is ConsumerMemberState.ACKNOWLEDGING
        owned: PartitionsById | None = None
        if acknowledges or not fields.knows_owned:
            owned = self.reconciliation.claimed
            self._listed_without_answer = True
        request = fields.heartbeat(member.generation.generation_id, self.subscription, owned)
        if acknowledges:
            self._acknowledged()
        return request

    def _ask_session(self) -> list[Action]:
        member = self.member
        request = self._pace.session_request(self._config.group_id, member.now_ms)
        return [member.send(request, ApiKey.DESCRIBE_CONFIGS, self._config.request_timeout_ms)]

    def _takes(self, call_id: int) -> bool:
        """Return whether this answers the outstanding callback, and clear it if so."""
        if self.member.call is None or self.member.call.call_id != call_id:
            self.member.log(logging.DEBUG, "a stale answer of the caller was dropped")
            return False
        self.member.call = None
        return True

    def _prepare_failed(self) -> None:
        """Go on after the callback failed: a loss counts as told, and the subscription is asked for again."""
        self._needs_prepare = False
        # one that was only asked for its subscription still has what it had
        self.reconciliation.delivered = self.reconciliation.delivered and self.state in HEARTBEATING
        if self.member.fatal is not None:
            self.member.fail(self.member.fatal)
        elif self.state in HEARTBEATING:
            self._refresh = "preparing to join failed"
            self._prepare_at_ms = self.member.now_ms + self._config.retry_backoff_ms

    def _tell_loss(self) -> None:
        """Tell the caller that it has lost its partitions, if it had any."""
        if self.reconciliation.delivered:
            self._needs_prepare = True
            self._ask_caller()
        else:
            self._loss_heard()

    def _loss_heard(self) -> None:
        """Go on now that the caller knows of the loss."""
        self._needs_prepare = False
        self.reconciliation.delivered = self.reconciliation.delivered and self.state in HEARTBEATING
        if self.member.fatal is not None:
            self.member.fail(self.member.fatal)
        elif self.state in OUT_UNTIL_HEARD:
            self._move(ConsumerTrigger.LOSS_HEARD)
            self._begin_joining()

    def _ask_caller(self) -> list[Action]:
        member = self.member
        self._refresh = None
        member.call = PrepareJoin(
            member.next_call_id(), member.generation, run_callback=self._needs_prepare
        )
        return []

    def _hand_over(self) -> list[Action]:
        """Hand the caller the part of the target assignment that is available."""
        member = self.member
        assignment = self.reconciliation.next_step()
        assert assignment is not None, "nothing to hand over"
        member.assignment_epoch += 1
        member.recorder.phase("complete", member.now_ms)
        member.call = CompleteJoin(
            member.next_call_id(), member.generation, PROTOCOL_NAME, assignment
        )
        return []

    def _begin_joining(self) -> None:
        member = self.member
        self._refresh = None
        self._rebalance_since_ms = member.now_ms
        self.member.recorder.begin(self._join_reason, member.generation, member.now_ms)
        self.member.recorder.phase("join", member.now_ms)
        member.log(logging.INFO, "joins: %s", self._join_reason)
        self._pace.enable(member.now_ms)
        again = self._fences_in_a_row - 1
        if again > 0:  # a coordinator that always answers the same must not make the member spin
            self._pace.put_off(member.now_ms + member.backoff.backoff_ms(again - 1, member.random))

    def _begin_reconciling(self) -> None:
        member = self.member
        revoked, added = self.reconciliation.counts()
        if self._rebalance_since_ms is None:
            self._rebalance_since_ms = member.now_ms
        reason = f"the group coordinator takes {revoked} partitions away and adds {added}"
        if self._cause is not None:
            reason, self._cause = f"{self._cause}: {reason}", None
        self.member.recorder.begin(reason, member.generation, member.now_ms)
        self.member.recorder.phase("resolve", member.now_ms)
        if isinstance(self.member.call, CompleteJoin):
            self.member.call = None  # of an assignment that is not the newest any more
        self._move(ConsumerTrigger.TARGET_CHANGED)

    def _acknowledged(self) -> None:
        """Note that the acknowledgement is being sent."""
        member = self.member
        if not self.reconciliation.done:
            self._move(ConsumerTrigger.PARTLY_ACKNOWLEDGED)
            return
        self._move(ConsumerTrigger.ACKNOWLEDGED)
        # What others free for this member, it learns by its own heartbeats.
        self._pace.soon(member.now_ms)
        if self._rebalance_since_ms is not None:
            took_ms = member.now_ms - self._rebalance_since_ms
            member.metrics.rebalance_completed(took_ms, member.now_ms)
            self._rebalance_since_ms = None
        event = self.member.recorder.complete(member.generation, member.now_ms, broker_assigns=True)
        self._log_end(ended=event is not None)

    def _depart(self, epoch: int | None, reason: str, last: ConsumerTrigger) -> list[Action]:
        """Leave, with a leave heartbeat if `epoch` is not None and the coordinator is known."""
        member = self.member
        self._log_end(ended=self.member.recorder.leave(member.now_ms) is not None)
        tell = epoch is not None and member.coordinator is not None
        if tell:
            member.log(logging.INFO, "leaving the group: %s", reason)
        self._forget_membership(ConsumerTrigger.LEAVE)
        self._move(ConsumerTrigger.GIVEN_UP)
        actions: list[Action] = []
        if tell and epoch is not None:
            member.metrics.last_heartbeat_ms = member.now_ms
            request, timeout_ms = self._fields.leave(epoch), self._config.request_timeout_ms
            actions.append(member.send(request, _HEARTBEAT, timeout_ms))
            self._leave_sent = True
        self._move(last)
        return actions

    def _leave_epoch(self, operation: GroupMembershipOperation) -> int | None:
        """Return the epoch of the leave heartbeat; None to send none."""
        static = self._config.group_instance_id is not None
        if operation is GroupMembershipOperation.LEAVE_GROUP:
            return LEAVE_EPOCH
        if static:
            return LEAVE_TO_COME_BACK_EPOCH
        return LEAVE_EPOCH if operation is GroupMembershipOperation.DEFAULT else None

    def _forget_membership(self, trigger: ConsumerTrigger) -> None:
        """Reset the membership, and ignore responses to its outstanding requests."""
        self.member.requests.abandon(ApiKey.CONSUMER_GROUP_HEARTBEAT, ApiKey.METADATA)
        self._move(trigger)
        self.member.generation = self._no_generation()
        self._joined_epoch = NO_GENERATION_ID
        self._pace.forget()
        self._fields.forget()
        self.reconciliation.forget()
        self.member.call, self._refresh, self._cause = None, None, None
        self._rebalance_since_ms = None
        self._listed_without_answer = False

    def _move(self, trigger: ConsumerTrigger) -> None:
        self.state = next_state(self.state, trigger)
        self.member.state = in_classic_terms(self.state)
        self.joining = self.state is not ConsumerMemberState.STABLE
        self.view_details = {"consumer_state": self.state}

    def _no_generation(self) -> Generation:
        return Generation(NO_GENERATION_ID, self._member_id, None)

    def _log_end(self, *, ended: bool) -> None:
        if ended:
            self.member.log(logging.INFO, "%s", self.member.recorder.events[-1].summary())


def _new_member_id(random: Random) -> str:
    """Return an id as Java's consumers make it: 128 random bits in 22 characters (KIP-1082).

    It is kept for as long as the member lives, over every loss of the membership.
    """
    raw = random.getrandbits(128).to_bytes(16, "big")
    return base64.urlsafe_b64encode(raw).rstrip(b"=").decode()
