"""Tests Heartbeat, SyncGroup and LeaveGroup of classic groups."""

import logging
from typing import Any

import pytest

from groupsdk.error_code import ErrorCode
from groupsdk.wire.messages.groups import LeaveGroupRequest, MemberIdentity
from tests.broker.coordinator.group.driving import GROUP, QUICK, SESSION_MS, Driver, protocols


def test_heartbeats_keep_a_session_for_as_long_as_they_come(driver: Driver) -> None:
    (member,) = driver.stable()

    for _ in range(20):
        driver.pass_ms(SESSION_MS - 1)
        assert driver.heartbeat(member, 1) is ErrorCode.NONE


def test_they_keep_it_in_a_rebalance_too(driver: Driver) -> None:
    leader, follower = driver.stable(2)
    driver.join(follower, protocols=protocols("even", metadata=b"new"))

    for _ in range(5):
        driver.pass_ms(SESSION_MS - 1)
        assert driver.heartbeat(leader, 1) is ErrorCode.REBALANCE_IN_PROGRESS


def test_one_that_is_refused_keeps_nothing(driver: Driver) -> None:
    (member,) = driver.stable()
    driver.pass_ms(SESSION_MS - 1)

    assert driver.heartbeat(member, 2) is ErrorCode.ILLEGAL_GENERATION
    driver.pass_ms(101)

    assert driver.heartbeat(member, 1) is ErrorCode.UNKNOWN_MEMBER_ID


def test_a_heartbeat_needs_the_name_of_a_group() -> None:
    assert Driver().heartbeat("m", 1, group_id="") is ErrorCode.INVALID_GROUP_ID


def test_an_id_that_was_only_handed_out_is_no_member(driver: Driver) -> None:
    assert driver.heartbeat(driver.take_id(), 0) is ErrorCode.UNKNOWN_MEMBER_ID


def completing(members: int = 2) -> tuple[Driver, list[str]]:
    """A generation whose leader, the first member, has not assigned."""
    driver = Driver(QUICK)
    ids = [driver.take_id() for _ in range(members)]
    for each in ids:
        driver.join(each)
    driver.pass_ms(0)
    assert driver.state == "CompletingRebalance"
    return driver, ids


def test_all_get_what_the_leader_assigned_once_it_is_written() -> None:
    driver, (leader, follower) = completing()
    waiting = driver.sync(follower, 1)
    assert driver.waits(waiting)

    token = driver.sync(leader, 1, assignments={leader: b"L", follower: b"F", "nobody": b"N"})

    assert driver.synced(token).assignment == b"L"
    assert driver.synced(waiting).assignment == b"F"
    assert driver.synced(waiting).protocol_type == "work"
    assert driver.synced(waiting).protocol_name == "even"
    value = driver.group_values()[-1]
    assert value is not None
    assert (value.generation, value.leader, value.protocol) == (1, leader, "even")
    assert {each.member_id: each.assignment for each in value.members} == {
        leader: b"L",
        follower: b"F",
    }
    assert {each.subscription for each in value.members} == {b"m"}
    assert {each.client_host for each in value.members} == {"/127.0.0.1"}


def test_member_that_the_leader_forgot_gets_an_empty_assignment(
    caplog: pytest.LogCaptureFixture,
) -> None:
    driver, (leader, follower) = completing()
    waiting = driver.sync(follower, 1)

    driver.sync(leader, 1, assignments={leader: b"L"})

    assert driver.synced(waiting).assignment == b""
    assert driver.synced(waiting).error_code == ErrorCode.NONE
    assert "assigned nothing to 1 of 2 members" in caplog.text


