"""Holds a worker's settings."""

from typing import Any

import pytest

from groupsdk.connect.config import ConnectConfig
from groupsdk.errors import ConfigError


BASE = {"bootstrap.servers": "broker:9092", "group.id": "crawlers"}


def test_the_defaults_are_kafka_connects() -> None:
    config = ConnectConfig.of(BASE)
    assert config.member.session_timeout_ms == 10_000
    assert config.member.rebalance_timeout_ms == 60_000
    assert config.scheduled_rebalance_max_delay_ms == 300_000
    assert config.worker_sync_timeout_ms == 3_000
    assert config.config_storage_topic == "crawlers-connect-configs"
    assert config.offset_storage_partitions == 25
    assert config.status_storage_partitions == 5


def test_session_keys_have_connects_settings() -> None:
    config = ConnectConfig.of({**BASE, "inter.worker.key.ttl.ms": "5"}, inter_worker_key_size=512)
    assert (config.session_keys.ttl_ms, config.session_keys.key_bits) == (5, 512)


def test_keys_come_with_dots_or_underscores_and_as_texts() -> None:
    config = ConnectConfig.of(
        {**BASE, "scheduled.rebalance.max.delay.ms": "0"}, task_restart_max=3, group_id="other"
    )
    assert config.scheduled_rebalance_max_delay_ms == 0
    assert config.restart.max_restarts == 3
    assert config.member.group_id == "other"


@pytest.mark.parametrize(
    ("wrong", "text"),
    [
        ({"connect.protocol": "lazy"}, "connect.protocol must be one of"),
        ({"worker.sync.timeout.ms": 0}, "worker.sync.timeout.ms must be an integer from 1"),
        ({"worker.sync.timeout.ms": "soon"}, "worker.sync.timeout.ms must be an integer"),
        ({"scheduled.rebalance.max.delay": 1}, "unknown setting"),
        ({"group.instance.id": "i"}, "group.instance.id"),
        ({"task.restart.backoff.ms": 0}, "backoff_ms"),
    ],
)
def test_bad_connect_setting_is_named(wrong: dict[str, Any], text: str) -> None:
    with pytest.raises(ConfigError, match=text):
        ConnectConfig.of({**BASE, **wrong})


def test_librdkafka_gets_the_security_and_no_repr_shows_secrets() -> None:
    config = ConnectConfig.of(
        {
            **BASE,
            "security.protocol": "SASL_PLAINTEXT",
            "sasl.mechanism": "PLAIN",
            "sasl.username": "alice",
            "sasl.password": "very-secret",
        }
    )
    given = config.librdkafka()
    assert given["security.protocol"] == "SASL_PLAINTEXT"
    assert given["sasl.password"] == "very-secret"
    assert "very-secret" not in repr(config)
