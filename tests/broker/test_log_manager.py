"""Tests the logs of all partitions: their settings, and what is done in the background."""

from collections.abc import Iterator
from typing import Any

import pytest

from groupsdk.broker.log.directory import LogDirectory
from groupsdk.broker.log.errors import CorruptLogError, OffsetOutOfRangeError, StorageError
from groupsdk.broker.log.partition_log import PartitionLog
from groupsdk.broker.settings.table import TOPIC_DEFAULTS, BrokerConfig
from groupsdk.broker.settings.topic import topic_defaults
from groupsdk.wire.records.record import Record, build_batch
from tests.broker.clients import batch
from tests.broker.rig import ClusterRig


def test_topic_defaults_come_from_the_broker_settings() -> None:
    config = BrokerConfig.of(
        {"log.retention.ms": 5, "log.segment.bytes": 1000, "message.max.bytes": 77}
    )
    defaults = topic_defaults(config)
    assert (defaults.retention_ms, defaults.segment_bytes, defaults.max_message_bytes) == (
        5,
        1000,
        77,
    )
    plain = topic_defaults(BrokerConfig()).properties()
    assert plain["retention.ms"] == "604800000"
    assert TOPIC_DEFAULTS.keys() <= plain.keys()


def test_a_topic_has_settings_of_its_own_and_they_may_change() -> None:
    rig = ClusterRig()
    rig.cluster.create_topics({"t": 1}, {"t": {"retention.ms": "5"}})
    log = rig.cluster.log("t", 0)
    assert log.config.retention_ms == 5
    rig.cluster.catalogue.set_config("topic", "t", {"retention.ms": "6"})
    rig.cluster.logs.config_changed("t")
    assert log.config.retention_ms == 6


def test_a_log_is_opened_when_it_is_used() -> None:
    rig = ClusterRig(topics={"t": 2})
    assert not rig.cluster.logs.exists("t", 0)
    log = rig.cluster.log("t", 0)
    assert rig.cluster.log("t", 0) is log
    assert rig.cluster.logs.exists("t", 0)
    assert [place for place, _ in rig.cluster.logs.opened()] == [("t", 0)]


def test_logs_outlast_their_broker() -> None:
    first = ClusterRig(topics={"t": 1})
    first.cluster.log("t", 0).append(batch(b"v"), now_ms=1_000)
    first.cluster.close()
    second = ClusterRig(store=first.store, files=first.files)
    assert second.cluster.logs.exists("t", 0)
    assert second.cluster.log("t", 0).log_end_offset == 1


def test_old_segments_go() -> None:
    rig = ClusterRig(log_segment_bytes=250, log_retention_ms=60_000)
    rig.cluster.create_topics({"t": 1})
    rig.cluster.logs.start_upkeep()
    log = rig.cluster.log("t", 0)
    for _ in range(5):
        now_ms = rig.clock.now_ms()
        log.append(batch(b"x" * 150, timestamp=now_ms), now_ms=now_ms)
        rig.pass_ms(10_000)
    assert len(log.segments) > 3
    rig.pass_ms(600_000)
    assert log.log_start_offset == log.log_end_offset == 5
    assert len(log.segments) == 1


def closed_with_records(**settings: Any) -> ClusterRig:
    """A cluster on the files of another one, which wrote to one partition and not to the others."""
    first = ClusterRig(topics={"t": 2, "u": 1}, **settings)
    now_ms = first.clock.now_ms()
    first.cluster.log("t", 1).append(batch(b"v", timestamp=now_ms), now_ms=now_ms)
    first.cluster.log("u", 0)
    first.cluster.log("t", 0)
    first.cluster.close()
    rig = ClusterRig(store=first.store, files=first.files, **settings)
    rig.cluster.logs.start_upkeep()
    return rig


def test_time_passes_for_logs_that_nobody_has_opened() -> None:
    rig = closed_with_records(log_retention_ms=60_000)
    rig.pass_ms(300_000)
    ((place, log),) = rig.cluster.logs.opened()  # and none without records
    assert place == ("t", 1)
    assert log.log_start_offset == log.log_end_offset == 1


