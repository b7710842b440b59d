from typing import Any

import pytest

from groupsdk.errors import ConfigError
from groupsdk.settings.config import DEFAULT_INTERVAL_MS, ConsumerMemberConfig
from tests.member.consumer.driving import SETTINGS
from tests.support.cases import each_case


def test_a_member_has_what_every_member_has_and_its_own() -> None:
    config = ConsumerMemberConfig(**SETTINGS, server_assignor="range", rack_id="r1")
    assert config.heartbeat_interval_ms == DEFAULT_INTERVAL_MS
    assert config.poll_interval_ms == 60_000
    assert config.servers == (("broker-1", 9092),)


@each_case(
    ("settings", "named"),
    (
        ({"server_assignor": ""}, "group.remote.assignor"),
        ({"server_assignor": 3}, "group.remote.assignor"),
        ({"rack_id": ""}, "client.rack"),
        ({"group_id": ""}, "group.id"),
    ),
)
def test_bad_consumer_member_setting_is_refused_by_name(
    settings: dict[str, Any], named: str
) -> None:
    with pytest.raises(ConfigError, match=named):
        ConsumerMemberConfig(**(SETTINGS | settings))
