"""Carry a member of the consumer protocol through its states: join, take up, acknowledge, lose, leave."""

import logging
from collections.abc import Sequence
from typing import Final

from groupsdk.consumer_membership.broker_pace import BrokerPacedHeartbeat
from groupsdk.consumer_membership.config import ConsumerMemberConfig
from groupsdk.consumer_membership.heartbeat_fields import (
    LEAVE_EPOCH,
    LEAVE_TO_COME_BACK_EPOCH,
    HeartbeatFields,
    of_wire_form,
)
from groupsdk.consumer_membership.reconciliation import Reconciliation
from groupsdk.consumer_membership.state import (
    HEARTBEATING,
    OUT_UNTIL_HEARD,
    ConsumerMemberState,
    ConsumerTrigger,
    in_classic_terms,
    next_state,
)
from groupsdk.consumer_membership.subscription import PROTOCOL_NAME, HeartbeatSubscription
from groupsdk.errors import GroupSdkError, MetadataError
from groupsdk.membership.actions import Call, CompleteJoin, PrepareJoin
from groupsdk.membership.context import MemberContext
from groupsdk.membership.recorder import RebalanceRecorder
from groupsdk.types import (
    NO_GENERATION_ID,
    Generation,
    GroupMembershipOperation,
    ProtocolMetadata,
)
from groupsdk.wire.messages.consumer_group_heartbeat import (
    ConsumerGroupHeartbeatRequest,
    ConsumerGroupHeartbeatResponse,
)
from groupsdk.wire.schema import ApiKey


FIRST_JOIN: Final = "the member joins for the first time"


