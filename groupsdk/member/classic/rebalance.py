"""Carry one member through its rebalances: whether and when to join again; prepare, join, assign, sync, complete."""

import logging
from collections.abc import Mapping
from random import Random
from typing import Final

from groupsdk.error_code import ErrorCode
from groupsdk.errors import (
    BrokerError,
    GroupSdkError,
    InconsistentGroupProtocolError,
    MemberIdRequiredError,
)
from groupsdk.member import events
from groupsdk.member.actions import Action, AssignGroup, CompleteJoin, PrepareJoin
from groupsdk.member.classic.protocol_mismatch import ProtocolMismatch
from groupsdk.member.classic.requests import (
    join_request,
    join_response_error,
    joined_members,
    sync_request,
    sync_response_error,
)
from groupsdk.member.classic.state import Trigger, next_state
from groupsdk.member.member import Member
from groupsdk.member.membership import FIRST_JOIN, Answer
from groupsdk.member.recorder import RebalanceEvent
from groupsdk.member.requests import PARKED, InFlightRequest
from groupsdk.member.state import MemberState
from groupsdk.settings.backoff import ExponentialBackoff
from groupsdk.types import NO_GENERATION_ID, UNKNOWN_MEMBER_ID, Generation, ProtocolMetadata
from groupsdk.wire.messages.groups import (
    DescribeGroupsResponse,
    JoinGroupResponse,
    SyncGroupRequest,
    SyncGroupResponse,
)
from groupsdk.wire.schema import ApiKey


_IMMEDIATE_ATTEMPTS: Final = 3
_SOON_MS: Final = 1_000
"""A caller that asks for the next rebalance so soon after the last one would never let the group rest."""
HAND_OVERS: Final = 100
"""How many rebalances in a row are granted at once to a caller that hands work over."""
HAND_OVER_REFILL_MS: Final = 250
"""In how many milliseconds one more is."""

_STILL_OWED: Final = "a rebalance was due before the member lost its place"

KAFKA_ASSIGNORS: Final = frozenset({"range", "roundrobin", "sticky", "cooperative-sticky"})
"""The names of Kafka's own assignors: it makes no difference that they are not used if the broker assigns."""


class Rejoin:
    """Whether the member must rejoin, why, and the backoff of its attempts.

    Kafka's client repeats a join at once after some errors. So does this one, but only so many times in
    a row: then it backs off, so that a coordinator that always answers the same cannot make it spin. And
    neither can a caller that asks for the next rebalance in every `on_join_complete`. One that hands work over, while
    that stands still, is granted many more: from a store that fills slowly.
    """

    def __init__(self, backoff: ExponentialBackoff, random: Random) -> None:
        self.needed = True
        self.reason = FIRST_JOIN
        self.needs_prepare = True
        """Whether `on_join_prepare` is due: once per rebalance, not per attempt."""
        self._backoff = backoff
        self._random = random
        self._failures = 0
        self._immediate = 0
        self._retry_at_ms = 0
        self._paced_until_ms = 0
        self._succeeded_ms: int | None = None
        self._asked_in_a_row = 0
        self._hand_overs = HAND_OVERS
        self._hand_overs_at_ms = 0

    @property
    def retry_at_ms(self) -> int:
        """The time at which a join may start."""
        return max(self._retry_at_ms, self._paced_until_ms)

    def request(self, reason: str) -> None:
        """Ask for a rebalance; the latest reason stands."""
        self.needed = True
        self.reason = reason
        # whatever the caller asked for, the group does not wait for it once it rebalances anyway
        self._paced_until_ms = 0

    def ask(self, reason: str, now_ms: int, *, hand_over: bool = False) -> bool:
        """Ask for a rebalance as the caller. Return whether a delay has begun with this one.

        A caller that asks right after each generation is answered at once only so many times in a row (a
        cooperative consumer gives partitions up in some successive rounds), then after a growing delay.

        Args:
            hand_over: whether work waits for this rebalance: it is granted at once as long as the store lasts.
        """
        if self.needed:
            self.reason = reason
            if hand_over and self._paced_until_ms > now_ms and self._take_hand_over(now_ms):
                self._paced_until_ms = 0
            return False
        if hand_over and self._take_hand_over(now_ms):
            self.request(reason)
            return False
        soon = self._succeeded_ms is not None and now_ms - self._succeeded_ms < _SOON_MS
        self._asked_in_a_row = self._asked_in_a_row + 1 if soon else 1
        self.request(reason)
        beyond = self._asked_in_a_row - _IMMEDIATE_ATTEMPTS
        if beyond > 0:
            delay_ms = self._backoff.backoff_ms(beyond - 1, self._random)
            self._paced_until_ms = now_ms + delay_ms
        return beyond == 1

    def _take_hand_over(self, now_ms: int) -> bool:
        gained = (now_ms - self._hand_overs_at_ms) // HAND_OVER_REFILL_MS
        self._hand_overs_at_ms += gained * HAND_OVER_REFILL_MS
        self._hand_overs = min(HAND_OVERS, self._hand_overs + gained)
        if not self._hand_overs:
            return False
        self._hand_overs -= 1
        return True

    def prepared(self) -> None:
        """Record that `on_join_prepare` was called, whether or not it raised."""
        self.needs_prepare = False

    def sent(self) -> None:
        """Record that a join with the latest metadata was sent."""
        self.needed = False

    def again_now(self, reason: str, now_ms: int) -> None:
        """Rejoin without delay, unless that was tried too often just before."""
        self._immediate += 1
        if self._immediate > _IMMEDIATE_ATTEMPTS:
            self.again_later(reason, now_ms)
            return
        self.request(reason)
        self._retry_at_ms = now_ms

    def again_later(self, reason: str, now_ms: int) -> None:
        """Rejoin after a backoff that grows with consecutive failures."""
        self.request(reason)
        self._retry_at_ms = now_ms + self._backoff.backoff_ms(self._failures, self._random)
        self._failures += 1

    def expelled(self, reason: str) -> None:
        """Start over after losing the membership: `on_join_prepare` is due again."""
        self.request(reason)
        self.needs_prepare = True

    def succeeded(self, now_ms: int) -> None:
        """Record that a generation is complete; resets the backoff."""
        self._succeeded_ms = now_ms
        self._failures = 0
        self._immediate = 0

    def delivered(self) -> None:
        """Record that `on_join_complete` returned: the next join is another rebalance."""
        self.needs_prepare = True


