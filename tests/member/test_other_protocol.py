"""Test that another group protocol is another `Membership`, around which the machine stays the same."""

from collections.abc import Mapping
from random import Random
from typing import ClassVar, Final

import pytest
from typing_extensions import override

from groupsdk.error_code import ErrorCode
from groupsdk.errors import BrokerError, GroupSdkError
from groupsdk.member.actions import (
    Action,
    AnswerCaller,
    Disconnect,
    FindCoordinator,
    Send,
    Stop,
    Wake,
)
from groupsdk.member.classic.replies import CALLER_REQUEST_REPLIES, ClassicReaction, reply_to
from groupsdk.member.events import (
    CallerRequest,
    CloseRequested,
    CoordinatorFound,
    Polled,
    ResponseReceived,
    TimerFired,
)
from groupsdk.member.machine import MembershipMachine
from groupsdk.member.member import Deadline, Member
from groupsdk.member.membership import Answer, InGroupResponse, Membership, Reaction, Reply
from groupsdk.member.requests import InFlightRequest
from groupsdk.member.state import MemberState
from groupsdk.settings.config import MemberConfig
from groupsdk.types import Generation, GroupMembershipOperation
from groupsdk.wire.messages.groups import (
    HeartbeatRequest,
    HeartbeatResponse,
    LeaveGroupRequest,
    LeaveGroupResponse,
)
from groupsdk.wire.messages.offsets import OffsetCommitRequest, OffsetCommitResponse
from groupsdk.wire.schema import ApiKey
from tests.member.driving import NODE, SETTINGS


NOW_MS: Final = 1_000_000


class HeartbeatOnly(Membership):
    """A protocol without rebalances: a member is one of the group as soon as a heartbeat is accepted."""

    in_group_apis: ClassVar[frozenset[ApiKey]] = frozenset({ApiKey.HEARTBEAT})
    heartbeat_api: ClassVar[ApiKey] = ApiKey.HEARTBEAT
    leave_api: ClassVar[ApiKey] = ApiKey.LEAVE_GROUP
    caller_replies: ClassVar[Mapping[ErrorCode, Reply]] = CALLER_REQUEST_REPLIES
    rediscover: ClassVar[Reaction] = ClassicReaction.REDISCOVER
    joining = False

    def __init__(self) -> None:
        super().__init__(Member(MemberConfig.of(SETTINGS), Random(0)))
        self.member.generation = Generation(1, "m-1", None)

    @override
    def ask_rejoin(self, reason: str, *, hand_over: bool = False) -> None:
        pass

    @override
    def answered(self, answer: Answer) -> list[Action]:
        return []

    @override
    def call_failed(self, call_id: int, description: str) -> None:
        pass

    @override
    def leave(self, operation: GroupMembershipOperation, reason: str) -> list[Action]:
        self.member.state = MemberState.UNJOINED
        self.member.heartbeat.forget()
        return [self.member.send(LeaveGroupRequest("g"), ApiKey.LEAVE_GROUP, 1_000)]

    @override
    def leave_for_poll_timeout(self, reason: str) -> list[Action]:
        return self.leave(GroupMembershipOperation.DEFAULT, reason)

    @override
    def is_of_membership(self, commit: OffsetCommitRequest) -> bool:
        return True

    @override
    def reply_to(self, api: ApiKey, code: int) -> Reply:
        return reply_to(api, code)

    @override
    def on_answer(
        self, flight: InFlightRequest, response: InGroupResponse, reply: Reply | None
    ) -> list[Action] | None:
        if reply is not None:
            return None
        self.member.heartbeat.accepted(self.member.now_ms, flight.sent_ms)
        return []

    @override
    def on_other_answer(self, response: object) -> list[Action]:
        return []

    @override
    def describe(self, flight: InFlightRequest, reply: Reply, code: int, response: object) -> str:
        return flight.api.name

    @override
    def carry_out(
        self, reaction: Reaction, flight: InFlightRequest, error: BrokerError, why: str
    ) -> list[Action]:
        return []

    @override
    def unsent(self, flight: InFlightRequest, error: GroupSdkError) -> list[Action]:
        return []

    @override
    def deadlines(self, *, can_call: bool) -> list[Deadline]:
        starts = can_call and self.member.state is MemberState.UNJOINED
        return [(self.member.now_ms, self._start)] if starts else []

    def _start(self) -> list[Action]:
        self.member.state = MemberState.STABLE
        self.member.heartbeat.enable(self.member.now_ms)
        self.member.heartbeat.hurry(self.member.now_ms)
        return []

    @override
    def heartbeat(self) -> HeartbeatRequest:
        return HeartbeatRequest("g", 1, "m-1")


@pytest.fixture
def machine() -> MembershipMachine:
    machine = MembershipMachine(HeartbeatOnly())
    assert FindCoordinator() in machine.handle(Polled(), NOW_MS)
    return machine


def sent_by(actions: list[Action]) -> Send:
    return next(each for each in actions if isinstance(each, Send))


def join(machine: MembershipMachine) -> None:
    send = sent_by(machine.handle(CoordinatorFound(NODE), NOW_MS))
    machine.handle(ResponseReceived(send.request_id, HeartbeatResponse()), NOW_MS + 10)


def test_a_third_protocol_heartbeats_and_holds_until_its_session_ends(
    machine: MembershipMachine,
) -> None:
    join(machine)
    assert machine.view.state is MemberState.STABLE
    assert machine.view.valid_until_ms == NOW_MS + 10_000
    send = sent_by(machine.handle(TimerFired(), NOW_MS + 3_000))
    assert send.request == HeartbeatRequest("g", 1, "m-1")


def test_a_third_protocol_looks_for_a_coordinator_that_moved(machine: MembershipMachine) -> None:
    join(machine)
    send = sent_by(machine.handle(TimerFired(), NOW_MS + 3_000))
    moved = HeartbeatResponse(error_code=ErrorCode.NOT_COORDINATOR)
    actions = machine.handle(ResponseReceived(send.request_id, moved), NOW_MS + 3_000)
    assert actions[:2] == [Disconnect(), FindCoordinator()]
    assert machine.view.coordinator is None


def test_a_third_protocol_commits_and_closes(machine: MembershipMachine) -> None:
    join(machine)
    commit = sent_by(machine.handle(CallerRequest(7, OffsetCommitRequest("g")), NOW_MS + 20))
    answer = OffsetCommitResponse()
    assert machine.handle(ResponseReceived(commit.request_id, answer), NOW_MS + 30)[0] == (
        AnswerCaller(7, answer)
    )
    close = CloseRequested(GroupMembershipOperation.DEFAULT, 5_000, "bye")
    left = sent_by(machine.handle(close, NOW_MS + 40))
    actions = machine.handle(ResponseReceived(left.request_id, LeaveGroupResponse()), NOW_MS + 50)
    assert actions == [Stop(), Wake(None)]
    assert machine.view.stopped
