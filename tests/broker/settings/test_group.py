"""Tests the settings that a group has of its own; `test_configs.py` sends them to a real Kafka as well."""

import pytest

from groupsdk.broker.settings.effective import (
    EffectiveSettings,
    group_settings_problem,
    no_group_settings,
)
from groupsdk.broker.settings.table import GroupConfig


def test_a_groups_setting_overrides_the_brokers_within_its_bounds() -> None:
    own = {
        "short": {"consumer.session.timeout.ms": "1"},
        "own": {"consumer.heartbeat.interval.ms": "6000"},
    }
    settings = EffectiveSettings(GroupConfig, lambda group_id: own.get(group_id, {}))
    assert settings.session_timeout_ms("short") == 45_000
    assert settings.heartbeat_times_ms("own") == (45_000, 6_000)
    assert (
        settings.heartbeat_times_ms("short")
        == settings.heartbeat_times_ms("none")
        == (45_000, 5_000)
    )
    plain = EffectiveSettings(GroupConfig, no_group_settings)
    assert plain.assignment_interval_ms("own") == 1_000


@pytest.mark.parametrize(
    ("entries", "problem"),
    [
        ({"consumer.session.timeout.ms": "50000"}, None),
        ({"share.session.timeout.ms": "1"}, "Unknown group config name"),
        ({"consumer.session.timeout.ms": "soon"}, "Not a number of type INT"),
        ({"consumer.session.timeout.ms": "44999"}, "greater than or equal to group.consumer.min"),
        ({"consumer.session.timeout.ms": "60001"}, "less than or equal to group.consumer.max"),
    ],
)
def test_an_invalid_setting_is_named(entries: dict[str, str], problem: str | None) -> None:
    found = group_settings_problem(entries, GroupConfig())
    assert (found is None) if problem is None else (problem in str(found))


def test_a_session_is_longer_than_a_heartbeat_interval() -> None:
    config = GroupConfig(
        group_consumer_min_session_timeout_ms=5_000, group_consumer_session_timeout_ms=6_000
    )
    both = {"consumer.session.timeout.ms": "5000", "consumer.heartbeat.interval.ms": "5000"}
    assert "must be greater" in str(group_settings_problem(both, config))
