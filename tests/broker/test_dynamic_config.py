"""Tests which settings of brokers can change while they run, and what comes of those that were kept."""

import logging

import pytest

from groupsdk.broker.catalogue import finalized_epoch, finalized_levels, set_finalized_levels
from groupsdk.broker.config import KINDS, BrokerConfig, dotted
from groupsdk.broker.dynamic_config import effective_config, problem
from groupsdk.broker.log.config import LogConfig
from groupsdk.broker.quotas import change_quotas, matching_quotas
from groupsdk.broker.setting_types import (
    DYNAMIC,
    broker_documentation,
    broker_type,
    topic_documentation,
    topic_type,
)
from tests.broker.rig import ClusterRig


BASE = BrokerConfig(log_retention_bytes=5)


def test_problems_name_the_settings() -> None:
    assert problem({"log.retention.ms": "7", "of.a.plugin": "x"}, {}, BASE) is None
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


def test_every_setting_has_a_type_and_a_documentation() -> None:
    for name in KINDS:
        assert 1 <= broker_type(dotted(name)) <= 9
        assert broker_documentation(dotted(name)).endswith(".")
    for key in LogConfig().properties():
        assert 1 <= topic_type(key) <= 9
        assert topic_documentation(key).endswith(".")
    assert {dotted(name) for name in KINDS} >= DYNAMIC


def test_the_documentation_that_a_client_compares_begins_as_in_kafka() -> None:
    kafka = "This config designates the retention policy to use on log segments."
    assert topic_documentation("cleanup.policy").startswith(kafka)


def test_quotas_and_levels_are_facts_of_the_catalogue() -> None:
    catalogue = ClusterRig().cluster.catalogue
    change_quotas(catalogue, {"user": "bob"}, {"producer_byte_rate": 2.0})
    change_quotas(catalogue, {"user": "bob"}, {"request_percentage": 0.1})
    (found,) = matching_quotas(catalogue, (), strict=False)
    assert found == ({"user": "bob"}, {"producer_byte_rate": 2.0, "request_percentage": 0.1})
    change_quotas(catalogue, {"user": "bob"}, dict.fromkeys(found[1]))
    assert not list(matching_quotas(catalogue, (), strict=False))

    levels = dict(finalized_levels(catalogue))
    set_finalized_levels(catalogue, levels)
    assert finalized_epoch(catalogue) == 0
    set_finalized_levels(catalogue, {**levels, "transaction.version": 0})
    assert (finalized_epoch(catalogue), finalized_levels(catalogue)["transaction.version"]) == (
        1,
        0,
    )
