"""The classic protocol: what a member does on each response, how it heartbeats, and how it leaves."""

import logging
from collections.abc import Mapping
from random import Random
from typing import ClassVar, Final

from groupsdk.error_code import ErrorCode
from groupsdk.errors import BrokerError, GroupSdkError, broker_error
from groupsdk.lazy_imports import override
from groupsdk.member.actions import Action, PrepareJoin
from groupsdk.member.classic.leaving import Leaving
from groupsdk.member.classic.rebalance import Rebalance
from groupsdk.member.classic.replies import CALLER_REQUEST_REPLIES, ClassicReaction, reply_to
from groupsdk.member.classic.requests import (
    JOINING,
    heartbeat_request,
    in_words,
)
from groupsdk.member.events import JoinPrepared
from groupsdk.member.member import Deadline, Member
from groupsdk.member.membership import (
    MOVED,
    Answer,
    InGroupResponse,
    Membership,
    Reaction,
    Reply,
)
from groupsdk.member.requests import PARKED, InFlightRequest
from groupsdk.member.state import MemberState
from groupsdk.settings.config import MemberConfig
from groupsdk.types import GroupMembershipOperation
from groupsdk.wire.messages.groups import (
    DescribeGroupsResponse,
    HeartbeatRequest,
    JoinGroupResponse,
    LeaveGroupResponse,
    SyncGroupRequest,
    SyncGroupResponse,
)
from groupsdk.wire.messages.offsets import OffsetCommitRequest
from groupsdk.wire.schema import ApiKey


# A group is kept as one record, with all metadata and assignments, and brokers call it only unknown when
# that is over the limit of a record.
_LARGE_BYTES: Final = 500_000

_IS_REBALANCING: Final = "the group is already rebalancing"