def test_a_log_that_cannot_be_opened_does_not_stop_the_others(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    rig = closed_with_records(log_retention_ms=60_000)
    holds_records = LogDirectory.holds_records

    def failing(directory: LogDirectory, topic: str, partition: int) -> bool:
        if (topic, partition) == ("t", 0):
            raise StorageError("the disk failed")
        return holds_records(directory, topic, partition)

    monkeypatch.setattr(LogDirectory, "holds_records", failing)
    rig.cluster.log("u", 0)
    rig.pass_ms(900_000)
    assert {place for place, _ in rig.cluster.logs.opened()} == {("t", 1), ("u", 0)}
    assert [record.getMessage() for record in caplog.records if record.levelname == "WARNING"] == [
        "t-0: the disk failed"
    ]


def test_logs_are_flushed_where_a_topic_asks_for_it() -> None:
    rig = ClusterRig(topics={"t": 1, "u": 1})
    rig.cluster.logs.start_upkeep()
    log = rig.cluster.log("t", 0)
    for _ in range(2):
        log.append(batch(b"v", timestamp=rig.clock.now_ms()), now_ms=rig.clock.now_ms())
        rig.pass_ms(60_000)
        assert log.recovery_point == 0
    rig.cluster.catalogue.set_config("topic", "t", {"flush.ms": "1000"})
    rig.cluster.logs.config_changed("t")
    rig.pass_ms(60_000)
    assert log.recovery_point == 2


def with_replaced_records(rig: ClusterRig) -> PartitionLog:
    """Write 20 records of one key to a topic that is compacted."""
    rig.cluster.create_topics({"t": 1}, {"t": {"cleanup.policy": "compact"}})
    rig.cluster.logs.start_upkeep()
    log = rig.cluster.log("t", 0)
    for n in range(20):
        records = build_batch([Record(0, rig.clock.now_ms(), b"k", b"%030d" % n)])
        log.append(records, now_ms=rig.clock.now_ms())
    return log


def test_replaced_records_go() -> None:
    rig = ClusterRig(log_segment_bytes=200, log_cleaner_backoff_ms=1_000)
    log = with_replaced_records(rig)
    before = log.size
    rig.pass_ms(60_000)
    assert log.size < before / 2
    assert log.log_end_offset == 20


def test_the_backoff_of_the_cleaner_changes_at_once() -> None:
    rig = ClusterRig(log_segment_bytes=200, log_cleaner_backoff_ms=10_000_000)
    log = with_replaced_records(rig)
    before = log.size
    rig.pass_ms(60_000)
    assert log.size == before
    rig.cluster.catalogue.set_config("broker", "", {"log.cleaner.backoff.ms": "1000"})
    rig.cluster.apply_broker_configs()
    rig.pass_ms(60_000)
    assert log.size < before / 2


def test_compaction_goes_on_after_an_error_that_nobody_foresaw(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    rig = ClusterRig(log_segment_bytes=200, log_cleaner_backoff_ms=1_000)
    log = with_replaced_records(rig)
    before = log.size

    def broken(log: PartitionLog, now_ms: int) -> Iterator[None]:
        raise RuntimeError(f"a bug, at {now_ms}")

    with monkeypatch.context() as patched:
        patched.setattr(PartitionLog, "compaction", broken)
        with pytest.raises(RuntimeError, match="a bug"):
            rig.pass_ms(60_000)
    rig.pass_ms(60_000)
    assert log.size < before / 2


def test_silent_producers_are_forgotten() -> None:
    rig = ClusterRig(topics={"t": 1}, producer_id_expiration_ms=1_000)
    rig.cluster.logs.start_upkeep()
    log = rig.cluster.log("t", 0)
    records = batch(
        b"v", timestamp=rig.clock.now_ms(), producer_id=5, producer_epoch=0, base_sequence=0
    )
    log.append(records, now_ms=rig.clock.now_ms())
    assert 5 in log.producers.entries
    rig.pass_ms(1_300_000)
    assert 5 not in log.producers.entries


def test_nothing_is_done_after_the_end() -> None:
    rig = ClusterRig(topics={"t": 1})
    rig.cluster.logs.start_upkeep()
    rig.cluster.close()
    rig.pass_ms(10_000_000)
    assert rig.scheduler.next_ms is None


def test_damage_and_failing_disks_are_said_once(caplog: pytest.LogCaptureFixture) -> None:
    logs = ClusterRig(topics={"t": 2}).cluster.logs
    for partition in (0, 0, 1):
        logs.report("t", partition, CorruptLogError("the file, at byte 7"))
    logs.report("t", 0, StorageError("the disk is full"))
    # nobody's disk fails because a client asks for what is not there
    logs.report("t", 0, OffsetOutOfRangeError("no such offset"))

    assert [record.getMessage() for record in caplog.records if record.levelname == "WARNING"] == [
        "t-0: the file, at byte 7",
        "t-1: the file, at byte 7",
        "t-0: the disk is full",
    ]
