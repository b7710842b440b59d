"""Drive one membership machine of either protocol by hand, in virtual time.

There is no group: the test makes each answer, also those that no coordinator would give.
"""

from random import Random
from typing import Any, TypeVar

from groupsdk.error_code import ErrorCode
from groupsdk.errors import DisconnectedError, GroupSdkError
from groupsdk.member.actions import (
    Action,
    AnswerCaller,
    AssignGroup,
    Call,
    CompleteJoin,
    Disconnect,
    FindCoordinator,
    Node,
    PrepareJoin,
    Send,
    Stop,
    StopLooking,
    Wake,
)
from groupsdk.member.classic.membership import ClassicMembership
from groupsdk.member.events import (
    CoordinatorFound,
    Disconnected,
    Event,
    FailureRaised,
    GroupAssigned,
    JoinDelivered,
    JoinPrepared,
    LookupFailed,
    Polled,
    ResponseReceived,
    TimerFired,
)
from groupsdk.member.machine import MembershipMachine
from groupsdk.member.membership import Membership
from groupsdk.member.requests import CoordinatorRequest, MembershipRequest
from groupsdk.member.state import MemberState
from groupsdk.member.view import MemberView
from groupsdk.settings.config import MemberConfig
from groupsdk.types import ProtocolMetadata
from groupsdk.wire.messages.groups import (
    HeartbeatRequest,
    HeartbeatResponse,
    JoinGroupRequest,
    JoinGroupResponse,
    JoinGroupResponseMember,
    LeaveGroupRequest,
    LeaveGroupResponse,
    SyncGroupRequest,
    SyncGroupResponse,
)
from groupsdk.wire.schema import Response


NODE = Node(1, "broker-1", 9092)
PROTOCOL_TYPE = "work"
PROTOCOL_NAME = "even"
MEMBER_ID = "m-1"
LEADER_ID = "m-0"
SETTINGS: dict[str, Any] = {
    "bootstrap_servers": "broker-1:9092",
    "group_id": "g",
    "session_timeout_ms": 10_000,
    "heartbeat_interval_ms": 3_000,
    "rebalance_timeout_ms": 60_000,
    "request_timeout_ms": 40_000,
    "retry_backoff_ms": 100,
    "retry_backoff_max_ms": 1_000,
}
"""Those of Kafka's own coordinator tests."""

RequestT = TypeVar("RequestT", bound=MembershipRequest | CoordinatorRequest)
CallT = TypeVar("CallT", PrepareJoin, AssignGroup, CompleteJoin)


