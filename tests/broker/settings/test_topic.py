"""Topic configurations are read with Kafka's names and bounds."""

import pytest

from groupsdk.broker.settings.topic import FIXED, InvalidLogConfigError, LogConfig


def test_topic_defaults_are_kafkas() -> None:
    found = LogConfig().properties()
    assert found["segment.bytes"] == "1073741824"
    assert found["retention.ms"] == "604800000"
    assert found["max.message.bytes"] == "1048588"
    assert found["cleanup.policy"] == "delete"
    assert found["message.timestamp.after.max.ms"] == "3600000"
    assert found["preallocate"] == "false"
    assert found["min.cleanable.dirty.ratio"] == "0.5"
    assert LogConfig.parse(found) == LogConfig()


def test_settings_are_read_over_defaults() -> None:
    defaults = LogConfig(retention_ms=5)
    config = LogConfig.parse(
        {
            "cleanup.policy": "compact, delete",
            "segment.bytes": " 1048576 ",
            "message.timestamp.type": "LogAppendTime",
            "preallocate": "TRUE",
            "min.cleanable.dirty.ratio": "0.1",
        },
        defaults,
    )
    assert config.compact
    assert config.delete
    assert config.is_log_append_time
    assert config.preallocate
    assert (config.segment_bytes, config.retention_ms) == (1_048_576, 5)
    assert config.min_cleanable_dirty_ratio == 0.1
    assert LogConfig.parse({"internal.segment.bytes": "100"}).segment_bytes == 100
    assert not LogConfig.parse({"cleanup.policy": ""}).delete


@pytest.mark.parametrize(
    ("key", "value", "text"),
    [
        ("nonsense", "1", "unknown topic configuration 'nonsense'"),
        ("segment_bytes", "1", "unknown topic configuration 'segment_bytes'"),
        (
            "segment.bytes",
            "1000",
            "Invalid value 1000 for configuration segment.bytes: Value must be at least 1048576",
        ),
        (
            "retention.ms",
            "-2",
            "Invalid value -2 for configuration retention.ms: Value must be at least -1",
        ),
        (
            "retention.ms",
            "soon",
            "Invalid value soon for configuration retention.ms: Not a number of type LONG",
        ),
        ("preallocate", "1", "Expected value to be either true or false"),
        ("cleanup.policy", "shrink", "String must be one of: compact, delete"),
        ("compression.type", "zip", "String must be one of: uncompressed, zstd"),
        ("min.compaction.lag.ms", str(2**63), "Value must be no more than"),
        ("min.insync.replicas", "x", "Not a number of type INT"),
        ("compression.gzip.level", "0", "must be between 1 and 9 or equal to -1"),
        ("compression.zstd.level", "23", "no more than 22"),
        ("leader.replication.throttled.replicas", "0-1", "must be the literal"),
    ],
)
def test_a_wrong_setting_is_named(key: str, value: str, text: str) -> None:
    with pytest.raises(InvalidLogConfigError, match=text.replace(".", r"\.")):
        LogConfig.parse({key: value})


def test_settings_without_effect_are_kept() -> None:
    given = {
        "compression.zstd.level": "5",
        "local.retention.ms": "1000",
        "leader.replication.throttled.replicas": "0:1,1:2",
        "follower.replication.throttled.replicas": "*",
    }
    shown = LogConfig.parse(given).properties()
    assert {key: shown[key] for key in given} == given
    assert LogConfig().properties()["leader.replication.throttled.replicas"] == ""


def test_settings_have_to_fit_each_other() -> None:
    with pytest.raises(InvalidLogConfigError, match="must not be greater"):
        LogConfig.parse({"min.compaction.lag.ms": "10", "max.compaction.lag.ms": "5"})


def test_segments_of_compacted_topics_are_closed_in_time() -> None:
    config = LogConfig(cleanup_policy=("compact",), segment_ms=100, max_compaction_lag_ms=50)
    assert config.roll_ms == 50
    assert LogConfig(segment_ms=100, max_compaction_lag_ms=50).roll_ms == 100


@pytest.mark.parametrize("key", sorted(FIXED))
def test_fixed_topic_setting_is_shown_and_cannot_be_set(key: str) -> None:
    shown = LogConfig().properties()
    assert shown[key] == FIXED[key]
    assert LogConfig.parse({key: FIXED[key]}) == LogConfig()
    with pytest.raises(InvalidLogConfigError, match=f"{key}='7' .* it must be '{FIXED[key]}'"):
        LogConfig.parse({key: "7"})


def test_a_topic_setting_cannot_be_changed_or_invented() -> None:
    config = LogConfig()
    with pytest.raises(AttributeError, match="cannot be changed: retention_ms"):
        config.retention_ms = 5
    with pytest.raises(TypeError, match="unknown topic settings: no_such"):
        LogConfig(no_such=5)
    assert hash(LogConfig(retention_ms=5)) == hash(LogConfig(retention_ms=5))
