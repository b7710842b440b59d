"""Tests the settings of a broker."""

from typing import Any

import pytest

from groupsdk.broker.config import KINDS, BrokerConfig, dotted, read_value
from groupsdk.errors import ConfigError


def test_dotted_keys_and_keywords_say_the_same() -> None:
    by_key = BrokerConfig.of({"group.max.size": "7", "log.cleaner.enable": "false"})
    by_name = BrokerConfig.of(group_max_size=7, log_cleaner_enable=False)
    assert by_key == by_name
    assert by_key.group_max_size == 7
    assert by_key.log_cleaner_enable is False
    assert BrokerConfig.of({"num.partitions": 2}, num_partitions=3).num_partitions == 3


def test_the_defaults_are_kafkas() -> None:
    config = BrokerConfig()
    assert config.group_initial_rebalance_delay_ms == 3_000
    assert config.offsets_topic_num_partitions == 50
    assert config.socket_request_max_bytes == 104_857_600
    assert config.listeners == "PLAINTEXT://127.0.0.1:0"


@pytest.mark.parametrize(
    ("settings", "text"),
    [
        ({"group.max.sizee": 1}, "did you mean group.max.size"),
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
    ],
)
def test_wrong_settings_are_named(settings: dict[str, Any], text: str) -> None:
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
    assert len(texts) == len(KINDS) - 1
    assert dotted("log_roll_ms") == "log.roll.ms"


def test_a_secret_is_not_in_the_repr() -> None:
    assert "hush" not in repr(BrokerConfig(ssl_key_password="hush"))


def test_it_cannot_be_changed() -> None:
    config = BrokerConfig()
    with pytest.raises(AttributeError, match="cannot be changed"):
        config.group_max_size = 5
    assert hash(BrokerConfig(group_max_size=5)) == hash(BrokerConfig(group_max_size=5))
    assert config != BrokerConfig(group_max_size=5)
    with pytest.raises(ConfigError, match="unknown broker setting no_such"):
        BrokerConfig(no_such=1)
