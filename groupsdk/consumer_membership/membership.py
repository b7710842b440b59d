"""The states of a consumer-protocol member: join, reconcile, acknowledge, get fenced, leave."""

import logging
from collections.abc import Sequence
from typing import Final

from groupsdk.consumer_membership.broker_pace import BrokerPacedHeartbeat
from groupsdk.consumer_membership.config import ConsumerMemberConfig
from groupsdk.consumer_membership.heartbeat_fields import (
    LEAVE_EPOCH,
    LEAVE_TO_COME_BACK_EPOCH,
    HeartbeatFields,
    PartitionsById,
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
from groupsdk.membership.actions import Action, Call, CompleteJoin, PrepareJoin
from groupsdk.membership.member import Member
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
    """A member's state, its assignment, and the callback that its caller is to run.

    Mirrors Kafka's `ConsumerMembershipManager`. Everything happens at `member.now_ms`.

    Args:
        config: the member's settings.
        member: the data that both protocols share.
        pace: the member's deadlines.
        member_id: the member's id, which it generates itself (KIP-1082).
    """

    def __init__(
        self,
        config: ConsumerMemberConfig,
        member: Member,
        pace: BrokerPacedHeartbeat,
        member_id: str,
    ) -> None:
        self.state = ConsumerMemberState.UNSUBSCRIBED
        self.call: Call | None = None
        self.assignment_epoch = 0
        """Counts the assignments handed to the caller."""
        self.subscription = HeartbeatSubscription()
        self.reconciliation = Reconciliation(member)
        self.recorder = RebalanceRecorder()
        self.fatal: GroupSdkError | None = None
        """Why the member was refused for good."""
        self.joined_epoch = NO_GENERATION_ID
        """The first epoch of this membership."""
        self.leave_sent = False
        """Whether the request in flight is a leave."""
        self._config = config
        self._member = member
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
        self._listed_without_answer = False
        """Whether a heartbeat that named what is owned has had no answer yet."""
        self._fences_in_a_row = 0
        self._answer_lost = False
        """Whether the coordinator may read a heartbeat late whose answer nobody awaits any more."""
        self._say_all_at_ms = 0
        member.generation = self._no_generation()

    # What the caller reports.

    def ask_again(self, reason: str) -> None:
        """Ask the caller for its subscription, which may have changed.

        An assignment that waits for the caller, or that it is taking up, is handed over again afterwards: it may
        hold topics that are not subscribed to any more.

        Args:
            reason: for the log.
        """
        if self.state not in HEARTBEATING:
            return
        self._refresh = reason
        if isinstance(self.call, CompleteJoin):
            self.call = None
            self.reconciliation.withdraw()

    def prepared(self, call_id: int, protocols: Sequence[ProtocolMetadata]) -> None:
        """Apply the caller's subscription; by now the caller knows whether it has lost its partitions.

        An answer to an earlier call is dropped. Invalid metadata becomes an error for the caller.

        Args:
            call_id: the id of the `PrepareJoin`.
            protocols: the result of `metadata()`.
        """
        if not self._takes(call_id):
            return
        try:
            subscription = HeartbeatSubscription.of(protocols)
        except MetadataError as error:
            self._member.fail(error)
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
            self._pace.hurry(self._member.now_ms)

    def delivered(self, call_id: int) -> None:
        """Record that the caller has applied an assignment, and acknowledge it at once.

        Args:
            call_id: the id of the `CompleteJoin`.
        """
        if not self._takes(call_id):
            return
        self.reconciliation.taken_up()
        self._move(ConsumerTrigger.TAKEN_UP)
        self.recorder.phase("acknowledge", self._member.now_ms)
        self._pace.hurry(self._member.now_ms)

    def call_failed(self, call_id: int, description: str) -> None:
        """Record that user code raised; the caller has the exception. A failure of an earlier call is ignored.

        Args:
            call_id: the id of the call.
            description: the exception, for the log.
        """
        call, member = self.call, self._member
        if call is None or call.call_id != call_id:
            return
        if isinstance(call, PrepareJoin):
            member.log(logging.WARNING, "preparing to join raised %s", description)
            self.call = None
            self._prepare_failed()
        else:
            member.log(
                logging.WARNING,
                "taking the assignment up raised %s; it is handed over again at the next poll",
                description,
            )

    def leave(self, operation: GroupMembershipOperation, reason: str) -> list[Action]:
        """Leave the group; the caller has revoked all partitions before.

        Args:
            operation: whether a static member keeps its place (KIP-1092).
            reason: for the log.

        Returns:
            The actions that send the last heartbeat; none outside the group.
        """
        self.call, self._refresh = None, None
        self._needs_prepare = True
        self.reconciliation.delivered = False
        actions: list[Action] = []
        if self.state in HEARTBEATING:
            actions = self._depart(self._leave_epoch(operation), reason, ConsumerTrigger.LEFT)
        elif self.state in OUT_UNTIL_HEARD:
            self._move(ConsumerTrigger.LEAVE)
        if self.assignment_epoch:
            self._join_reason = f"the member joins again after it has left: {reason}"
        return actions

    def leave_for_poll_timeout(self) -> list[Action]:
        """Leave because the caller stopped polling; on its next poll it learns of the loss, and the member rejoins."""
        member = self._member
        member.caller_present = False
        if self.state not in HEARTBEATING:
            return []
        interval_ms = self._config.poll_interval_ms
        member.log(
            logging.WARNING,
            "the caller has not polled for max.poll.interval.ms (%d ms): it is stuck or too slow. The"
            " member leaves, and joins again at the next poll; poll more often or raise the interval",
            interval_ms,
        )
        reason = f"the caller has not polled for {interval_ms} ms"
        epoch = self._leave_epoch(GroupMembershipOperation.DEFAULT)
        actions = self._depart(epoch, reason, ConsumerTrigger.LEFT_BEHIND)
        self._join_reason = reason
        self._needs_prepare = True
        self._ask_caller()
        return actions

    # What the coordinator answers.

    def accepted(self, sent_ms: int, response: ConsumerGroupHeartbeatResponse) -> None:
        """Process a heartbeat response without an error: epoch, interval and, if it changed, the assignment.

        Args:
            sent_ms: when the request was sent; the session counts from here.
            response: the response.
        """
        member, epoch = self._member, response.member_epoch
        joining = self.state is ConsumerMemberState.JOINING
        self._fences_in_a_row = 0
        self._listed_without_answer = False
        self._pace.paced(response.heartbeat_interval_ms, member.now_ms)
        self._pace.accepted(member.now_ms, sent_ms, rebalancing=self._revoking_when_sent)
        if joining:
            self.joined_epoch = epoch
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

    def nonsense(self, response: ConsumerGroupHeartbeatResponse) -> str | None:
        """Return what is invalid in a response without an error code; None if nothing is."""
        if response.member_id is not None and response.member_id != self._member_id:
            return f"is for the member {response.member_id!r}, not for {self._member_id!r}"
        epoch, told = self._member.generation.generation_id, response.member_epoch
        lowest = 1 if self.state is ConsumerMemberState.JOINING else epoch
        if told < lowest:
            return f"has member epoch {told} for a member with epoch {epoch}"
        if response.assignment is not None:
            for topic in response.assignment.topic_partitions:
                if topic.partitions and min(topic.partitions) < 0:
                    return f"assigns partition {min(topic.partitions)} of topic {topic.topic_id}"
        return None

    def fence(self, why: str) -> None:
        """Handle being fenced: leave the group, and rejoin once the caller knows.

        Args:
            why: for the log.
        """
        member = self._member
        if self.recorder.is_open:
            member.metrics.rebalance_failed(member.now_ms)
        self._log_end(ended=self.recorder.lose(member.now_ms) is not None)
        self._join_reason = why
        self._fences_in_a_row += 1
        self._forget_membership(ConsumerTrigger.FENCED)
        self._tell_loss()

    def refuse_for_good(self, error: GroupSdkError) -> None:
        """Handle a fatal error: leave the group; every call raises the error once the caller knows."""
        member = self._member
        error.retriable, error.fatal = False, True
        self.fatal = error
        member.metrics.rebalance_failed(member.now_ms)
        self._log_end(ended=self.recorder.fail(error, member.now_ms) is not None)
        self._forget_membership(ConsumerTrigger.REFUSED)
        self._tell_loss()

    def say_everything(self) -> None:
        """Send all fields with the next heartbeat, since it is unknown which have arrived."""
        self._fields.forget()
        self.leave_sent = False

    def answer_lost(self) -> None:
        """Note that requests may have been under way over a connection that is given up.

        The next heartbeat says everything, which is answered with the assignment. But the coordinator may read one
        of the old connection even after that one. It tells an assignment once, so what it tells there is never
        heard of. Hence a heartbeat of each session says everything from now on.
        """
        self.say_everything()
        self._answer_lost = True

    # What is due.

    def beat(self) -> list[Action]:
        """Send the heartbeat that is due."""
        member = self._member
        self._pace.sent(member.now_ms)
        self._revoking_when_sent = self.reconciliation.revoking
        if self.state is ConsumerMemberState.JOINING:
            self.recorder.attempt()
            return [self._send(self._fields.join(self.subscription))]
        if self._answer_lost and member.now_ms >= self._say_all_at_ms:
            self._fields.forget()
        if not self._fields.knows_owned:
            self._say_all_at_ms = member.now_ms + self._pace.session_timeout_ms
        owned: PartitionsById | None = None
        if self.state is ConsumerMemberState.ACKNOWLEDGING or not self._fields.knows_owned:
            owned = self.reconciliation.claimed
            self._listed_without_answer = True
        epoch = member.generation.generation_id
        actions = [self._send(self._fields.heartbeat(epoch, self.subscription, owned))]
        if self.state is ConsumerMemberState.ACKNOWLEDGING:
            self._acknowledged()
        return actions

    def advance_call(self) -> list[Action]:
        """Issue the callback that is due, if any."""
        member = self._member
        if not self._can_call:
            return []
        joins = self.state is ConsumerMemberState.UNSUBSCRIBED or self.state in OUT_UNTIL_HEARD
        if (joins or self._refresh is not None) and member.now_ms >= self._prepare_at_ms:
            self._ask_caller()
        elif self.state is ConsumerMemberState.RECONCILING:
            self._hand_over()
        return []

    @property
    def prepare_at_ms(self) -> int | None:
        """When to ask the caller for its subscription; None if not needed."""
        waits = self._can_call and self._refresh is not None and self.state in HEARTBEATING
        return self._prepare_at_ms if waits else None

    @property
    def _can_call(self) -> bool:
        member = self._member
        return (
            self.call is None
            and member.failure is None
            and member.caller_present
            and member.coordinator is not None
        )

    # Details.

    def _takes(self, call_id: int) -> bool:
        """Return whether this answers the outstanding callback, and clear it if so."""
        if self.call is None or self.call.call_id != call_id:
            self._member.log(logging.DEBUG, "a stale answer of the caller was dropped")
            return False
        self.call = None
        return True

    def _prepare_failed(self) -> None:
        """Go on after the callback failed: a loss counts as told, and the subscription is asked for again."""
        self._needs_prepare = False
        # one that was only asked for its subscription still has what it had
        self.reconciliation.delivered = self.reconciliation.delivered and self.state in HEARTBEATING
        if self.fatal is not None:
            self._member.fail(self.fatal)
        elif self.state in HEARTBEATING:
            self._refresh = "preparing to join failed"
            self._prepare_at_ms = self._member.now_ms + self._config.retry_backoff_ms

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
        if self.fatal is not None:
            self._member.fail(self.fatal)
        elif self.state in OUT_UNTIL_HEARD:
            self._move(ConsumerTrigger.LOSS_HEARD)
            self._begin_joining()

    def _ask_caller(self) -> None:
        self._refresh = None
        self._last_call_id += 1
        generation = self._member.generation
        self.call = PrepareJoin(self._last_call_id, generation, run_callback=self._needs_prepare)

    def _hand_over(self) -> None:
        """Hand the caller the part of the target assignment that is available.

        Not while the list of what is owned is on its way: if the coordinator takes partitions away in that
        moment which are not in the list, others get them at once. Its answer says so.
        """
        if self._listed_without_answer:
            return
        assignment = self.reconciliation.next_step()
        if assignment is None:
            return
        self.assignment_epoch += 1
        self._last_call_id += 1
        generation = self._member.generation
        self.recorder.phase("complete", self._member.now_ms)
        self.call = CompleteJoin(self._last_call_id, generation, PROTOCOL_NAME, assignment)

    def _begin_joining(self) -> None:
        member = self._member
        self._refresh = None
        self._rebalance_since_ms = member.now_ms
        self.recorder.begin(self._join_reason, member.generation, member.now_ms)
        self.recorder.phase("join", member.now_ms)
        member.log(logging.INFO, "joins: %s", self._join_reason)
        self._pace.enable(member.now_ms)
        again = self._fences_in_a_row - 1
        if again > 0:  # a coordinator that always answers the same must not make the member spin
            self._pace.put_off(member.now_ms + member.backoff.backoff_ms(again - 1, member.random))

    def _begin_reconciling(self) -> None:
        member = self._member
        revoked, added = self.reconciliation.counts()
        if self._rebalance_since_ms is None:
            self._rebalance_since_ms = member.now_ms
        reason = f"the group coordinator takes {revoked} partitions away and adds {added}"
        if self._cause is not None:
            reason, self._cause = f"{self._cause}: {reason}", None
        self.recorder.begin(reason, member.generation, member.now_ms)
        self.recorder.phase("resolve", member.now_ms)
        if isinstance(self.call, CompleteJoin):
            self.call = None  # of an assignment that is not the newest any more
        self._move(ConsumerTrigger.TARGET_CHANGED)

    def _acknowledged(self) -> None:
        """Note that the acknowledgement is being sent."""
        member = self._member
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
        event = self.recorder.complete(member.generation, member.now_ms, broker_assigns=True)
        self._log_end(ended=event is not None)

    def _depart(self, epoch: int | None, reason: str, last: ConsumerTrigger) -> list[Action]:
        """Leave, with a leave heartbeat if `epoch` is not None and the coordinator is known."""
        member = self._member
        self._log_end(ended=self.recorder.leave(member.now_ms) is not None)
        tell = epoch is not None and member.coordinator is not None
        if tell:
            member.log(logging.INFO, "leaving the group: %s", reason)
        self._forget_membership(ConsumerTrigger.LEAVE)
        self._move(ConsumerTrigger.GIVEN_UP)
        actions: list[Action] = []
        if tell and epoch is not None:
            actions.append(self._send(self._fields.leave(epoch)))
            self.leave_sent = True
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
        self._member.requests.abandon(ApiKey.CONSUMER_GROUP_HEARTBEAT, ApiKey.METADATA)
        self._move(trigger)
        self._member.generation = self._no_generation()
        self.joined_epoch = NO_GENERATION_ID
        self._pace.forget()
        self._fields.forget()
        self.reconciliation.forget()
        self.call, self._refresh, self._cause = None, None, None
        self._rebalance_since_ms = None
        self._listed_without_answer = False

    def _send(self, request: ConsumerGroupHeartbeatRequest) -> Action:
        member = self._member
        member.metrics.heartbeat_sent(member.now_ms)
        timeout_ms = self._config.request_timeout_ms
        return member.send(request, ApiKey.CONSUMER_GROUP_HEARTBEAT, timeout_ms)

    def _move(self, trigger: ConsumerTrigger) -> None:
        self.state = next_state(self.state, trigger)
        self._member.state = in_classic_terms(self.state)

    def _no_generation(self) -> Generation:
        return Generation(NO_GENERATION_ID, self._member_id, None)

    def _log_end(self, *, ended: bool) -> None:
        if ended:
            self._member.log(logging.INFO, "%s", self.recorder.events[-1].summary())
