import logging
from typing import Any

import pytest

from groupsdk.broker.classic_groups.config import GroupConfig
from groupsdk.error_code import ErrorCode
from groupsdk.wire.messages.leave_group import LeaveGroupRequest, MemberIdentity
from tests.broker.group_coordinator.driving import GROUP, Driver


QUICK = GroupConfig(group_initial_rebalance_delay_ms=0)
UNKNOWN = ErrorCode.UNKNOWN_MEMBER_ID


def test_several_leave_in_one_rebalance_and_each_is_answered() -> None:
    driver = Driver(QUICK)
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


def test_the_answer_has_the_ids_of_the_request() -> None:
    driver = Driver(QUICK)
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
def test_nobody_at_all_cannot_leave(instance_id: str | None) -> None:
    driver = Driver(QUICK)
    driver.stable()

    assert driver.leave("", group_instance_id=instance_id) == [UNKNOWN]
    assert driver.state == "Stable"


def test_an_id_that_was_handed_out_can_be_given_back() -> None:
    driver = Driver(QUICK)
    (member,) = driver.stable()
    pending = driver.take_id()
    token = driver.join(member)
    assert driver.waits(token)

    assert driver.leave(pending) == [ErrorCode.NONE]

    assert driver.joined(token).generation_id == 2


def test_what_it_has_parked_is_answered() -> None:
    driver = Driver(QUICK)
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
def test_up_to_version_2_there_is_one_error(version: int) -> None:
    driver = Driver(QUICK)
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


def test_that_the_group_is_empty_could_not_be_written() -> None:
    driver = Driver(QUICK)
    (member,) = driver.stable()
    driver.fail_next = ErrorCode.REQUEST_TIMED_OUT

    answer = driver.ask(LeaveGroupRequest(group_id=GROUP, members=(MemberIdentity(member),)))

    assert answer.error_code == ErrorCode.COORDINATOR_NOT_AVAILABLE
    assert driver.leave(member) == [UNKNOWN]


def test_the_log_says_why(caplog: pytest.LogCaptureFixture) -> None:
    driver = Driver(QUICK)
    (member,) = driver.stable()
    fields: dict[str, Any] = {"reason": "the poll deadline passed"}

    with caplog.at_level(logging.INFO):
        driver.leave(member, **fields)

    assert f"group g, member {member}, generation 1: left (the poll deadline" in caplog.text
