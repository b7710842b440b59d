"""Tests the settings of a broker."""

from typing import Any

import pytest

from groupsdk.broker.settings.declaration import dotted, read_value
from groupsdk.broker.settings.table import (
    GROUP_SETTINGS,
    SETTINGS,
    TOPIC_DEFAULTS,
    BrokerConfig,
    GroupConfig,
    TransactionConfig,
)
from groupsdk.errors import ConfigError


def test_dotted_keys_and_keywords_say_the_same() -> None:
    by_key = BrokerConfig.of({"group.max.size": "7", "log.cleaner.enable": "false"})
    by_name = BrokerConfig.of(group_max_size=7, log_cleaner_enable=False)
    assert by_key == by_name
    assert by_key.group_max_size == 7
    assert by_key.log_cleaner_enable is False
    assert BrokerConfig.of({"num.partitions": 2}, num_partitions=3).num_partitions == 3


def test_broker_defaults_are_kafkas() -> None:
    config = BrokerConfig()
    assert config.group_initial_rebalance_delay_ms == 3_000
    assert config.offsets_topic_num_partitions == 50
    assert config.socket_request_max_bytes == 104_857_600
    assert config.listeners == "PLAINTEXT://127.0.0.1:0"
    assert config.group_min_session_timeout_ms == 6_000
    assert config.group_max_session_timeout_ms == 1_800_000
    assert config.group_max_size == 2**31 - 1
    assert config.offset_metadata_max_bytes == 4_096
    assert config.offsets_retention_ms == 7 * 24 * 3_600_000
    assert config.offsets_retention_check_interval_ms == 600_000
    assert config.transaction_max_timeout_ms == 15 * 60 * 1_000
    assert config.transactional_id_expiration_ms == 7 * 24 * 3_600 * 1_000
    assert config.transaction_abort_timed_out_transaction_cleanup_interval_ms == 10_000
    assert config.transaction_remove_expired_transaction_cleanup_interval_ms == 3_600_000
    assert config.transaction_version == 2


def test_every_setting_has_a_type_its_default_in_bounds_and_a_documentation() -> None:
    for name, row in BrokerConfig.ROWS.items():
        assert row.problem(row.default) is None, name
        assert 1 <= row.config_type <= 9
        assert row.text.endswith("."), name
    assert len(TOPIC_DEFAULTS) == 22
    assert len(GROUP_SETTINGS) == 3
    for key in GROUP_SETTINGS:
        assert GroupConfig().bounds_of(key)


def test_the_parts_of_coordinators_have_the_rows_of_the_broker() -> None:
    for part in (GroupConfig, TransactionConfig):
        assert part.ROWS.items() <= BrokerConfig.ROWS.items()


def test_an_internal_setting_is_not_for_users() -> None:
    assert BrokerConfig().changed(gather_ms=5).gather_ms == 5
    assert "gather.ms" not in SETTINGS
    assert "gather.ms" not in BrokerConfig().as_texts()
    with pytest.raises(ConfigError, match="unknown broker setting gather"):
        BrokerConfig.of({"gather.ms": 5})


@pytest.mark.parametrize(
    ("settings", "text"),
    [
        ({"group.max.sizee": 1}, "did you mean group.max.size"),
        ({"port": 9092}, "did you mean listeners"),
        ({"completely.else": 1}, "unknown broker setting completely.else"),
        ({"group.max.size": "many"}, "an integer"),
        ({"group.max.size": True}, "an integer"),
        ({"group.max.size": 1.5}, "an integer"),
        ({"group.max.size": 0}, "from 1 to"),
        ({"log.cleaner.enable": "yes"}, "true or false"),
        ({"listeners": 5}, "a string"),
        ({"ssl.client.auth": "maybe"}, "none, requested, required"),
        ({"group.min.session.timeout.ms": 2_000_000}, "must not be greater"),
        ({"offsets.topic.replication.factor": 0}, "from 1 to 32767"),
        ({"offsets.retention.minutes": 2**31}, "minutes must be from 1 to 2147483647"),
        ({"group.initial.rebalance.delay.ms": -1}, "delay.ms must be from 0"),
        ({"transaction.max.timeout.ms": 2**31}, "from 1 to 2147483647, not 2147483648"),
        ({"offsets.topic.num.partitions": 0}, "partitions must be from 1 to 2147483647, not 0"),
        ({"group.consumer.heartbeat.interval.ms": 4_999}, "from 5000 to 15000, not 4999"),
        ({"log.roll.ms": 0}, "log.roll.ms must be from 1 to"),
    ],
)
def test_bad_broker_setting_is_named(settings: dict[str, Any], text: str) -> None:
    with pytest.raises(ConfigError, match=text):
        BrokerConfig.of(settings)


def test_texts_are_read_as_in_a_properties_file() -> None:
    assert read_value("k", int, " 5 ") == 5
    assert read_value("k", float, "0.5") == 0.5
    assert read_value("k", bool, "TRUE") is True
    assert read_value("k", str, ["a", "b"]) == "a,b"


def test_all_settings_can_be_shown_but_secrets() -> None:
    texts = BrokerConfig(ssl_key_password="hush").as_texts()
    assert texts["log.cleaner.enable"] == "true"
    assert "hush" not in texts.values()
    assert len(texts) == len(SETTINGS) - 1
    assert dotted("log_roll_ms") == "log.roll.ms"


def test_a_secret_is_not_in_the_repr() -> None:
    assert "hush" not in repr(BrokerConfig(ssl_key_password="hush"))


def test_broker_config_is_immutable_and_hashable() -> None:
    config = BrokerConfig()
    with pytest.raises(AttributeError, match="cannot be changed"):
        config.group_max_size = 5
    assert hash(BrokerConfig(group_max_size=5)) == hash(BrokerConfig(group_max_size=5))
    assert config != BrokerConfig(group_max_size=5)
    with pytest.raises(ConfigError, match="unknown broker setting no_such"):
        BrokerConfig(no_such=1)


@pytest.mark.parametrize(
    ("settings", "text"),
    [
        ({"transaction_version": 3}, r"transaction\.version must be from 0 to 2, not 3"),
        ({"transactional_id_expiration_ms": "7d"}, r"expiration\.ms must be an integer, not '7d'"),
        ({"transactional_id_expiration_ms": True}, "an integer, not True"),
        ({"marker_retry_backoff_max_ms": 1}, r"must not be less than marker\.retry\.backoff\.ms"),
    ],
)
def test_a_wrong_value_of_a_part_is_named(settings: dict[str, Any], text: str) -> None:
    with pytest.raises(ConfigError, match=text):
        TransactionConfig(**settings)
