"""Tests the values that settings without effect may have; `test_configs.py` holds the answers against Kafka's."""

import pytest

from groupsdk.broker.kept_settings import (
    BROKER_SETTINGS,
    GROUP_SETTINGS,
    group_problem,
    interval_problem,
    selector_problem,
    value_problem,
)


def test_the_defaults_are_valid() -> None:
    assert group_problem({key: each.default for key, each in GROUP_SETTINGS.items()}) is None


@pytest.mark.parametrize(
    ("key", "value", "problem"),
    [
        ("num.io.threads", "8", None),
        ("num.io.threads", "0", "Value must be at least 1"),
        ("num.io.threads", str(2**31), "Not a number of type INT"),
        ("leader.replication.throttled.rate", str(2**31), None),
        ("leader.replication.throttled.rate", str(2**63), "Not a number of type LONG"),
        ("log.cleaner.io.buffer.load.factor", "0.9", None),
        ("log.cleaner.io.buffer.load.factor", "full", "Not a number of type DOUBLE"),
        ("unclean.leader.election.enable", "True", None),
        ("unclean.leader.election.enable", "1", "Expected value to be either true or false"),
    ],
)
def test_settings_of_brokers(key: str, value: str, problem: str | None) -> None:
    expected = problem and f"Invalid value {value} for configuration {key}: {problem}"
    assert value_problem(key, BROKER_SETTINGS[key], value) == expected


@pytest.mark.parametrize(
    ("entries", "problem"),
    [
        ({"share.session.timeout.ms": "60000"}, None),
        (
            {"share.session.timeout.ms": "60001"},
            "share.session.timeout.ms must be less than or equal to group.share.max.session.timeout.ms",
        ),
        (
            {"streams.heartbeat.interval.ms": "4999"},
            "streams.heartbeat.interval.ms must be greater than or equal to group.streams.min.heartbeat.interval.ms",
        ),
        (
            {"streams.num.standby.replicas": "3"},
            "streams.num.standby.replicas must be less than or equal to group.streams.max.standby.replicas",
        ),
        ({"share.auto.offset.reset": "by_duration:P1DT2H3M4.5S"}, None),
        ({"share.auto.offset.reset": "by_duration:pt5m"}, None),
    ],
)
def test_settings_of_groups(entries: dict[str, str], problem: str | None) -> None:
    assert group_problem(entries) == problem


@pytest.mark.parametrize("value", ["by_duration:PT", "by_duration:-PT1H", "by_duration", "Latest"])
def test_where_a_share_group_cannot_start(value: str) -> None:
    problem = group_problem({"share.auto.offset.reset": value})
    assert problem is not None
    assert "must be either 'earliest', 'latest'" in problem


@pytest.mark.parametrize("text", ["", "client_id=.*", " client_id = a , client_source_port=1 "])
def test_clients_are_selected(text: str) -> None:
    assert selector_problem(text) is None


@pytest.mark.parametrize(
    "text", ["client_id", "client_id=", "name=a", "client_id=a=b", "client_id=["]
)
def test_clients_cannot_be_selected(text: str) -> None:
    assert (
        selector_problem(f"client_software_name=x,{text}")
        == f"Illegal client matching pattern: {text}"
    )


def test_intervals_have_bounds() -> None:
    assert [interval_problem(str(each)) is None for each in (99, 100, 3_600_000, 3_600_001)] == [
        *(False, True, True, False)
    ]
