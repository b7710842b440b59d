from groupsdk.broker.classic_groups.config import GroupConfig
from groupsdk.error_code import ErrorCode
from tests.broker.group_coordinator.driving import SESSION_MS, Driver, protocols


QUICK = GroupConfig(group_initial_rebalance_delay_ms=0)


def test_heartbeats_keep_a_session_for_as_long_as_they_come() -> None:
    driver = Driver(QUICK)
    (member,) = driver.stable()

    for _ in range(20):
        driver.pass_ms(SESSION_MS - 1)
        assert driver.heartbeat(member, 1) is ErrorCode.NONE


def test_they_keep_it_in_a_rebalance_too() -> None:
    driver = Driver(QUICK)
    leader, follower = driver.stable(2)
    driver.join(follower, protocols=protocols("even", metadata=b"new"))

    for _ in range(5):
        driver.pass_ms(SESSION_MS - 1)
        assert driver.heartbeat(leader, 1) is ErrorCode.REBALANCE_IN_PROGRESS


def test_one_that_is_refused_keeps_nothing() -> None:
    driver = Driver(QUICK)
    (member,) = driver.stable()
    driver.pass_ms(SESSION_MS - 1)

    assert driver.heartbeat(member, 2) is ErrorCode.ILLEGAL_GENERATION
    driver.pass_ms(101)

    assert driver.heartbeat(member, 1) is ErrorCode.UNKNOWN_MEMBER_ID


def test_a_group_needs_a_name() -> None:
    assert Driver().heartbeat("m", 1, group_id="") is ErrorCode.INVALID_GROUP_ID


def test_an_id_that_was_only_handed_out_is_no_member() -> None:
    driver = Driver(QUICK)

    assert driver.heartbeat(driver.take_id(), 0) is ErrorCode.UNKNOWN_MEMBER_ID