def test_member_forgotten_in_the_next_generation_loses_its_assignment(driver: Driver) -> None:
    leader, follower = driver.stable(2)
    group = driver.view
    assert group.members[follower].assignment == follower.encode()
    for member in (leader, follower):
        driver.join(member)
    driver.pass_ms(0)
    waiting = driver.sync(follower, 2)

    driver.sync(leader, 2, assignments={leader: b"L"})

    assert driver.synced(waiting).assignment == b""
    late = driver.sync(follower, 2)
    assert driver.synced(late).assignment == b""
    for shown in (driver, driver.restarted()):
        described = {each.member_id: each.member_assignment for each in shown.describe().members}
        assert described == {leader: b"L", follower: b""}


def test_a_late_follower_gets_its_assignment_from_the_stable_group() -> None:
    driver, (leader, follower) = completing()
    driver.sync(leader, 1, assignments={follower: b"F"})

    assert driver.synced(driver.sync(follower, 1)).assignment == b"F"


def test_assignment_that_cannot_be_written_fails_all_syncs_and_starts_a_rebalance() -> None:
    driver, (leader, follower) = completing()
    waiting = driver.sync(follower, 1)
    driver.fail_next = ErrorCode.KAFKA_STORAGE_ERROR

    token = driver.sync(leader, 1, assignments={follower: b"F"})

    assert driver.synced(token).error_code == ErrorCode.NOT_COORDINATOR
    assert driver.synced(waiting).error_code == ErrorCode.NOT_COORDINATOR
    assert driver.synced(waiting).assignment == b""
    assert driver.state == "PreparingRebalance"
    rejoined = [driver.join(each) for each in (leader, follower)]
    assert {driver.joined(each).generation_id for each in rejoined} == {2}


def test_a_rebalance_takes_parked_syncs_back() -> None:
    driver, (_, follower) = completing()
    waiting = driver.sync(follower, 1)

    driver.join(follower, protocols=protocols("even", metadata=b"new"))

    assert driver.synced(waiting).error_code == ErrorCode.REBALANCE_IN_PROGRESS


def test_a_sync_sent_again_takes_the_place_of_the_first() -> None:
    driver, (leader, follower) = completing()
    first, second = driver.sync(follower, 1), driver.sync(follower, 1)
    assert driver.synced(first).error_code == ErrorCode.REBALANCE_IN_PROGRESS

    driver.sync(leader, 1, assignments={follower: b"F"})

    assert driver.synced(second).assignment == b"F"


@pytest.mark.parametrize("named", [{"protocol_type": None}, {"protocol_name": None}])
def test_from_version_5_it_has_to_name_the_protocol(named: dict[str, Any]) -> None:
    driver = Driver()

    token = driver.sync("nobody", 1, group_id="", **named)

    assert driver.synced(token).error_code == ErrorCode.INCONSISTENT_GROUP_PROTOCOL


@pytest.mark.parametrize("named", [{"protocol_type": "other"}, {"protocol_name": "odd"}])
def test_sync_with_another_protocol_than_the_groups_is_refused(named: dict[str, Any]) -> None:
    driver, (leader, _) = completing()

    token = driver.sync(leader, 1, **named)

    assert driver.synced(token).error_code == ErrorCode.INCONSISTENT_GROUP_PROTOCOL


@pytest.mark.parametrize("version", range(6))
def test_every_version_gets_its_assignment(version: int) -> None:
    driver, (leader,) = completing(1)

    token = driver.sync(leader, 1, version=version, assignments={leader: b"L"})

    assert driver.synced(token).assignment == b"L"


def test_a_sync_needs_the_name_of_a_group() -> None:
    driver = Driver()

    assert driver.synced(driver.sync("m", 1, group_id="")).error_code == ErrorCode.INVALID_GROUP_ID


def test_the_log_says_when_a_group_is_stable(caplog: pytest.LogCaptureFixture) -> None:
    driver, (leader,) = completing(1)

    with caplog.at_level(logging.INFO):
        driver.sync(leader, 1)

    assert "group=g generation=1: is stable with 1 members" in caplog.text


UNKNOWN = ErrorCode.UNKNOWN_MEMBER_ID