class MachineDriver:
    """A machine, a clock, and a record of what the machine asked for.

    Nothing happens by itself but the timer, which `advance` fires: what the caller, the network and the
    coordinator do is up to the test.
    """

    def __init__(self, membership: Membership, now_ms: int = 1_000_000) -> None:
        self.machine = MembershipMachine(membership)
        self.now_ms = now_ms
        self.log: list[tuple[int, Action]] = []
        self.outstanding: list[Send] = []
        """What was sent over the present connection and has no answer."""
        self.looking = False
        self.stopped = False
        self.wake_at_ms: int | None = None
        self.wakes = 0
        self.told: dict[int, object] = {}
        """Ask id to the answer, or the error, that it came to."""

    # What happens.

    def handle(self, event: Event) -> list[Action]:
        """Let something happen now."""
        actions = self.machine.handle(event, self.now_ms)
        for action in actions:
            self.log.append((self.now_ms, action))
            match action:
                case FindCoordinator():
                    assert not self.looking, "a lookup is under way already"
                    self.looking = True
                case StopLooking():
                    assert self.looking, "there is no lookup to be stopped"
                    self.looking = False
                case Send():
                    self.outstanding.append(action)
                case Disconnect():
                    self.outstanding.clear()
                case Wake(at_ms):
                    self.wake_at_ms = at_ms
                case AnswerCaller(caller_request_id, answer):
                    assert caller_request_id not in self.told, "an ask is told one answer"
                    self.told[caller_request_id] = answer
                case Stop():
                    self.stopped = True
        return actions

    def advance(self, delta_ms: int) -> None:
        """Let time pass, firing the timer when it is due.

        A timer that keeps firing without time passing is the bug that burns a processor: it fails here.
        """
        until_ms = self.now_ms + delta_ms
        at_once = 0
        while self.wake_at_ms is not None and self.wake_at_ms <= until_ms:
            at_once = at_once + 1 if self.wake_at_ms <= self.now_ms else 0
            assert at_once < 10, "the machine spins"
            self.now_ms = max(self.now_ms, self.wake_at_ms)
            self.wake_at_ms = None
            self.wakes += 1
            self.handle(TimerFired())
        self.now_ms = until_ms

    def poll(self) -> None:
        self.handle(Polled())

    def found(self, node: Node = NODE) -> None:
        self.looking = False
        self.handle(CoordinatorFound(node))

    def disconnect(self, error: GroupSdkError | None = None) -> list[Action]:
        self.outstanding.clear()
        return self.handle(Disconnected(error or DisconnectedError("the connection broke")))

    def answer(self, response: Response) -> list[Action]:
        """Answer the oldest request that this can be an answer to."""
        for send in self.outstanding:
            if isinstance(response, send.request.response_class):
                self.outstanding.remove(send)
                return self.handle(ResponseReceived(send.request_id, response))
        raise AssertionError(f"nothing outstanding that {type(response).__name__} answers")

    def call(self, kind: type[CallT]) -> CallT:
        """Return the outstanding call, which has to be of this kind."""
        call: Call | None = self.machine.view.call
        assert isinstance(call, kind), f"outstanding is {call}"
        return call

    def raise_failure(self) -> GroupSdkError:
        """Give the caller the error that it is to raise."""
        failure = self.machine.view.failure
        assert failure is not None
        self.handle(FailureRaised(failure.failure_id))
        return failure.error

    # What was asked.

    def sent(self, kind: type[RequestT]) -> list[RequestT]:
        """Return all requests of this kind, oldest first."""
        return [
            action.request
            for _, action in self.log
            if isinstance(action, Send) and isinstance(action.request, kind)
        ]

    def sent_at(self, kind: type[MembershipRequest | CoordinatorRequest]) -> list[int]:
        """Return when requests of this kind were sent."""
        return [
            at_ms
            for at_ms, action in self.log
            if isinstance(action, Send) and isinstance(action.request, kind)
        ]

    def actions(self, kind: type) -> list[int]:
        """Return when actions of this kind were asked for."""
        return [at_ms for at_ms, action in self.log if isinstance(action, kind)]


