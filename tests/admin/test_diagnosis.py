"""Tests timeouts that contradict each other; what is asked of a cluster is tested by the command."""

from typing import Any

from groupsdk.admin.diagnosis import Level, contradictions
from tests.support.cases import each_case


@each_case(
    ("settings", "broker", "level", "text"),
    [
        ({}, {}, Level.OK, "no timeouts contradict"),
        ({"heartbeat.interval.ms": "20000"}, {}, Level.WARNING, "heartbeat.interval.ms is 20000"),
        ({"heartbeat.interval.ms": 45_000}, {}, Level.ERROR, "heartbeat.interval.ms is 45000"),
        ({"max.poll.interval.ms": "40000"}, {}, Level.WARNING, "max.poll.interval.ms is 40000"),
        ({"request.timeout.ms": "300000"}, {}, Level.WARNING, "request.timeout.ms is 300000"),
        (
            {},
            {"group.max.session.timeout.ms": "30000"},
            Level.ERROR,
            "the brokers allow 0 to 30000",
        ),
        ({}, {"connections.max.idle.ms": "2000"}, Level.ERROR, "connections.max.idle.ms"),
        (
            {},
            {"group.consumer.heartbeat.interval.ms": "20000"},
            Level.WARNING,
            "group.consumer.session.timeout.ms 45000",
        ),
        ({}, {"offsets.retention.minutes": "10"}, Level.WARNING, "offsets.retention.minutes"),
    ],
)
def test_contradicting_settings_are_found_with_a_remedy(
    settings: dict[str, Any], broker: dict[str, str], level: Level, text: str
) -> None:
    (found,) = contradictions(settings, broker)
    assert (found.level, text in found.text) == (level, True), found
    assert bool(found.remedy) == (level is not Level.OK)


def test_a_consumer_of_the_new_protocol_has_no_session_of_its_own() -> None:
    broker = {"group.max.session.timeout.ms": "30000"}
    (found,) = contradictions({"group.protocol": "consumer"}, broker)
    assert found.level is Level.OK
