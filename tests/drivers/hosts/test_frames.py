"""Test the frames between a member's process and its child."""

import pickle
from dataclasses import replace
from typing import Any

import pytest

from groupsdk.drivers.hosts import frames
from groupsdk.drivers.hosts.frames import (
    Asked,
    Ended,
    FrameReader,
    Logged,
    MetricsAsked,
    MetricsTold,
    Shown,
    Start,
    Told,
    ViewReceiver,
    ViewSender,
    encode,
)
from groupsdk.error_code import ErrorCode
from groupsdk.errors import BootstrapError, FrameError, GroupSdkError, broker_error
from groupsdk.member.actions import AssignGroup, CompleteJoin, PrepareJoin
from groupsdk.member.events import (
    CallFailed,
    CloseRequested,
    FailureRaised,
    GroupAssigned,
    JoinDelivered,
    JoinPrepared,
    LeaveRequested,
    Polled,
    RejoinRequested,
)
from groupsdk.member.recorder import RebalanceRecorder
from groupsdk.member.view import Failure
from groupsdk.types import GroupMembers, GroupMembershipOperation, ProtocolMetadata
from groupsdk.wire.messages.offsets import OffsetCommitRequest, OffsetCommitResponse
from tests.drivers.views import GENERATION, view
from tests.drivers.virtual import config


MESSAGES: list[Any] = [
    Asked(3, OffsetCommitRequest(group_id="g", generation_id_or_member_epoch=4)),
    Told(3, OffsetCommitResponse(throttle_time_ms=5)),
    Start(config(group_instance_id="static", heartbeat="process"), 1, 20),
    MetricsAsked(7),
    Polled(),
    RejoinRequested("new metadata"),
    JoinPrepared(1, "work", (ProtocolMetadata("v0", b"\0\xff"),)),
    GroupAssigned(2, {"a": b"1", "b": b""}),
    JoinDelivered(3),
    CallFailed(4, "ValueError"),
    FailureRaised(5),
    LeaveRequested("enough"),
    CloseRequested(GroupMembershipOperation.LEAVE_GROUP, 1_000, "test"),
    Shown(view(call=PrepareJoin(1, GENERATION, True)), False, False),
    Shown(view(call=CompleteJoin(1, GENERATION, "v0", b"mine")), True, True),
    Shown(
        view(
            call=AssignGroup(
                1, GENERATION, "a", "v0", GroupMembers({"a": b"1"}, {"a": "static"}), False
            )
        ),
        False,
        False,
    ),
    MetricsTold(7, {"join-total": 1.0, "last-heartbeat-seconds-ago": float("inf")}),
    Logged("groupsdk.x", 20, "text", 1.5, "MainThread", "/x.py", 3, "f", None),
    Ended("ValueError: bug", {"join-total": 1.0}),
]


@pytest.mark.parametrize("message", MESSAGES, ids=lambda message: type(message).__name__)
def test_every_message_arrives_as_it_was_sent(message: Any) -> None:
    assert list(FrameReader().feed(encode(message))) == [message]


@pytest.mark.parametrize("size", [1, 2, 3, 7, 4096, 10**6])
def test_messages_are_put_together_from_pieces_of_any_size(size: int) -> None:
    data = b"".join(encode(message) for message in MESSAGES)
    reader = FrameReader()
    received: list[object] = []
    for start in range(0, len(data), size):
        received += reader.feed(data[start : start + size])
    assert received == MESSAGES


def test_second_message_of_a_chunk_waits_for_the_next_call() -> None:
    reader = FrameReader()
    feeding = reader.feed(encode(MetricsAsked(1)) + encode(MetricsAsked(2)))
    assert next(feeding) == MetricsAsked(1)
    del feeding  # as who wants only the first one does
    assert list(reader.feed(b"")) == [MetricsAsked(2)]


def test_a_length_that_cannot_be_right_is_refused() -> None:
    with pytest.raises(FrameError, match="a frame of 4294967295 bytes, more than"):
        list(FrameReader().feed(b"\xff\xff\xff\xff"))


def test_a_message_that_is_too_large_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(frames, "MAX_FRAME_BYTES", 10)
    with pytest.raises(FrameError, match=r"RejoinRequested of \d+ bytes, more than 10"):
        encode(RejoinRequested("a longer reason"))


def test_errors_arrive_as_what_they_are() -> None:
    errors: list[GroupSdkError] = [
        broker_error(ErrorCode.FENCED_INSTANCE_ID, "JoinGroup of group 'g'"),
        broker_error(1234, "Heartbeat"),
        BootstrapError("no broker could be reached"),
    ]
    for error in errors:
        (shown,) = FrameReader().feed(encode(Shown(view(failure=Failure(1, error)), True, True)))
        assert isinstance(shown, Shown)
        assert shown.view.failure is not None
        received = shown.view.failure.error
        assert type(received) is type(error)
        assert str(received) == str(error)
        assert vars(received) == vars(error)


def test_secrets_do_not_show_in_what_starts_the_child() -> None:
    start = Start(
        config(
            security_protocol="SASL_PLAINTEXT",
            sasl_mechanism="PLAIN",
            sasl_username="alice",
            sasl_password="s3cr3t",
        ),
        1,
        20,
    )
    assert "s3cr3t" not in repr(start)
    (received,) = FrameReader().feed(encode(start))
    assert received == start  # the password with it


def test_a_view_carries_only_what_the_other_side_lacks() -> None:
    recorder = RebalanceRecorder()
    sender, receiver = ViewSender(), ViewReceiver()
    call = PrepareJoin(1, GENERATION, True)
    views = [view()]
    for number in range(3):
        recorder.begin(f"reason {number}", GENERATION, 0)
        views.append(view(call=call, assignment_epoch=number, events=recorder.events))
        recorder.fail("test", 1)
        views.append(view(assignment_epoch=number, events=recorder.events))
        views.append(view(assignment_epoch=number, events=recorder.events, trouble="x"))
    sent = [sender.shown(each) for each in views]
    assert [each.same_events for each in sent] == [
        *(True, True, False, True),
        *(True, False, True),
        *(True, False, True),
    ]
    assert sent[1].view.call == call
    assert sent[3].view.events == ()
    received = [receiver.view(pickle.loads(pickle.dumps(each))) for each in sent]
    assert received == views


def test_a_call_that_stands_is_sent_once_and_stays_the_same_object() -> None:
    sender, receiver = ViewSender(), ViewReceiver()
    large = AssignGroup(1, GENERATION, "a", "v0", GroupMembers({"a": bytes(10**6)}), False)
    frames_sent = [
        encode(sender.shown(view(call=large, assignment_epoch=number))) for number in range(5)
    ]
    assert len(frames_sent[0]) > 10**6
    assert all(len(frame) < 2_000 for frame in frames_sent[1:])
    calls = []
    for frame in frames_sent:
        (shown,) = FrameReader().feed(frame)
        assert isinstance(shown, Shown)
        calls.append(receiver.view(shown).call)
    assert all(call is calls[0] for call in calls)
    assert calls[0] == large
    gone = receiver.view(sender.shown(replace(view(), call=None)))
    assert gone.call is None
