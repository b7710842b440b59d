"""Test that a static member's leave reaches its coordinator, whatever happens to it, and that a dynamic one's costs no wait."""

import pytest

from groupsdk.error_code import ErrorCode
from groupsdk.errors import UnsupportedVersionError
from groupsdk.member.actions import FindCoordinator, Node
from groupsdk.member.events import CloseRequested, Event, LeaveRequested, RequestRefused
from groupsdk.types import GroupMembershipOperation
from tests.member.driving import MEMBER_ID, Driver, LeaveGroupRequest, left


OTHER = Node(2, "broker-2", 9092)
LEAVE = LeaveRequested("enough")
CLOSE = CloseRequested(GroupMembershipOperation.LEAVE_GROUP, 30_000, "enough")
WAYS = pytest.mark.parametrize("way", [LEAVE, CLOSE], ids=["leave", "close"])


@pytest.fixture
def static() -> Driver:
    """A static member in its generation."""
    driver = Driver(group_instance_id="i")
    driver.join()
    return driver


def _heard(driver: Driver) -> None:
    """Let the coordinator hear of it, after which nothing more is to come."""
    driver.answer(left())
    before = list(driver.log)
    driver.advance(200_000)
    assert not driver.looking
    assert [
        action for _, action in driver.log[len(before) :] if isinstance(action, FindCoordinator)
    ] == []
    assert {each.members[0].member_id for each in driver.sent(LeaveGroupRequest)} == {MEMBER_ID}


@WAYS
@pytest.mark.parametrize(
    "code",
    [ErrorCode.NOT_COORDINATOR, ErrorCode.COORDINATOR_NOT_AVAILABLE],
    ids=lambda code: code.name,
)
def test_leave_that_reached_another_broker_goes_to_the_coordinator(
    static: Driver, way: Event, code: ErrorCode, caplog: pytest.LogCaptureFixture
) -> None:
    static.handle(way)
    with caplog.at_level("INFO"):
        static.answer(left(code))
    assert sum(code.name in message for message in caplog.messages) == 1
    static.advance(1_000)
    static.found(OTHER)
    static.advance(1_000)
    assert len(static.sent(LeaveGroupRequest)) == 2
    _heard(static)


@WAYS
def test_leave_to_a_coordinator_that_loads_the_group_is_repeated(
    static: Driver, way: Event
) -> None:
    static.handle(way)
    static.answer(left(ErrorCode.COORDINATOR_LOAD_IN_PROGRESS))
    static.advance(1_000)
    assert len(static.sent(LeaveGroupRequest)) == 2
    _heard(static)


@WAYS
def test_leave_that_went_down_with_its_connection_is_repeated(static: Driver, way: Event) -> None:
    static.handle(way)
    static.disconnect()
    static.advance(1_000)
    static.found()
    assert len(static.sent(LeaveGroupRequest)) == 2
    _heard(static)


@WAYS
def test_leave_without_a_coordinator_waits_for_one(static: Driver, way: Event) -> None:
    static.disconnect()
    static.handle(way)
    static.advance(1_000)
    assert static.sent(LeaveGroupRequest) == []
    static.found()
    assert len(static.sent(LeaveGroupRequest)) == 1
    _heard(static)


def test_closing_waits_for_a_leave_of_before(static: Driver) -> None:
    static.handle(LEAVE)
    static.disconnect()
    static.handle(CloseRequested(GroupMembershipOperation.DEFAULT, 30_000, "drained"))
    assert not static.stopped
    static.found()
    static.answer(left())
    assert static.stopped


def test_closing_ends_in_time_though_no_coordinator_is_found(static: Driver) -> None:
    static.disconnect()
    static.handle(CLOSE)
    static.advance(29_999)
    assert not static.stopped
    static.advance(1)
    assert static.stopped


def test_leave_is_forgotten_once_the_group_has_noticed_by_itself(static: Driver) -> None:
    static.handle(LEAVE)
    static.disconnect()
    config = static.config
    static.advance(config.session_timeout_ms + config.rebalance_timeout_ms)
    assert not static.looking
    assert len(static.sent(LeaveGroupRequest)) == 1


def test_member_that_joins_again_does_not_leave_any_more(static: Driver) -> None:
    static.handle(LEAVE)
    static.disconnect()
    static.join(2, "m-2")
    sent = len(static.sent(LeaveGroupRequest))
    static.disconnect()
    static.advance(1_000)
    static.found()
    assert len(static.sent(LeaveGroupRequest)) == sent
    assert static.view.generation.member_id == "m-2"


def test_leave_that_cannot_be_sent_is_not_repeated(static: Driver) -> None:
    static.handle(LEAVE)
    (send,) = static.outstanding
    static.handle(RequestRefused(send.request_id, UnsupportedVersionError("too old")))
    static.advance(200_000)
    assert len(static.sent(LeaveGroupRequest)) == 1


@pytest.mark.parametrize("lost", [True, False])
def test_leave_of_a_dynamic_member_is_sent_once(member: Driver, lost: bool) -> None:
    member.handle(LEAVE)
    if lost:
        member.disconnect()
    else:
        member.answer(left(ErrorCode.NOT_COORDINATOR))
    member.advance(200_000)
    assert len(member.sent(LeaveGroupRequest)) == 1
    assert not member.looking