class Rebalance:
    """The steps of a member into the next generation.

    Three steps need the caller, in whose thread the user's code runs; each is a `Call` that stands in
    `call` until it is answered. An answer to any other call is stale and changes nothing. What the driver
    has to do is returned as actions."""

    def __init__(self, member: Member) -> None:
        self.rejoin = Rejoin(member.backoff, member.random)
        self._member = member
        self._protocol_type = ""
        self._protocols: tuple[ProtocolMetadata, ...] = ()
        self._member_count: int | None = None
        self.metadata_bytes = 0
        """The size of all members' metadata, as the leader was told; 0 for others."""
        self._broker_assigns = False
        """Whether the group has no leader: its coordinator computes the assignments (KIP-848)."""
        self._mismatch = ProtocolMismatch(member)
        self._join_sent_ms = 0
        self._owed_in: Generation | None = None
        """The generation, with its member id, in which a rebalance was due when the member lost its place."""
        self._joining_since_ms: int | None = None
        """When the first join of this rebalance was sent: Kafka's `lastRebalanceStartMs`."""

    def ask(self, reason: str, *, hand_over: bool = False) -> None:
        """Rejoin at the caller's request."""
        if self.rejoin.ask(reason, self._member.now_ms, hand_over=hand_over):
            self._member.log(
                logging.INFO,
                "the caller asked for a rejoin right after each of the last generations: further ones come"
                " retry.backoff.ms to retry.backoff.max.ms apart",
            )

    def start(self) -> list[Action]:
        """Ask the caller to prepare a join, first of all by hearing what it has lost."""
        member = self._member
        if self._lapsed:
            return self.lapse()
        if not member.recorder.is_open:
            member.recorder.begin(self.rejoin.reason, member.generation, member.now_ms)
            member.log(logging.INFO, "starting a rebalance: %s", self.rejoin.reason)
        member.recorder.phase("prepare", member.now_ms)
        member.call = PrepareJoin(
            member.next_call_id(), member.generation, self.rejoin.needs_prepare
        )
        return []

    def answered(self, answer: Answer) -> list[Action]:
        """Process the caller's answer to a callback; an answer to an earlier call is dropped."""
        call, member = self._member.call, self._member
        if call is None or call.call_id != answer.call_id:
            member.log(logging.DEBUG, "stale %s dropped", type(answer).__name__)
            return []
        member.call = None
        match answer:
            case events.JoinPrepared(_, protocol_type, protocols):
                if self._lapsed:  # the caller has kept what may be another's by now
                    return self.lapse()
                self.rejoin.prepared()
                self._protocol_type = protocol_type
                self._protocols = protocols
                if member.coordinator is not None:
                    return [self._send_join()]
            case events.GroupAssigned(_, plan):
                return self._send_sync(plan)
            case events.JoinDelivered():
                self._delivered()
        return []

    def call_failed(self, call_id: int, description: str) -> None:
        """Record that user code raised; the caller has the exception. A failure of an earlier call is ignored."""
        call, member = self._member.call, self._member
        if call is None or call.call_id != call_id:
            return
        match call:
            case PrepareJoin():
                # Not repeated: the join goes on without it when the caller comes back, as in Kafka's client.
                # Without a backoff: it is the caller who sets this pace.
                member.call = None
                self.rejoin.prepared()
                member.log(logging.WARNING, "preparing to join raised %s", description)
            case AssignGroup():
                member.call = None
                self.retry_later(description)
            case CompleteJoin():
                member.log(
                    logging.WARNING,
                    "on_join_complete raised %s; it is called again at the next poll",
                    description,
                )

    def joined(self, flight: InFlightRequest, response: JoinGroupResponse) -> list[Action]:
        """Process a JoinGroup response without an error."""
        member = self._member
        wrong = join_response_error(response, self._protocol_type, self._protocols)
        if wrong is not None:
            return self.fail(wrong)
        if not member.heartbeat.possession.outlasts_join(
            member.now_ms,
            member.generation.generation_id,
            response.generation_id,
            led=bool(response.leader),
        ):
            # The coordinator takes a static member back without a word, and that of a consumer group any member.
            return self.lapse()
        self._join_sent_ms = flight.sent_ms
        self._move(Trigger.JOIN_ANSWERED)
        member.generation = Generation(
            response.generation_id, response.member_id, response.protocol_name
        )
        member.is_leader = response.leader == response.member_id
        self._note_leader(response)
        member.heartbeat.enable(member.now_ms)
        member.metrics.join_completed(member.now_ms - flight.sent_ms, member.now_ms)
        self._member_count = len(response.members) if member.is_leader else None
        self.metadata_bytes = sum(len(each.metadata) for each in response.members)
        if not member.is_leader:
            return self._send_sync({})
        member.log(logging.INFO, "joined, as the leader of %d members", len(response.members))
        member.recorder.phase("assign", member.now_ms)
        member.call = AssignGroup(
            member.next_call_id(),
            member.generation,
            response.leader,
            response.protocol_name or "",
            joined_members(response),
            response.skip_assignment,
        )
        return []

    def member_id_given(self, member_id: str) -> list[Action]:
        """Rejoin with the member id that the coordinator assigned (KIP-394)."""
        member = self._member
        if not member_id or member.generation.has_member_id:
            asked = f"JoinGroup of group {member.config.group_id!r} with member id {member_id!r}"
            return self.fail(MemberIdRequiredError(ErrorCode.MEMBER_ID_REQUIRED, asked))
        member.generation = Generation(NO_GENERATION_ID, member_id, None)
        member.log(logging.DEBUG, "the coordinator gave a member id")
        # asked for since the metadata was prepared, which goes out once more now
        still_needed = self.rejoin.needed
        actions = [self._send_join()]
        self.rejoin.needed = still_needed
        return actions

    def synced(self, flight: InFlightRequest, response: SyncGroupResponse) -> list[Action]:
        """Process a SyncGroup response without an error."""
        member = self._member
        wrong = sync_response_error(response, self._protocol_type, member.generation)
        if wrong is not None:
            return self.fail(wrong)
        self._move(Trigger.SYNC_ANSWERED)
        self.rejoin.succeeded(member.now_ms)
        if self._is_owed_still():
            self.rejoin.request(_STILL_OWED)
        self._owed_in = None
        member.assignment_epoch += 1
        # The coordinator counts the session from its answer, which may have waited for this process to
        # run. What is certain is only that it accepted something sent then: a heartbeat settles the rest.
        # a coordinator that assigns waits for what it takes away from the join on
        sent_ms = self._join_sent_ms if self._broker_assigns else flight.sent_ms
        member.heartbeat.accepted(member.now_ms, sent_ms)
        waited_ms = member.now_ms - flight.sent_ms
        member.metrics.sync_completed(waited_ms, member.now_ms)
        if self._joining_since_ms is not None:
            took_ms = member.now_ms - self._joining_since_ms
            member.metrics.rebalance_completed(took_ms, member.now_ms)
            self._joining_since_ms = None
        member.recorder.phase("complete", member.now_ms)
        member.call = CompleteJoin(
            member.next_call_id(),
            member.generation,
            member.generation.protocol_name or "",
            response.assignment,
        )
        return []

    def question(self) -> SyncGroupRequest:
        """Build a SyncGroup of a stable member: the coordinator answers it only if it knows the member."""
        member = self._member
        return sync_request(member.config, member.generation, self._protocol_type, {})

    def retry_now(self, why: str) -> list[Action]:
        """Abandon this attempt and rejoin at once, unless that was tried too often in a row."""
        self._attempt_failed(why)
        self.rejoin.again_now(f"rebalance failed: {why}", self._member.now_ms)
        return []

    def retry_later(self, why: str) -> list[Action]:
        """Abandon this attempt and rejoin after a backoff."""
        self._attempt_failed(why)
        self.rejoin.again_later(f"rebalance failed: {why}", self._member.now_ms)
        return []

    def fail(self, error: GroupSdkError) -> list[Action]:
        """Abandon this attempt, with a backoff, and keep the error for the caller's next call."""
        self.retry_later(type(error).__name__)
        self._log_end(self._member.recorder.fail(error, self._member.now_ms), logging.WARNING)
        self._member.fail(error)
        return []

    def refused(self, flight: InFlightRequest, error: BrokerError) -> list[Action]:
        """Abandon this attempt after an error code from the coordinator, and explain it to the caller."""
        if isinstance(error, InconsistentGroupProtocolError):
            return [self._mismatch.ask(error, flight.api, self._protocol_type, self._protocols)]
        return self.fail(error)

    def described(self, response: DescribeGroupsResponse) -> list[Action]:
        """Process the description of the group that refused this member."""
        return self.fail(self._mismatch.described(response.groups))

    def unsent(self, flight: InFlightRequest, error: GroupSdkError) -> list[Action]:
        """Abandon this attempt because one of its requests cannot be sent."""
        asked = flight.api is ApiKey.DESCRIBE_GROUPS
        return self.fail(self._mismatch.undescribed(error) if asked else error)

    def unanswered(self, flight: InFlightRequest, error: GroupSdkError) -> list[Action]:
        """Abandon this attempt because the coordinator was lost with one of its requests."""
        if flight.api is ApiKey.DESCRIBE_GROUPS:
            return self.fail(self._mismatch.undescribed(error))
        return self.retry_later("the group coordinator was lost")

    def lapse(self) -> list[Action]:
        """Drop what is held no longer: the caller hears that it is lost before the member joins."""
        why = "the join came too late for what the member holds to have been kept"
        return self.expel(why, keep_member_id=True)

    def expel(self, why: str, *, keep_member_id: bool) -> list[Action]:
        """Reset the membership, and rejoin at once, with or without its member id."""
        self._note_owed()
        self.rejoin.again_now(why, self._member.now_ms)
        actions = self._reset(why, keep_member_id=keep_member_id)
        event = self._member.recorder.lose(self._member.now_ms)
        if event is not None:
            self._attempt_failed(why)
            self._log_end(event, logging.INFO)
        return actions

    def leave(self, why: str) -> list[Action]:
        """Reset the membership after leaving; rejoining is up to the caller."""
        self._note_owed()
        actions = self._reset(why, keep_member_id=False)
        event = self._member.recorder.leave(self._member.now_ms)
        if event is not None:
            self._attempt_failed(why)
            self._log_end(event, logging.INFO)
        return actions

    @property
    def _lapsed(self) -> bool:
        return self._member.heartbeat.possession.lapsed(self._member.now_ms)

    def forget_membership(self, *, keep_member_id: bool) -> list[Action]:
        """Reset the generation, and ignore responses to requests of the old one; the next join may keep the member id.

        Return a `Disconnect` if a parked request would hold up what follows it on the connection.
        """
        member, actions = self._member, list[Action]()
        if not PARKED.isdisjoint(member.requests.summary.apis):
            actions, _ = member.drop_connection()
        member.requests.abandon(ApiKey.HEARTBEAT, ApiKey.DESCRIBE_GROUPS)
        self._move(Trigger.RESET)
        member_id = member.generation.member_id if keep_member_id else UNKNOWN_MEMBER_ID
        member.generation = Generation(NO_GENERATION_ID, member_id, None)
        member.is_leader = False
        member.heartbeat.forget()
        return actions

    def _note_owed(self) -> None:
        """Remember that the member was to join again, or did: a static one may get its place back without a rebalance."""
        member = self._member
        joins = self.rejoin.needed or member.state is MemberState.PREPARING_REBALANCE
        if joins and not member.generation.is_reset:
            self._owed_in = member.generation

    def _is_owed_still(self) -> bool:
        """Return whether a rebalance was due, and the group may have taken the member back without one.

        It has in the same generation. A later one it may have formed without a static member, which gets another member id with
        its place; one that joins with the id that it had is compared with what it joined with before.
        """
        member, owed_in = self._member, self._owed_in
        if owed_in is None:
            return False
        if owed_in.generation_id == member.generation.generation_id:
            return True
        is_static = member.config.group_instance_id is not None
        return is_static and owed_in.member_id != member.generation.member_id

    def _reset(self, why: str, *, keep_member_id: bool) -> list[Action]:
        self._member.call = None
        self.rejoin.expelled(why)
        return self.forget_membership(keep_member_id=keep_member_id)

    def _move(self, trigger: Trigger) -> None:
        self._member.state = next_state(self._member.state, trigger)

    def _note_leader(self, response: JoinGroupResponse) -> None:
        """Log which side assigns; as a warning when the broker starts to, since the user's assignor is then unused."""
        member = self._member
        before, self._broker_assigns = self._broker_assigns, not response.leader
        if member.is_leader:
            return
        if not self._broker_assigns:
            member.log(logging.INFO, "joined; the leader is %s", response.leader)
            return
        own = [name for name, _ in self._protocols if name not in KAFKA_ASSIGNORS]
        if before or not own:
            member.log(logging.INFO, "joined; the broker assigns")
            return
        member.log(
            logging.WARNING,
            "joined; the broker assigns, and %s is not asked: the group has members of the consumer protocol"
            " (group.protocol=consumer, KIP-848), for which the broker uses group.consumer.assignors",
            ", ".join(map(repr, own)),
        )

    def _send_join(self) -> Action:
        member = self._member
        self._move(Trigger.JOIN_SENT)
        member.heartbeat.disable()
        member.recorder.attempt()
        member.recorder.phase("join", member.now_ms)
        if self._joining_since_ms is None:
            self._joining_since_ms = member.now_ms
        request = join_request(
            member.config,
            member.generation.member_id,
            self._protocol_type,
            self._protocols,
            self.rejoin.reason,
        )
        self.rejoin.sent()
        return member.send(request, ApiKey.JOIN_GROUP, member.config.join_timeout_ms)

    def _send_sync(self, plan: Mapping[str, bytes]) -> list[Action]:
        member = self._member
        if member.coordinator is None:
            return self.retry_later("the group coordinator was lost")
        member.recorder.phase("sync", member.now_ms)
        request = sync_request(member.config, member.generation, self._protocol_type, plan)
        config = member.config
        # only a follower's is parked: until the leader has assigned
        timeout_ms = config.request_timeout_ms if member.is_leader else config.join_timeout_ms
        return [member.send(request, ApiKey.SYNC_GROUP, timeout_ms)]

    def _delivered(self) -> None:
        member = self._member
        self.rejoin.delivered()
        event = member.recorder.complete(
            member.generation,
            member.now_ms,
            leader=member.is_leader,
            broker_assigns=self._broker_assigns,
            member_count=self._member_count,
        )
        self._log_end(event, logging.INFO)

    def _attempt_failed(self, why: str) -> None:
        self._member.metrics.rebalance_failed(self._member.now_ms)
        self._member.log(logging.DEBUG, "attempt to join failed: %s", why)

    def _log_end(self, event: RebalanceEvent | None, level: int) -> None:
        if event is not None:
            self._member.log(level, "%s", event.summary())
