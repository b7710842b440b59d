"""Throw anything at the machine, in any order: it never raises, never spins, and its memory is bounded."""

from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import given, settings, strategies as st

from groupsdk.error_code import ErrorCode
from groupsdk.errors import (
    AuthenticationError,
    DisconnectedError,
    FencedInstanceIdError,
    GroupSdkError,
)
from groupsdk.member import events
from groupsdk.member.actions import FindCoordinator, Node, Send
from groupsdk.member.recorder import MAX_EVENTS
from groupsdk.member.state import MemberState
from groupsdk.types import GroupMembershipOperation, ProtocolMetadata
from groupsdk.wire.messages.groups import (
    HeartbeatResponse,
    JoinGroupResponse,
    JoinGroupResponseMember,
    LeaveGroupResponse,
    MemberResponse,
    SyncGroupResponse,
)
from groupsdk.wire.schema import Response
from tests.member.driving import Driver


pytestmark = pytest.mark.usefixtures("quiet")
CODES = st.sampled_from(
    # those that mean something to a member, most of the time
    [ErrorCode.NONE] * 6 + [14, 15, 16, 22, 25, 27, 30, 79, 81, 82]
) | st.integers(-(2**15), 2**15 - 1)
IDS = st.sampled_from(["m-1", "m-2", "", "m-é"])
NAMES = st.sampled_from(["even", "even", "odd", "", None])
TYPES = st.sampled_from(["work", "work", "consumer", None])
GENERATIONS = st.sampled_from([1, 2, 3, 0, -1, -7, 2**31 - 1])
BLOBS = st.binary(max_size=4)
ERRORS = st.sampled_from(
    [DisconnectedError("gone"), AuthenticationError("refused"), FencedInstanceIdError(82)]
)
SHOWN = st.builds(JoinGroupResponseMember, member_id=IDS, metadata=BLOBS)
RESPONSES: dict[type[Response], st.SearchStrategy[Any]] = {
    JoinGroupResponse: st.builds(
        JoinGroupResponse,
        error_code=CODES,
        generation_id=GENERATIONS,
        protocol_type=TYPES,
        protocol_name=NAMES,
        leader=IDS,
        skip_assignment=st.booleans(),
        member_id=IDS,
        members=st.lists(SHOWN, max_size=3).map(tuple),
    ),
    SyncGroupResponse: st.builds(
        SyncGroupResponse,
        error_code=CODES,
        protocol_type=TYPES,
        protocol_name=NAMES,
        assignment=BLOBS,
    ),
    HeartbeatResponse: st.builds(HeartbeatResponse, error_code=CODES),
    LeaveGroupResponse: st.builds(
        LeaveGroupResponse,
        error_code=CODES,
        members=st.lists(st.builds(MemberResponse, member_id=IDS, error_code=CODES)).map(tuple),
    ),
}
OFFER = (ProtocolMetadata("even", b""), ProtocolMetadata("any", b""))