class ConsumerMembership:
    """Where a member stands, what it was told, and the call that its caller is to run.

    Mirrors Kafka's `ConsumerMembershipManager`. Everything happens at `context.now_ms`.
    """

    def __init__(
        self,
        config: ConsumerMemberConfig,
        context: MemberContext,
        pace: BrokerPacedHeartbeat,
        member_id: str,
    ) -> None:
        self.state = ConsumerMemberState.UNSUBSCRIBED
        self.call: Call | None = None
        self.assignment_epoch = 0
        """Counts the assignments handed to the caller."""
        self.subscription = HeartbeatSubscription()
        self.reconciliation = Reconciliation(context)
        self.recorder = RebalanceRecorder()
        self.fatal: GroupSdkError | None = None
        """Why the member was refused for good."""
        self.joined_epoch = NO_GENERATION_ID
        """The first epoch of this membership."""
        self.leave_sent = False
        """Whether the request in flight is a leave."""
        self._config = config
        self._context = context
        self._pace = pace
        self._member_id = member_id
        self._fields = HeartbeatFields(config, member_id)
        self._last_call_id = 0
        self._needs_prepare = True
        """Whether the caller is yet to hear that it has nothing; once for each loss."""
        self._refresh: str | None = None
        """Why the caller's subscription is to be asked for again; None where it is not."""
        self._prepare_at_ms = 0
        self._join_reason = FIRST_JOIN
        self._cause: str | None = None
        """What of ours may be why the next assignment differs."""
        self._rebalance_since_ms: int | None = None
        self._revoking_when_sent = False
        self._fences_in_a_row = 0
        context.generation = self._no_generation()

    # What the caller reports.

    def ask_again(self, reason: str) -> None:
        """Ask the caller what it subscribes to, since that may have changed."""
        if self.state in HEARTBEATING:
            self._refresh = reason

    def prepared(self, call_id: int, protocols: Sequence[ProtocolMetadata]) -> None:
        """Take what the caller subscribes to; it knows by now that it has nothing, where that is so."""
        if not self._takes(call_id):
            return
        try:
            subscription = HeartbeatSubscription.of(protocols)
        except MetadataError as error:
            self._context.fail(error)
            self._prepare_failed()
            return
        changed = subscription != self.subscription
        self.subscription = subscription
        self._loss_heard()
        if self.state is ConsumerMemberState.UNSUBSCRIBED:
            self._move(ConsumerTrigger.SUBSCRIBED)
            self._begin_joining()
        elif self.state in HEARTBEATING and changed:
            self._cause = "the subscription has changed"
            self._pace.hurry(self._context.now_ms)

    def delivered(self, call_id: int) -> None:
        """Take note that the caller has taken an assignment up, and have that acknowledged at once."""
        if not self._takes(call_id):
            return
        self.reconciliation.taken_up()
        self._move(ConsumerTrigger.TAKEN_UP)
        self.recorder.phase("acknowledge", self._context.now_ms)
        self._pace.hurry(self._context.now_ms)

    def call_failed(self, call_id: int, description: str) -> None:
        """Take note that the user's code raised; the caller has the exception."""
        call, context = self.call, self._context
        if call is None or call.call_id != call_id:
            return
        if isinstance(call, PrepareJoin):
            context.log(logging.WARNING, "preparing to join raised %s", description)
            self.call = None
            self._prepare_failed()
        else:
            context.log(
                logging.WARNING,
                "taking the assignment up raised %s; it is handed over again at the next poll",
                description,
            )

    def fatal_raised(self) -> None:
        """Have the error of a member that was refused for good raised again: it is, by every call."""
        if self.fatal is not None and self._context.failure is None:
            self._context.fail(self.fatal)

    def leave(self, operation: GroupMembershipOperation, reason: str) -> None:
        """Go, with everything given up already: the caller does that before it asks to leave."""
        self.call, self._refresh = None, None
        self._needs_prepare = True
        self.reconciliation.delivered = False
        if self.state in HEARTBEATING:
            self._depart(self._leave_epoch(operation), reason, ConsumerTrigger.LEFT)
        elif self.state in OUT_UNTIL_HEARD:
            self._move(ConsumerTrigger.LEAVE)
        if self.assignment_epoch:
            self._join_reason = f"the member joins again after it has left: {reason}"

    def leave_for_poll_timeout(self) -> None:
        """Go since the caller is away; it hears of its loss when it comes back, and the member joins again."""
        context = self._context
        context.caller_present = False
        if self.state not in HEARTBEATING:
            return
        interval_ms = self._config.poll_interval_ms
        context.log(
            logging.WARNING,
            "the caller has not polled for max.poll.interval.ms (%d ms): it is stuck or too slow. The"
            " member leaves, and joins again at the next poll; poll more often or raise the interval",
            interval_ms,
        )
        reason = f"the caller has not polled for {interval_ms} ms"
        epoch = self._leave_epoch(GroupMembershipOperation.DEFAULT)
        self._depart(epoch, reason, ConsumerTrigger.LEFT_BEHIND)
        self._join_reason = reason
        self._needs_prepare = True
        self._ask_caller()

    # What the coordinator answers.

    def accepted(self, sent_ms: int, response: ConsumerGroupHeartbeatResponse) -> None:
        """Take the answer to a heartbeat: epoch, interval and, where it changed, the assignment."""
        context, epoch = self._context, response.member_epoch
        joining = self.state is ConsumerMemberState.JOINING
        self._fences_in_a_row = 0
        self._pace.paced(response.heartbeat_interval_ms, context.now_ms)
        self._pace.received(context.now_ms)
        self._pace.prove(sent_ms, rebalancing=self._revoking_when_sent)
        if joining:
            self.joined_epoch = epoch
        if epoch != context.generation.generation_id:
            context.generation = Generation(epoch, self._member_id, PROTOCOL_NAME)
            context.log(logging.INFO, "joined" if joining else "has a new member epoch")
        assignment = response.assignment
        if assignment is not None or joining:
            topics = () if assignment is None else assignment.topic_partitions
            if self.reconciliation.aim(of_wire_form(topics)):
                self._begin_reconciling()

    def makes_sense(self, response: ConsumerGroupHeartbeatResponse) -> bool:
        """Return whether an answer without an error has an epoch that the member can be in."""
        if self.state is ConsumerMemberState.JOINING:
            return response.member_epoch > 0
        return response.member_epoch >= self._context.generation.generation_id > 0

    def fence(self, why: str) -> None:
        """Be out of the group by the coordinator's word, and join again once the caller knows."""
        context = self._context
        if self.recorder.is_open:
            context.metrics.rebalance_failed(context.now_ms)
        self._log_end(ended=self.recorder.lose(context.now_ms) is not None)
        self._join_reason = why
        self._fences_in_a_row += 1
        self._forget_membership(ConsumerTrigger.FENCED)
        self._tell_loss()

    def refuse_for_good(self, error: GroupSdkError) -> None:
        """Be out of the group, and have the error raised by every call once the caller knows."""
        context = self._context
        self.fatal = error
        context.metrics.rebalance_failed(context.now_ms)
        self._log_end(ended=self.recorder.fail(error, context.now_ms) is not None)
        self._forget_membership(ConsumerTrigger.REFUSED)
        self._tell_loss()

    def say_everything(self) -> None:
        """Have the next heartbeat say everything: it is not known what has arrived."""
        self._fields.forget()
        self.leave_sent = False

    # What is due.

    def beat(self) -> None:
        """Send the heartbeat that is due."""
        context = self._context
        self._pace.sent(context.now_ms)
        self._revoking_when_sent = self.reconciliation.revoking
        if self.state is ConsumerMemberState.JOINING:
            self.recorder.attempt()
            self._send(self._fields.join(self.subscription))
            return
        epoch, owned = context.generation.generation_id, self.reconciliation.current
        self._send(self._fields.heartbeat(epoch, self.subscription, owned))
        if self.state is ConsumerMemberState.ACKNOWLEDGING:
            self._acknowledged()

    def advance_call(self) -> None:
        """Have the caller called where that is due."""
        context = self._context
        if self.call is not None or context.failure is not None or not context.caller_present:
            return
        if context.discovery.coordinator is None:
            return
        joins = self.state is ConsumerMemberState.UNSUBSCRIBED or self.state in OUT_UNTIL_HEARD
        if (joins or self._refresh is not None) and context.now_ms >= self._prepare_at_ms:
            self._ask_caller()
        elif self.state is ConsumerMemberState.RECONCILING:
            self._hand_over()

    @property
    def prepare_at_ms(self) -> int | None:
        """When the caller is to be asked for its subscription; None where it is not."""
        waits = self.call is None and self._refresh is not None and self.state in HEARTBEATING
        return self._prepare_at_ms if waits and self._context.caller_present else None

    # Details.

    def _takes(self, call_id: int) -> bool:
        """Return whether this answers the outstanding call, which is over then."""
        if self.call is None or self.call.call_id != call_id:
            self._context.log(logging.DEBUG, "a stale answer of the caller was dropped")
            return False
        self.call = None
        return True

    def _prepare_failed(self) -> None:
        """Go on without the caller's word. What it was told it was told; its subscription is asked for again."""
        self._needs_prepare = False
        self.reconciliation.delivered = False
        if self.fatal is not None:
            self._context.fail(self.fatal)
        elif self.state in HEARTBEATING:
            self._refresh = "preparing to join failed"
            self._prepare_at_ms = self._context.now_ms + self._config.retry_backoff_ms

    def _tell_loss(self) -> None:
        """Have the caller hear that it has nothing any more, where it had something."""
        if self.reconciliation.delivered:
            self._needs_prepare = True
            self._ask_caller()
        else:
            self._loss_heard()

    def _loss_heard(self) -> None:
        """Go on now that the caller knows that it has nothing any more."""
        self._needs_prepare = False
        self.reconciliation.delivered = self.reconciliation.delivered and self.state in HEARTBEATING
        if self.fatal is not None:
            self._context.fail(self.fatal)
        elif self.state in OUT_UNTIL_HEARD:
            self._move(ConsumerTrigger.LOSS_HEARD)
            self._begin_joining()

    def _ask_caller(self) -> None:
        self._refresh = None
        self._last_call_id += 1
        generation = self._context.generation
        self.call = PrepareJoin(self._last_call_id, generation, run_callback=self._needs_prepare)

    def _hand_over(self) -> None:
        """Give the caller what there is of the target."""
        assignment = self.reconciliation.next_step()
        if assignment is None:
            return
        self.assignment_epoch += 1
        self._last_call_id += 1
        generation = self._context.generation
        self.recorder.phase("complete", self._context.now_ms)
        self.call = CompleteJoin(self._last_call_id, generation, PROTOCOL_NAME, assignment)

    def _begin_joining(self) -> None:
        context = self._context
        self._refresh = None
        self._rebalance_since_ms = context.now_ms
        self.recorder.begin(self._join_reason, context.generation, context.now_ms)
        self.recorder.phase("join", context.now_ms)
        context.log(logging.INFO, "joins: %s", self._join_reason)
        self._pace.enable(context.now_ms)
        again = self._fences_in_a_row - 1
        if again > 0:  # a coordinator that always answers the same must not make the member spin
            self._pace.put_off(
                context.now_ms + context.backoff.backoff_ms(again - 1, context.random)
            )

    def _begin_reconciling(self) -> None:
        context = self._context
        revoked, added = self.reconciliation.counts()
        if self._rebalance_since_ms is None:
            self._rebalance_since_ms = context.now_ms
        reason = f"the group coordinator takes {revoked} partitions away and adds {added}"
        if self._cause is not None:
            reason, self._cause = f"{self._cause}: {reason}", None
        self.recorder.begin(reason, context.generation, context.now_ms)
        self.recorder.phase("resolve", context.now_ms)
        if isinstance(self.call, CompleteJoin):
            self.call = None  # of an assignment that is not the newest any more
        self._move(ConsumerTrigger.TARGET_CHANGED)

    def _acknowledged(self) -> None:
        """Take note that the acknowledgement goes out."""
        context = self._context
        if not self.reconciliation.done:
            self._move(ConsumerTrigger.PARTLY_ACKNOWLEDGED)
            return
        self._move(ConsumerTrigger.ACKNOWLEDGED)
        # What others free for this member, it learns by its own heartbeats.
        self._pace.soon(context.now_ms)
        if self._rebalance_since_ms is not None:
            took_ms = context.now_ms - self._rebalance_since_ms
            context.metrics.rebalance_completed(took_ms, context.now_ms)
            self._rebalance_since_ms = None
        event = self.recorder.complete(context.generation, context.now_ms, broker_assigns=True)
        self._log_end(ended=event is not None)

    def _depart(self, epoch: int | None, reason: str, last: ConsumerTrigger) -> None:
        """Leave, with a word where `epoch` is not None and the coordinator is known."""
        context = self._context
        self._log_end(ended=self.recorder.leave(context.now_ms) is not None)
        tell = epoch is not None and context.discovery.coordinator is not None
        if tell:
            context.log(logging.INFO, "leaves the group: %s", reason)
        self._forget_membership(ConsumerTrigger.LEAVE)
        self._move(ConsumerTrigger.GIVEN_UP)
        if tell and epoch is not None:
            self._send(self._fields.leave(epoch))
            self.leave_sent = True
        self._move(last)

    def _leave_epoch(self, operation: GroupMembershipOperation) -> int | None:
        """Return the epoch to leave with; None: without a word."""
        static = self._config.group_instance_id is not None
        if operation is GroupMembershipOperation.LEAVE_GROUP:
            return LEAVE_EPOCH
        if static:
            return LEAVE_TO_COME_BACK_EPOCH
        return LEAVE_EPOCH if operation is GroupMembershipOperation.DEFAULT else None

    def _forget_membership(self, trigger: ConsumerTrigger) -> None:
        """Be out of the group, and ignore what is still answered about the membership that was."""
        self._context.requests.abandon(ApiKey.CONSUMER_GROUP_HEARTBEAT, ApiKey.METADATA)
        self._move(trigger)
        self._context.generation = self._no_generation()
        self.joined_epoch = NO_GENERATION_ID
        self._pace.forget()
        self._fields.forget()
        self.reconciliation.forget()
        self.call, self._refresh, self._cause = None, None, None
        self._rebalance_since_ms = None

    def _send(self, request: ConsumerGroupHeartbeatRequest) -> None:
        context = self._context
        context.metrics.heartbeat_sent(context.now_ms)
        context.send(request, ApiKey.CONSUMER_GROUP_HEARTBEAT, self._config.request_timeout_ms)

    def _move(self, trigger: ConsumerTrigger) -> None:
        self.state = next_state(self.state, trigger)
        self._context.state = in_classic_terms(self.state)

    def _no_generation(self) -> Generation:
        return Generation(NO_GENERATION_ID, self._member_id, None)

    def _log_end(self, *, ended: bool) -> None:
        if ended:
            self._context.log(logging.INFO, "%s", self.recorder.events()[-1].summary())
