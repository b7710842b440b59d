"""Checks the rules about records that are not read."""

from groupsdk.admin.descriptions import Assignment
from groupsdk.assignment import TopicPartition
from groupsdk.verdict import Finding, Observation, Past, Severity, judge
from tests.support.observed_groups import MINUTE_MS, NOW_MS, group, member, samples, seen


def only(observation: Observation) -> Finding:
    [found] = judge(observation).findings
    return found


def silent(observation: Observation) -> bool:
    return not judge(observation).findings


def test_an_empty_group_with_lag_is_critical() -> None:
    finding = only(seen(group(), {0: 1_000, 1: 194, 2: 0}))

    assert finding.rule == "lag_without_members"
    assert finding.severity is Severity.CRITICAL
    assert "1,194 records behind in 2 partitions" in finding.saw
    assert "60 min" in finding.saw


def test_an_empty_group_is_silent_without_lag_and_during_a_deployment() -> None:
    assert silent(seen(group(), {0: 0}))
    assert silent(seen(group(), {0: 5_000}, empty_ms=NOW_MS - 20_000))


def test_a_job_that_is_away_each_night_is_silent_until_it_is_away_for_longer() -> None:
    hour_ms = 60 * MINUTE_MS
    nights = Past(
        since_ms=NOW_MS - 72 * hour_ms,
        absences=((NOW_MS - 48 * hour_ms, NOW_MS - 36 * hour_ms),),
    )

    assert silent(seen(group(), {0: 90_000}, empty_ms=NOW_MS - 11 * hour_ms, past=nights))
    assert not silent(seen(group(), {0: 90_000}, empty_ms=NOW_MS - 20 * hour_ms, past=nights))


def test_an_absence_of_unknown_length_is_less_sure() -> None:
    assert only(seen(group(), {0: 1_194}, empty_ms=None)).confidence == 0.5


def test_lag_that_grows_throughout_tells_both_rates_and_how_many_members_would_help() -> None:
    busy = group(member("a", [0, 1, 2]), member("b", [3, 4]))

    finding = only(seen(busy, {0: 9_000}, samples=samples(range(1_000, 9_001, 500))))

    assert finding.rule == "growing_lag"
    assert finding.severity is Severity.WARNING
    assert "25 records/s are written, 16.7 are read" in finding.saw
    assert "3 more members" in finding.change


def test_lag_that_grows_while_nothing_is_committed_is_critical() -> None:
    busy = group(member("a", [0]))

    finding = only(seen(busy, {0: 9_000}, samples=samples(range(1_000, 9_001, 500), read_each=0)))
    assert finding.severity is Severity.CRITICAL
    assert "logs of the members" in finding.change


def test_lag_that_falls_again_or_is_small_is_silent() -> None:
    busy = group(member("a", [0]))

    # an autoscaler that starts a member once lag has built up
    assert silent(
        seen(busy, {0: 10}, samples=samples([0, *range(0, 8_000, 800), 4_000, 1_000, 10]))
    )
    # a few records
    assert silent(seen(busy, {0: 12}, samples=samples(range(12), read_each=3)))
    # a second of work for a group that reads much
    assert silent(seen(busy, {0: 900}, samples=samples(range(0, 900, 50), read_each=60_000)))


def test_a_partition_of_a_subscribed_topic_that_nobody_has_is_critical() -> None:
    finding = only(seen(group(member("a", [0, 1])), {0: 0}, partitions={"orders": 3}))

    assert finding.rule == "unread_partitions"
    assert "orders-2" in finding.saw


def test_partitions_without_owner_are_silent_while_members_come_and_go() -> None:
    changing = seen(
        group(member("a", [0, 1])), {0: 0}, partitions={"orders": 3}, settled_ms=NOW_MS - 5_000
    )
    assert silent(changing)


def test_offsets_of_a_topic_that_nobody_subscribes_to_any_more_are_silent() -> None:
    observed = seen(group(member("a", [0], topic="payments")), {0: 700})
    assert silent(observed)


def test_a_partition_without_commits_is_found_while_others_go_on() -> None:
    stalled = {TopicPartition("orders", 1): NOW_MS - 12 * MINUTE_MS}
    finding = only(seen(group(member("a", [0]), member("b", [1])), {0: 0, 1: 7}, stalled=stalled))

    assert finding.rule == "unread_partitions"
    assert "orders-1" in finding.saw
    assert "assigned to b" in finding.saw


def test_a_group_of_another_type_has_no_unread_partitions() -> None:
    worker = member("w")
    workers = group(member("v"), worker, protocol_type="connect", assignor="sessioned")
    assert not worker.assignment.partitions
    assert silent(seen(workers, None))
    assert Assignment(connectors=("sink",)).size == 1


def test_high_rates_are_whole_numbers() -> None:
    many = samples(range(1_000_000, 9_000_001, 500_000))
    finding = only(seen(group(member("a", [0])), {0: 9_000_000}, samples=many))
    assert "8,350 records/s are written, 16.7 are read" in finding.saw
