from groupsdk.broker.coordinator.offsets import offset_expiration as expiry
from groupsdk.broker.settings.table import GroupConfig
from groupsdk.error_code import ErrorCode
from tests.broker.coordinator.group.driving import (
    GROUP,
    SESSION_MS,
    Driver,
    protocols,
    subscription,
)


HOUR_MS = 3_600_000
CONFIG = GroupConfig(
    group_initial_rebalance_delay_ms=0,
    offsets_retention_minutes=24 * 60,
    offsets_retention_check_interval_ms=HOUR_MS,
)
DAY_MS = 24 * HOUR_MS
OK = ErrorCode.NONE


def stays(driver: Driver, member: str, duration_ms: int) -> None:
    """Lets time pass with heartbeats."""
    for _ in range(duration_ms // SESSION_MS * 2):
        driver.pass_ms(SESSION_MS // 2)
        assert driver.heartbeat(member, 1) is OK


def test_offsets_without_members_go_a_retention_after_their_commit_and_the_group_with_them() -> (
    None
):
    driver = Driver(CONFIG)
    driver.commit({0: 1})
    driver.pass_ms(HOUR_MS // 2)
    driver.commit({1: 2})

    driver.pass_ms(DAY_MS - HOUR_MS)
    assert driver.fetch(0, 1) == [(1, OK), (2, OK)]
    driver.pass_ms(HOUR_MS)
    assert driver.fetch(0, 1) == [(-1, OK), (2, OK)]
    driver.pass_ms(HOUR_MS)

    assert driver.shard.group_ids == ()
    assert driver.records[-1].value is None
    assert driver.group_values() == [None]


def test_those_of_members_go_a_retention_after_the_last_one_left() -> None:
    driver = Driver(CONFIG)
    (member,) = driver.stable()
    driver.commit({0: 1}, member, 1)
    stays(driver, member, 2 * HOUR_MS)
    driver.leave(member)

    driver.pass_ms(DAY_MS - 1)
    assert driver.fetch(0) == [(1, OK)]
    driver.pass_ms(HOUR_MS)

    assert driver.shard.group_ids == ()


def test_a_restart_changes_nothing_of_that() -> None:
    driver = Driver(CONFIG)
    (member,) = driver.stable()
    driver.commit({0: 1}, member, 1)
    driver.leave(member)
    driver.pass_ms(DAY_MS // 2)

    again = driver.restarted()
    again.pass_ms(DAY_MS // 2 + HOUR_MS)

    assert again.shard.group_ids == ()


def test_consumers_keep_those_of_the_topics_that_they_read() -> None:
    config = GroupConfig(
        group_initial_rebalance_delay_ms=0,
        offsets_retention_minutes=60,
        offsets_retention_check_interval_ms=HOUR_MS // 4,
    )
    driver = Driver(config)
    offer = protocols("range", metadata=subscription("t"))
    (member,) = driver.stable(protocol_type="consumer", protocols=offer)
    driver.commit({0: 1}, member, 1)
    driver.commit({0: 2}, member, 1, topic="u")

    stays(driver, member, HOUR_MS * 3 // 2)

    assert driver.fetch(0) == [(1, OK)]
    assert driver.fetch(0, topic="u") == [(-1, OK)]
    assert driver.state == "Stable"


def test_members_of_another_kind_keep_all() -> None:
    config = GroupConfig(group_initial_rebalance_delay_ms=0, offsets_retention_minutes=1)
    driver = Driver(config)
    (member,) = driver.stable()
    driver.commit({0: 1}, member, 1)

    stays(driver, member, 2 * config.offsets_retention_check_interval_ms)

    assert driver.fetch(0) == [(1, OK)]


def test_a_time_of_its_own_holds_whatever_the_retention() -> None:
    driver = Driver(CONFIG)
    driver.commit({0: 1}, version=4, retention_time_ms=HOUR_MS)
    driver.commit({1: 2}, version=4, retention_time_ms=3 * DAY_MS)

    driver.pass_ms(HOUR_MS)
    assert driver.fetch(0, 1) == [(-1, OK), (2, OK)]
    driver.pass_ms(2 * DAY_MS)

    assert driver.fetch(1) == [(2, OK)]


def test_an_open_transaction_keeps_offsets_and_group() -> None:
    driver = Driver(CONFIG)
    driver.commit({0: 1})
    driver.commit_in_transaction({0: 5})

    driver.pass_ms(2 * DAY_MS)
    assert driver.fetch(0) == [(1, OK)]
    driver.marker(committed=False)
    driver.pass_ms(HOUR_MS)

    assert driver.shard.group_ids == ()


def test_a_transaction_keeps_a_group_that_has_nothing_else() -> None:
    driver = Driver(CONFIG)
    driver.commit_in_transaction({0: 5})

    driver.pass_ms(DAY_MS)
    assert GROUP in driver.shard.group_ids
    driver.marker(committed=False)
    driver.pass_ms(HOUR_MS)

    assert driver.shard.group_ids == ()


def test_a_group_with_nothing_goes_at_the_next_look_unless_someone_is_on_the_way() -> None:
    driver = Driver(CONFIG)
    driver.take_id(session_timeout_ms=6_000)
    driver.pass_ms(HOUR_MS - 1)
    late = driver.take_id()

    driver.pass_ms(1)
    assert GROUP in driver.shard.group_ids
    assert driver.waits(driver.join(late))
    driver.pass_ms(0)
    driver.leave(late)
    driver.pass_ms(HOUR_MS)

    assert driver.shard.group_ids == ()


def test_many_go_in_batches_one_right_after_the_other() -> None:
    driver = Driver(CONFIG)
    many = 2 * expiry.MAX_TOMBSTONES + 10
    driver.commit(dict.fromkeys(range(many), 1))
    driver.commit({0: 1}, group_id="other")
    written = len(driver.log)

    driver.pass_ms(DAY_MS + HOUR_MS)

    assert driver.shard.group_ids == ()
    sizes = [len(batch.records) for batch in driver.log[written:]]
    assert sum(sizes) == many + 3
    assert max(sizes) <= expiry.MAX_TOMBSTONES + 2


def test_offsets_that_stay_are_looked_at_some_groups_at_a_time() -> None:
    driver = Driver(CONFIG)
    for number in range(12):
        driver.commit(dict.fromkeys(range(1_000), 1), group_id=f"g-{number}")
    driver.now_ms += HOUR_MS

    turns = 0
    while (driver.shard.deadline_ms or 0) <= driver.now_ms:
        driver.deal_with(driver.shard.advance(driver.now_ms))
        turns += 1

    assert turns == 3
    assert len(driver.shard.group_ids) == 12
    driver.pass_ms(DAY_MS + HOUR_MS)
    assert driver.shard.group_ids == ()


def test_a_full_disk_is_not_tried_again_before_the_next_look() -> None:
    driver = Driver(CONFIG)
    driver.commit({0: 1})
    driver.pass_ms(DAY_MS - 1)
    driver.fail_next = ErrorCode.KAFKA_STORAGE_ERROR

    driver.pass_ms(1)
    assert driver.fetch(0) == [(1, OK)]
    assert driver.shard.deadline_ms == driver.now_ms + HOUR_MS
    driver.pass_ms(HOUR_MS)

    assert driver.fetch(0) == [(-1, OK)]