class _Fuzzer:
    def __init__(self, data: st.DataObject) -> None:
        self.draw = data.draw
        instance_id = self.draw(st.sampled_from([None, "i"]))
        self.driver = Driver(
            group_instance_id=instance_id,
            session_timeout_ms=self.draw(st.sampled_from([3_000, 10_000])),
            heartbeat_interval_ms=self.draw(st.sampled_from([1, 1_000, 2_999])),
            rebalance_timeout_ms=self.draw(st.sampled_from([100, 500, 60_000])),
            max_poll_interval_ms=self.draw(st.sampled_from([None, 1_000, 60_000])),
            request_timeout_ms=self.draw(st.sampled_from([1, 5_000])),
            retry_backoff_ms=self.draw(st.sampled_from([1, 100])),
        )

    def poll(self) -> None:
        self.driver.poll()

    def fail_call(self) -> None:
        if self.driver.view.call is not None:
            self.driver.handle(events.CallFailed(self.driver.view.call.call_id, "KeyError"))

    def time(self) -> None:
        self.driver.advance(self.draw(st.sampled_from([0, 1, 99, 1_000, 3_000, 70_000])))

    def disconnect(self) -> None:
        self.driver.disconnect(self.draw(ERRORS))

    def rejoin(self) -> None:
        self.driver.handle(events.RejoinRequested(self.draw(st.text(max_size=3))))

    def leave(self) -> None:
        self.driver.handle(events.LeaveRequested("enough"))

    def tell(self) -> None:
        if self.driver.view.failure is not None:
            self.driver.raise_failure()

    def timer(self) -> None:
        self.driver.handle(events.TimerFired())

    def answer(self) -> None:
        """Answer any of the outstanding requests, not the oldest one first."""
        if not self.driver.outstanding:
            return
        send = self.draw(st.sampled_from(self.driver.outstanding))
        self.driver.outstanding.remove(send)
        response = self.draw(RESPONSES[send.request.response_class])
        self.driver.handle(events.ResponseReceived(send.request_id, response))

    def call(self) -> None:
        call = self.driver.view.call
        call_id = self.draw(st.sampled_from([0, 1, 2])) if call is None else call.call_id
        plan = self.draw(st.dictionaries(IDS, BLOBS, max_size=2))
        answers: list[events.CallerEvent] = [
            events.JoinPrepared(call_id, "work", OFFER),
            events.GroupAssigned(call_id, plan),
            events.JoinDelivered(call_id),
        ]
        kinds = {"PrepareJoin": 0, "AssignGroup": 1, "CompleteJoin": 2}
        self.driver.handle(answers[kinds.get(type(call).__name__, 0)])

    def lookup(self) -> None:
        if not self.driver.looking:
            return
        error: GroupSdkError | None = self.draw(st.none() | ERRORS)
        if error is not None:
            self.driver.lookup_failed(error)
        else:
            self.driver.found(Node(self.draw(st.integers(1, 2)), "broker", 9092))

    def stale(self) -> None:
        """Answer any request there ever was, once more."""
        send = self._any_send()
        if send is not None:
            response = self.draw(RESPONSES[send.request.response_class])
            self.driver.handle(events.ResponseReceived(send.request_id, response))

    def refuse(self) -> None:
        send = self._any_send()
        if send is not None:
            self.driver.handle(events.RequestRefused(send.request_id, DisconnectedError("no")))

    def _any_send(self) -> Send | None:
        sends = [action for _, action in self.driver.log if isinstance(action, Send)]
        if not sends:
            return None
        send: Send = self.draw(st.sampled_from(sends))
        self.driver.outstanding = [each for each in self.driver.outstanding if each is not send]
        return send


Step = Callable[[_Fuzzer], None]
COMMON: tuple[Step, ...] = (
    _Fuzzer.poll,
    _Fuzzer.answer,
    _Fuzzer.call,
    _Fuzzer.time,
    _Fuzzer.lookup,
)
RARE: tuple[Step, ...] = (
    _Fuzzer.fail_call,
    _Fuzzer.disconnect,
    _Fuzzer.rejoin,
    _Fuzzer.leave,
    _Fuzzer.tell,
    _Fuzzer.timer,
    _Fuzzer.stale,
    _Fuzzer.refuse,
)
STEPS = st.sampled_from((*COMMON * 4, *RARE))


@settings(max_examples=400, deadline=None)
@given(data=st.data())
def test_any_sequence_of_events(data: st.DataObject) -> None:
    fuzzer = _Fuzzer(data)
    driver = fuzzer.driver
    for step in data.draw(st.lists(STEPS, max_size=60)):
        step(fuzzer)
        view = driver.view
        assert (view.state is MemberState.STABLE) <= (view.generation.generation_id >= 0)
        assert (view.state is MemberState.UNJOINED) <= view.generation.is_reset
        assert len(driver.machine._member.requests._in_flight) < 20
        assert len(view.events) <= MAX_EVENTS
        assert driver.wake_at_ms is None or driver.wake_at_ms > driver.now_ms - 1
    # Left to itself it calms down, and it can always be closed.
    driver.advance(200_000)
    before = len(driver.actions(FindCoordinator))
    driver.advance(60_000)
    assert len(driver.actions(FindCoordinator)) - before < 100
    driver.handle(events.CloseRequested(GroupMembershipOperation.DEFAULT, 500, "done"))
    driver.advance(500)
    assert driver.stopped


def test_a_long_life_takes_no_memory() -> None:
    driver = Driver()
    for round_ in range(1, 500):
        driver.join(round_, f"m-{round_}")
        driver.handle(events.LeaveRequested("round"))
    assert len(driver.machine._member.requests._in_flight) == 499, "leaves without an answer"
    driver.advance(40_000)
    assert not driver.machine._member.requests._in_flight
    assert len(driver.view.events) == MAX_EVENTS