def test_several_leave_in_one_rebalance_and_each_is_answered(driver: Driver) -> None:
    one, two, three, stays = driver.stable(4)

    assert driver.leave(one, "nobody", two, one) == [
        ErrorCode.NONE,
        UNKNOWN,
        ErrorCode.NONE,
        UNKNOWN,
    ]
    again = driver.join(stays)
    assert driver.waits(again)

    # the last that was missing
    assert driver.leave(three) == [ErrorCode.NONE]
    assert driver.joined(again).generation_id == 2


def test_the_answer_has_the_ids_of_the_request(driver: Driver) -> None:
    token = driver.join(group_instance_id="i")
    driver.pass_ms(0)
    member = driver.joined(token).member_id

    request = LeaveGroupRequest(
        group_id=GROUP, members=(MemberIdentity("", "i"), MemberIdentity(member, "i"))
    )
    answer = driver.ask(request)

    assert [(e.member_id, e.group_instance_id, e.error_code) for e in answer.members] == [
        ("", "i", ErrorCode.NONE),
        (member, "i", UNKNOWN),
    ]


@pytest.mark.parametrize("instance_id", [None, "unheard-of"])
def test_nobody_at_all_cannot_leave(driver: Driver, instance_id: str | None) -> None:
    driver.stable()

    assert driver.leave("", group_instance_id=instance_id) == [UNKNOWN]
    assert driver.state == "Stable"


def test_an_id_that_was_handed_out_can_be_given_back(driver: Driver) -> None:
    (member,) = driver.stable()
    pending = driver.take_id()
    token = driver.join(member)
    assert driver.waits(token)

    assert driver.leave(pending) == [ErrorCode.NONE]

    assert driver.joined(token).generation_id == 2


def test_leave_answers_the_parked_requests_of_the_member(driver: Driver) -> None:
    tokens = [driver.join(version=3) for _ in range(2)]
    driver.pass_ms(0)
    _, follower = (driver.joined(each).member_id for each in tokens)
    sync = driver.sync(follower, 1)
    assert driver.leave(follower) == [ErrorCode.NONE]
    assert driver.synced(sync).error_code == UNKNOWN

    pending = driver.take_id()
    join = driver.join(pending)
    assert driver.leave(pending) == [ErrorCode.NONE]
    assert driver.joined(join).error_code == UNKNOWN
    assert driver.joined(join).member_id == ""


@pytest.mark.parametrize("version", [0, 1, 2])
def test_up_to_version_2_there_is_one_error(driver: Driver, version: int) -> None:
    (member,) = driver.stable()

    def leave(member_id: str, group_id: str = GROUP) -> int:
        return driver.ask(LeaveGroupRequest(group_id, member_id), version).error_code

    assert leave(member, "no-such-group") == UNKNOWN
    assert leave("nobody") == UNKNOWN
    assert leave(member, "") == ErrorCode.INVALID_GROUP_ID
    assert leave(member) == ErrorCode.NONE
    assert driver.state == "Empty"


def test_a_missing_group_is_an_error_of_each_member() -> None:
    assert Driver().leave("one", "two") == [UNKNOWN, UNKNOWN]


def test_leave_answers_with_an_error_where_the_empty_group_cannot_be_written(
    driver: Driver,
) -> None:
    (member,) = driver.stable()
    driver.fail_next = ErrorCode.REQUEST_TIMED_OUT

    answer = driver.ask(LeaveGroupRequest(group_id=GROUP, members=(MemberIdentity(member),)))

    assert answer.error_code == ErrorCode.COORDINATOR_NOT_AVAILABLE
    assert driver.leave(member) == [UNKNOWN]


def test_the_log_says_why_a_member_left(driver: Driver, caplog: pytest.LogCaptureFixture) -> None:
    (member,) = driver.stable()
    fields: dict[str, Any] = {"reason": "the poll deadline passed"}

    with caplog.at_level(logging.INFO):
        driver.leave(member, **fields)

    assert f"group=g member={member} generation=1: left (the poll deadline" in caplog.text
