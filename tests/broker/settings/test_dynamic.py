"""Tests which settings of brokers can change while they run, and what comes of those that were kept."""

import logging

import pytest

from groupsdk.broker.settings.effective import effective_config, is_dynamic, problem
from groupsdk.broker.settings.table import TOPIC_DEFAULTS, BrokerConfig
from groupsdk.broker.settings.topic import TOPIC_SETTINGS


BASE = BrokerConfig(log_retention_bytes=5)


def test_problems_name_the_settings() -> None:
    assert problem({"log.retention.ms": "7"}, {}, BASE) is None
    assert "[of.a.plugin]" in str(problem({"of.a.plugin": "x"}, {}, BASE))
    fixed = {"num.partitions": "2", "group.max.size": "1"}
    assert problem(fixed, {}, BASE) == (
        "Cannot update these configs dynamically: [group.max.size, num.partitions]"
    )
    # what stays as it was is not a change, what goes is one
    assert problem(fixed, fixed, BASE) is None
    assert "num.partitions" in str(problem({}, {"num.partitions": "2"}, BASE))
    for key, value in (("log.retention.ms", "soon"), ("log.segment.bytes", "-1")):
        assert key in str(problem({key: value}, {}, BASE))


def test_the_last_layer_holds(caplog: pytest.LogCaptureFixture) -> None:
    layers = [{"log.retention.bytes": "7", "log.roll.ms": "9"}, {"log.retention.bytes": "8"}]
    config = effective_config(BASE, layers)
    assert (config.log_retention_bytes, config.log_roll_ms) == (8, 9)
    assert effective_config(BASE, [{}, {"num.partitions": "3"}]) == BASE
    with caplog.at_level(logging.ERROR):
        kept = effective_config(BASE, [{"log.roll.ms": "9"}, {"log.retention.bytes": "many"}])
    assert (kept.log_retention_bytes, kept.log_roll_ms) == (5, 9)
    assert "log.retention.bytes" in caplog.text


def test_the_defaults_of_topics_can_be_changed() -> None:
    assert all(is_dynamic(key) for key in TOPIC_DEFAULTS.values())
    assert not is_dynamic("listeners")
    assert not is_dynamic("no.such")


def test_the_documentation_that_a_client_compares_begins_as_in_kafka() -> None:
    kafka = "This config designates the retention policy to use on log segments."
    assert TOPIC_SETTINGS["cleanup.policy"].text.startswith(kafka)