class Driver(MachineDriver):
    """Drives a member of the classic protocol."""

    def __init__(
        self,
        now_ms: int = 1_000_000,
        *,
        config: MemberConfig | None = None,
        **settings: Any,
    ) -> None:
        self.config = config or MemberConfig.of(SETTINGS | settings)
        super().__init__(ClassicMembership(self.config, Random(0)), now_ms)

    def lookup_failed(self, error: GroupSdkError) -> None:
        self.looking = False
        self.handle(LookupFailed(error))

    # What the caller answers.

    def prepare(self, metadata: bytes = b"meta") -> None:
        call = self.call(PrepareJoin)
        offer = (ProtocolMetadata(PROTOCOL_NAME, metadata),)
        self.handle(JoinPrepared(call.call_id, PROTOCOL_TYPE, offer))

    def assign(self, plan: dict[str, bytes]) -> None:
        self.handle(GroupAssigned(self.call(AssignGroup).call_id, plan))

    def deliver(self) -> None:
        self.handle(JoinDelivered(self.call(CompleteJoin).call_id))

    # Whole passages.

    def start_join(self) -> JoinGroupRequest:
        """Bring a member with nothing under way to the point where its join is sent."""
        self.poll()
        if self.looking:
            self.found()
        self.prepare()
        return self.sent(JoinGroupRequest)[-1]

    def start_sync(self, generation: int = 1, member_id: str = MEMBER_ID) -> None:
        """Bring a member as a follower to the point where its sync is sent."""
        self.start_join()
        self.answer(joined(generation, member_id))

    def join(
        self, generation: int = 1, member_id: str = MEMBER_ID, assignment: bytes = b"mine"
    ) -> None:
        """Bring a member into a generation, as a follower."""
        self.start_sync(generation, member_id)
        self.answer(synced(assignment))
        self.deliver()
        assert self.view.state is MemberState.STABLE

    def complete(self) -> None:
        """Have the coordinator answer the sync, and the caller take the assignment up."""
        self.answer(synced())
        self.deliver()

    def refuse_join(self, error: int, member_id: str = "") -> None:
        """Bring a member to the point where its join is answered with an error."""
        self.start_join()
        self.answer(join_refused(error, member_id))

    def hear(self, error: int = ErrorCode.NONE) -> None:
        """Let the next heartbeat go out, at the interval, and answer it."""
        self.advance(3_000)
        self.answer(beaten(error))

    def lead(self, generation: int = 1, member_id: str = MEMBER_ID) -> None:
        """Bring a member as the leader to the point where it is asked for the plan."""
        self.start_join()
        self.answer(joined(generation, member_id, leader=member_id, members=(member_id, "m-9")))

    # What was asked.

    @property
    def view(self) -> MemberView:
        return self.machine.view

    def failure(self) -> GroupSdkError | None:
        """Return what the caller is to raise."""
        return None if self.view.failure is None else self.view.failure.error

    def state(self) -> MemberState:
        return self.view.state

    def looks_up(self) -> bool:
        return self.looking

    @property
    def metrics(self) -> dict[str, float]:
        return self.machine.metrics(self.now_ms)

    @property
    def active(self) -> bool:
        """Whether the member is a stable one with nothing under way."""
        return not self.view.joining and self.view.believes_at(self.now_ms)

    def pending(self, kind: type[MembershipRequest]) -> bool:
        """Tell whether a request of this kind waits for an answer on the present connection."""
        return any(isinstance(send.request, kind) for send in self.outstanding)


def joined(
    generation: int = 1,
    member_id: str = MEMBER_ID,
    *,
    leader: str = LEADER_ID,
    members: tuple[str, ...] = (),
    error: int = ErrorCode.NONE,
    protocol_type: str | None = PROTOCOL_TYPE,
    protocol_name: str | None = PROTOCOL_NAME,
    skip_assignment: bool = False,
) -> JoinGroupResponse:
    """An answer to JoinGroup, by default a follower's."""
    return JoinGroupResponse(
        error_code=error,
        generation_id=generation,
        protocol_type=protocol_type,
        protocol_name=protocol_name,
        leader=leader,
        skip_assignment=skip_assignment,
        member_id=member_id,
        members=tuple(
            JoinGroupResponseMember(member_id=each, metadata=each.encode()) for each in members
        ),
    )


def join_refused(error: int, member_id: str = "") -> JoinGroupResponse:
    """An answer to JoinGroup with an error."""
    return JoinGroupResponse(error_code=error, member_id=member_id, protocol_name=None)


def synced(
    assignment: bytes = b"mine",
    *,
    error: int = ErrorCode.NONE,
    protocol_type: str | None = PROTOCOL_TYPE,
    protocol_name: str | None = PROTOCOL_NAME,
) -> SyncGroupResponse:
    return SyncGroupResponse(
        error_code=error,
        protocol_type=protocol_type,
        protocol_name=protocol_name,
        assignment=b"" if error else assignment,
    )


def beaten(error: int = ErrorCode.NONE) -> HeartbeatResponse:
    return HeartbeatResponse(error_code=error)


def left(error: int = ErrorCode.NONE) -> LeaveGroupResponse:
    return LeaveGroupResponse(error_code=error)


__all__ = [
    "LEADER_ID",
    "MEMBER_ID",
    "NODE",
    "PROTOCOL_NAME",
    "PROTOCOL_TYPE",
    "SETTINGS",
    "Driver",
    "HeartbeatRequest",
    "JoinGroupRequest",
    "LeaveGroupRequest",
    "RequestT",
    "SyncGroupRequest",
    "beaten",
    "join_refused",
    "joined",
    "left",
    "synced",
]