class ClassicMembership(Membership):
    """A member of the classic protocol, as Kafka's `AbstractCoordinator` defines it."""

    in_group_apis: ClassVar[frozenset[ApiKey]] = PARKED | {ApiKey.HEARTBEAT}
    heartbeat_api: ClassVar[ApiKey] = ApiKey.HEARTBEAT
    leave_api: ClassVar[ApiKey] = ApiKey.LEAVE_GROUP
    caller_replies: ClassVar[Mapping[ErrorCode, Reply]] = CALLER_REQUEST_REPLIES
    rediscover: ClassVar[Reaction] = ClassicReaction.REDISCOVER

    def __init__(self, config: MemberConfig, random: Random) -> None:
        super().__init__(Member(config, random))
        self._rebalance = Rebalance(self.member)
        self._leaving = Leaving(self.member)
        self._unconfirmed_ms: int | None = None
        """When the heartbeat was sent that was accepted in a lapse, perhaps by a coordinator that knows no group yet."""

    @property
    @override
    def joining(self) -> bool:
        rejoins = self._rebalance.rejoin.needed
        return rejoins or not JOINING.isdisjoint(self.member.requests.summary.apis)

    @override
    def ask_rejoin(self, reason: str, *, hand_over: bool = False) -> None:
        self._rebalance.ask(reason, hand_over=hand_over)

    @override
    def answered(self, answer: Answer) -> list[Action]:
        if isinstance(answer, JoinPrepared):
            self._leaving.forget()  # its own, from before it joins again
        return self._rebalance.answered(answer)

    @override
    def call_failed(self, call_id: int, description: str) -> None:
        self._rebalance.call_failed(call_id, description)

    @override
    def leave(self, operation: GroupMembershipOperation, reason: str) -> list[Action]:
        member = self.member
        generation = member.generation
        dynamic = member.config.group_instance_id is None
        tell = (
            member.state is not MemberState.UNJOINED
            and generation.has_member_id
            and (member.coordinator is not None or not dynamic)
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
            actions += self._leaving.begin(generation.member_id, reason)
        return actions

    @override
    def leave_deadlines(self) -> list[Deadline]:
        return self._leaving.deadlines()

    @override
    def leave_for_poll_timeout(self, reason: str) -> list[Action]:
        return self.leave(GroupMembershipOperation.DEFAULT, reason)

    @override
    def give_up_join(self) -> list[Action]:
        """Free the connection from a parked JoinGroup; the member stays in the generation that it was in.

        The coordinator takes commits of that generation until every member has joined.
        """
        if ApiKey.JOIN_GROUP not in self.member.requests.summary.apis:
            return []
        actions, _ = self.member.drop_connection()
        return [*actions, *self._rebalance.retry_later("the member is about to leave")]

    @override
    def is_of_membership(self, commit: OffsetCommitRequest) -> bool:
        generation = self.member.generation
        return (
            commit.generation_id_or_member_epoch == generation.generation_id >= 0
            and commit.member_id == generation.member_id
        )

    @override
    def reply_to(self, api: ApiKey, code: int) -> Reply:
        return reply_to(api, code)

    @override
    def on_answer(
        self, flight: InFlightRequest, response: InGroupResponse, reply: Reply | None
    ) -> list[Action] | None:
        if flight.api is ApiKey.HEARTBEAT and isinstance(response, SyncGroupResponse):
            return self._on_question_answered(flight, reply)
        if reply is None:
            return self._on_accepted(flight, response)
        if reply.reaction is ClassicReaction.KEEP_GIVEN_ID:
            assert isinstance(response, JoinGroupResponse), "only joins are given an id"
            return self._rebalance.member_id_given(response.member_id)
        if reply.reaction is ClassicReaction.REBALANCING:
            self._on_heartbeat_accepted(flight, rebalancing=True)
            return []
        return None

    def _on_accepted(self, flight: InFlightRequest, response: InGroupResponse) -> list[Action]:
        match response:
            case JoinGroupResponse():
                return self._rebalance.joined(flight, response)
            case SyncGroupResponse():
                self.member.log_thinner.calm()
                return self._rebalance.synced(flight, response)
            case _:
                self._on_heartbeat_accepted(flight, rebalancing=False)
                return []

    def _on_heartbeat_accepted(self, flight: InFlightRequest, *, rebalancing: bool) -> None:
        member = self.member
        if flight.generation != member.generation:
            return
        if member.log_thinner.counts:
            member.log_thinner.calm()
        possession = member.heartbeat.possession
        if not rebalancing and possession.lapsed(member.now_ms):
            # A coordinator that loads the group accepts every heartbeat: a SyncGroup tells whether it knows the member.
            member.heartbeat.reset_session(member.now_ms)
            if member.state is MemberState.STABLE:
                is_fresh = member.now_ms - flight.sent_ms < possession.session_timeout_ms
                self._unconfirmed_ms = flight.sent_ms if is_fresh else None
                member.heartbeat.hurry(member.now_ms)
            return
        # a leader that does not sync in time is expelled, though its heartbeats are answered without an error
        unsettled = rebalancing or member.state is MemberState.COMPLETING_REBALANCE
        member.heartbeat.accepted(member.now_ms, flight.sent_ms, rebalancing=unsettled)
        if rebalancing and member.state is MemberState.STABLE:
            member.log(logging.INFO, "the group is rebalancing")
            self._rebalance.rejoin.request(_IS_REBALANCING)

    def _on_question_answered(
        self, flight: InFlightRequest, reply: Reply | None
    ) -> list[Action] | None:
        """Process the response to the SyncGroup of a stable member, with the error codes of a heartbeat."""
        member = self.member
        sent_ms, self._unconfirmed_ms = self._unconfirmed_ms, None
        if reply is not None and reply.reaction is not ClassicReaction.REBALANCING:
            return None
        if flight.generation != member.generation or member.state is not MemberState.STABLE:
            return []
        if reply is not None:  # brokers before Kafka 4.0 say so too while they load the group
            self._rebalance.rejoin.request(_IS_REBALANCING)
        elif sent_ms is not None:
            # This has renewed no session: that began with the heartbeat before, or with a group loaded after it.
            member.heartbeat.accepted(member.now_ms, sent_ms)
        return []

    @override
    def on_other_answer(self, response: object) -> list[Action]:
        match response:
            case LeaveGroupResponse(error_code=code, members=members):
                self._leaving.answered(code)
                for error_code in (code, *(left.error_code for left in members)):
                    if error_code and error_code not in MOVED:  # that is logged as the loss it is
                        self.member.log(
                            logging.INFO, "%s", broker_error(error_code, "leaving the group")
                        )
                return []
            case DescribeGroupsResponse():
                return self._rebalance.described(response)
            case _:
                return super().on_other_answer(response)

    @override
    def describe(self, flight: InFlightRequest, reply: Reply, code: int, response: object) -> str:
        asked = in_words(self.member.config, flight.api, code)
        if reply.reaction is not ClassicReaction.FAIL or not flight.payload:
            return asked
        size, what = flight.payload_bytes, f"{flight.payload} of {flight.payload_bytes} bytes"
        if flight.api is ApiKey.SYNC_GROUP and self._rebalance.metadata_bytes:
            # the broker stores both in one record, and Kafka refuses neither the joins nor the metadata
            size += self._rebalance.metadata_bytes
            what += f" and all members' metadata of {self._rebalance.metadata_bytes} bytes"
        if size > _LARGE_BYTES:
            asked += f" with {what} (brokers commonly allow about 1 MB for the whole group)"
        return asked

    @override
    def carry_out(
        self, reaction: Reaction, flight: InFlightRequest, error: BrokerError, why: str
    ) -> list[Action]:
        member, rebalance = self.member, self._rebalance
        match reaction:
            case ClassicReaction.REJOIN_NOW:
                return rebalance.retry_now(why)
            case ClassicReaction.REJOIN_LATER:
                return rebalance.retry_later(why)
            case ClassicReaction.REDISCOVER:
                return rebalance.retry_later(why) if flight.api in PARKED else []
            case ClassicReaction.RESET_GENERATION | ClassicReaction.RESET_MEMBER:
                keeps_id = reaction is ClassicReaction.RESET_GENERATION
                return rebalance.expel(why, keep_member_id=keeps_id)
            case ClassicReaction.FENCE:
                expelled = rebalance.expel(why, keep_member_id=False)
                member.fail(error)
                return expelled
            case ClassicReaction.FAIL:
                return rebalance.refused(flight, error)
            case ClassicReaction.REPORT:
                member.fail(error)
            case ClassicReaction.RETRY:
                member.heartbeat.failed(member.now_ms)
            case ClassicReaction.REBALANCING:
                rebalance.rejoin.request(_IS_REBALANCING)
            case _:
                raise AssertionError(f"{reaction} is not a reaction to an error")
        return []

    @override
    def unsent(self, flight: InFlightRequest, error: GroupSdkError) -> list[Action]:
        if flight.api in JOINING:
            return self._rebalance.unsent(flight, error)
        if flight.api is not ApiKey.LEAVE_GROUP:
            self.member.fail(error)
        else:
            self._leaving.forget()
        return []

    @override
    def coordinator_lost(
        self, flights: tuple[InFlightRequest, ...], error: GroupSdkError
    ) -> list[Action]:
        actions: list[Action] = []
        self._unconfirmed_ms = None
        for flight in flights:
            if flight.is_one_of(*JOINING):
                actions += self._rebalance.unanswered(flight, error)
        return actions

    @override
    def call_deadlines(self) -> list[Deadline]:
        """Return when possession lapses while the caller is asked to prepare a join, or does."""
        until_ms = self.member.heartbeat.possession.until_ms
        prepares = isinstance(self.member.call, PrepareJoin)
        return [(until_ms, self._rebalance.lapse)] if prepares and until_ms is not None else []

    @override
    def deadlines(self, *, can_call: bool) -> list[Deadline]:
        rejoin = self._rebalance.rejoin
        if not can_call or not rejoin.needed:
            return []
        if not JOINING.isdisjoint(self.member.requests.summary.apis):
            return []
        return [(rejoin.retry_at_ms, self._rebalance.start)]

    @override
    def heartbeat(self) -> HeartbeatRequest | SyncGroupRequest:
        member = self.member
        if (
            self._unconfirmed_ms is not None
            and member.state is MemberState.STABLE
            and member.heartbeat.possession.lapsed(member.now_ms)
        ):
            return self._rebalance.question()
        return heartbeat_request(member.config, member.generation)
