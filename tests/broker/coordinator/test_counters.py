"""Tests the counts of a coordinator's events, under Kafka's names."""

from groupsdk.broker.coordinator.counters import CoordinatorCounters
from groupsdk.broker.settings.table import GroupConfig
from groupsdk.wire.messages.group_admin import (
    OffsetDeleteRequest,
    OffsetDeleteRequestPartition,
    OffsetDeleteRequestTopic,
)
from tests.broker.coordinator.group.driving import GROUP, Driver


HOUR_MS = 3_600_000
CONFIG = GroupConfig(
    group_initial_rebalance_delay_ms=0,
    offsets_retention_minutes=60,
    offsets_retention_check_interval_ms=HOUR_MS,
)


def test_counts_have_the_names_of_kafkas_totals() -> None:
    counters = CoordinatorCounters(5, 4, 3, 2, 1)
    assert counters.by_name() == {
        "offset-commit-count": 5,
        "offset-expiration-count": 4,
        "offset-deletion-count": 3,
        "group-completed-rebalance-count": 2,
        "consumer-group-rebalance-count": 1,
    }


def test_offsets_that_are_committed_deleted_and_expired_are_counted() -> None:
    driver = Driver(CONFIG)
    driver.commit({0: 1, 1: 2, 2: 3})
    parts = (OffsetDeleteRequestPartition(0), OffsetDeleteRequestPartition(9))
    driver.ask(OffsetDeleteRequest(GROUP, (OffsetDeleteRequestTopic("t", parts),)))
    driver.pass_ms(3 * HOUR_MS)
    counters = driver.shard.counters
    assert (counters.offset_commits, counters.offset_deletions) == (3, 1)
    assert counters.offset_expirations == 2


def test_rebalances_are_counted_once_the_assignment_is_written() -> None:
    driver = Driver(CONFIG)
    driver.stable(2)
    assert driver.shard.counters.classic_rebalances == driver.generation
    assert driver.shard.member_count == 2
