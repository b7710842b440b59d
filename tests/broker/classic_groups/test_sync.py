import logging
from typing import Any

import pytest

from groupsdk.broker.classic_groups.config import GroupConfig
from groupsdk.error_code import ErrorCode
from tests.broker.group_coordinator.driving import GROUP, Driver, protocols


QUICK = GroupConfig(group_initial_rebalance_delay_ms=0)


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


def test_who_was_forgotten_gets_nothing(caplog: pytest.LogCaptureFixture) -> None:
    driver, (leader, follower) = completing()
    waiting = driver.sync(follower, 1)

    driver.sync(leader, 1, assignments={leader: b"L"})

    assert driver.synced(waiting).assignment == b""
    assert driver.synced(waiting).error_code == ErrorCode.NONE
    assert "assigned nothing to 1 of 2 members" in caplog.text


def test_who_had_a_share_and_is_forgotten_has_none_any_more() -> None:
    driver = Driver(QUICK)
    leader, follower = driver.stable(2)
    group = driver.shard.group(GROUP)
    assert group is not None
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


def test_where_the_assignment_cannot_be_written_all_hear_of_it_and_rebalance() -> None:
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
def test_another_protocol_than_the_groups_is_refused(named: dict[str, Any]) -> None:
    driver, (leader, _) = completing()

    token = driver.sync(leader, 1, **named)

    assert driver.synced(token).error_code == ErrorCode.INCONSISTENT_GROUP_PROTOCOL


@pytest.mark.parametrize("version", range(6))
def test_every_version_gets_its_assignment(version: int) -> None:
    driver, (leader,) = completing(1)

    token = driver.sync(leader, 1, version=version, assignments={leader: b"L"})

    assert driver.synced(token).assignment == b"L"


def test_a_group_needs_a_name() -> None:
    driver = Driver()

    assert driver.synced(driver.sync("m", 1, group_id="")).error_code == ErrorCode.INVALID_GROUP_ID


def test_the_log_says_when_a_group_is_stable(caplog: pytest.LogCaptureFixture) -> None:
    driver, (leader,) = completing(1)

    with caplog.at_level(logging.INFO):
        driver.sync(leader, 1)

    assert "group g, generation 1: is stable with 1 members" in caplog.text
