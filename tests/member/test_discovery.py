"""Test when the coordinator is looked for."""

from random import Random

import pytest

from groupsdk.errors import DisconnectedError
from groupsdk.member.actions import FindCoordinator, StopLooking, Wake
from groupsdk.member.coordinator_access import CoordinatorAccess, Discovery
from groupsdk.member.events import LeaveRequested, LookupDelayed
from groupsdk.member.member import Member
from groupsdk.settings.backoff import ExponentialBackoff
from groupsdk.settings.config import MemberConfig
from tests.member.driving import NODE, SETTINGS, Driver


@pytest.fixture
def discovery() -> Discovery:
    return Discovery(ExponentialBackoff(100, 1_000, jitter=0), Random(0))


def test_the_first_lookup_is_due_at_once(discovery: Discovery) -> None:
    assert discovery.retry_at_ms == 0
    assert discovery.retry_at_ms == 0


def test_one_lookup_at_a_time(discovery: Discovery) -> None:
    discovery.started()
    assert discovery.retry_at_ms is None
    assert discovery.retry_at_ms is None


def test_none_is_due_while_the_coordinator_is_known() -> None:
    member = Member(MemberConfig.of(SETTINGS), Random(0))
    access = CoordinatorAccess(member)
    assert access.deadlines(wanted=True)
    access.found(NODE)
    assert member.coordinator == NODE
    assert access.deadlines(wanted=True) == []


def test_a_failed_lookup_backs_off(discovery: Discovery) -> None:
    waits = []
    for _ in range(5):
        discovery.started()
        discovery.failed(1_000)
        retry_at_ms = discovery.retry_at_ms
        assert retry_at_ms is not None
        waits.append(retry_at_ms - 1_000)
    assert waits == [100, 200, 400, 800, 1_000]


def test_the_first_loss_is_free_and_those_after_it_back_off_until_an_answer(
    discovery: Discovery,
) -> None:
    def wait_after_loss() -> int:
        discovery.ended()
        discovery.lost(1_000)
        assert discovery.retry_at_ms is not None
        return discovery.retry_at_ms - 1_000

    assert [wait_after_loss() for _ in range(3)] == [0, 200, 400]
    discovery.answered()
    assert wait_after_loss() == 0


def test_refused_credentials_are_tried_ever_more_rarely_until_they_are_others(
    discovery: Discovery,
) -> None:
    """Some brokers lock a user out after some attempts, and each retry would ask another node."""

    def wait() -> int:
        assert discovery.retry_at_ms is not None
        return discovery.retry_at_ms - 1_000

    waits = []
    for _ in range(10):
        discovery.failed(1_000, refused=True)
        waits.append(wait())
        # that one node accepts them is no sign that the coordinator will
        discovery.ended()
        discovery.lost(1_000, refused=True)
        waits.append(wait())
    assert waits[:9] == [100, 200, 400, 800, 1_600, 3_200, 6_400, 12_800, 25_600]
    assert set(waits[9:]) == {30_000}
    discovery.credentials_changed(1_000)
    assert discovery.retry_at_ms == 1_000
    discovery.failed(1_000, refused=True)
    assert wait() == 100
    discovery.answered()
    discovery.ended()
    discovery.lost(1_000, refused=True)
    assert wait() == 0, "a token that has expired is replaced at once"


def test_a_lookup_that_was_given_up_may_start_again(discovery: Discovery) -> None:
    discovery.started()
    discovery.ended()
    assert discovery.retry_at_ms == 0


def test_nobody_is_asked_for_the_coordinator_of_a_member_that_has_left(driver: Driver) -> None:
    driver.poll()
    assert [type(each) for each in driver.handle(LeaveRequested("enough"))] == [StopLooking, Wake]
    assert not driver.looking
    driver.poll()
    assert len(driver.actions(FindCoordinator)) == 2, "the next poll joins again"


def test_nobody_is_asked_for_the_coordinator_of_a_caller_that_stays_away(driver: Driver) -> None:
    driver.poll()
    driver.handle(LookupDelayed(DisconnectedError("refused")))
    driver.advance(driver.config.poll_interval_ms - 1)
    assert driver.actions(StopLooking) == []
    driver.advance(1)
    assert len(driver.actions(StopLooking)) == 1
    driver.advance(10 * driver.config.poll_interval_ms)
    assert not driver.looking


def test_a_member_that_may_still_be_saved_is_looked_after_until_its_caller_is_late(
    member: Driver,
) -> None:
    member.disconnect()
    assert member.looking
    member.advance(member.config.poll_interval_ms)
    assert len(member.actions(StopLooking)) == 1
