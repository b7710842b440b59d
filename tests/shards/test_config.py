"""The settings of a shard worker."""

from typing import Any

import pytest

from groupsdk.errors import ConfigError
from groupsdk.settings.config import MemberConfig
from groupsdk.shards.config import ShardConfig


GROUP: dict[str, Any] = {"bootstrap.servers": "a:1", "group.id": "g"}


def test_dotted_keys_keywords_and_strings_are_the_same() -> None:
    config = ShardConfig.of(
        {**GROUP, "release.timeout.ms": "100", "capacity": "2.5", "capabilities": "gpu, big"},
        standbys=1,
        session_timeout_ms=6_000,
    )
    assert config.member.session_timeout_ms == 6_000
    assert (config.release_timeout_ms, config.capacity, config.standbys) == (100, 2.5, 1)
    assert config.capabilities == frozenset({"gpu", "big"})
    assert config == ShardConfig.given(config, {})


def test_keywords_win_over_a_mapping() -> None:
    assert ShardConfig.of({**GROUP, "standbys": 2}, standbys=1, group_id="h").standbys == 1


def test_a_member_config_is_taken_with_the_workers_own_keywords() -> None:
    member = MemberConfig.of(GROUP)
    assert ShardConfig.given(member, {"zone": "a"}) == ShardConfig(member=member, zone="a")
    with pytest.raises(ConfigError, match="group_id"):
        ShardConfig.given(member, {"group_id": "h"})
    with pytest.raises(ConfigError, match="zone"):
        ShardConfig.given(ShardConfig(member=member), {"zone": "a"})


@pytest.mark.parametrize(
    ("given", "said"),
    [
        ({"release.timeout.ms": 0}, "release.timeout.ms must be an integer from 1"),
        ({"release.timeout.ms": "soon"}, "release.timeout.ms must be a number, not 'soon'"),
        ({"standbys": -1}, "standbys must be an integer from 0"),
        ({"standbys": 1.5}, "standbys must be an integer from 0 to .*, not 1.5"),
        ({"capacity": 0}, "capacity must be over 0"),
        ({"capacity": float("nan")}, "capacity must be over 0"),
        ({"capacity": 10**400}, "capacity must be over 0"),
        ({"load.threshold": "1" * 400}, "load.threshold must be from 1"),
        ({"load.threshold": 0.5}, "load.threshold must be from 1"),
        ({"load.move.budget": "x"}, "load.move.budget must be a number"),
        ({"max.shards": -1}, "max.shards must be an integer from 0"),
        ({"zone": ""}, "zone must have 1 to 249 bytes"),
        ({"capabilities": [3]}, "one of the capabilities must be a string, not 3"),
        ({"capabilities": 3}, "capabilities must be names"),
        ({"endpoint": None}, "endpoint must be a string"),
        ({"epoch.topic": ""}, "epoch.topic must have"),
        ({"release.timeout": 5}, "did you mean release.timeout.ms"),
        ({"session.timeout": 5}, "did you mean session.timeout.ms"),
        ({"standbys": 1, 3: 4}, "must be strings"),
        ({"release.timeout.ms": 5, "release_timeout_ms": 5}, "are the same setting"),
    ],
)
def test_bad_shard_setting_is_refused_with_the_reason(given: dict[Any, Any], said: str) -> None:
    with pytest.raises(ConfigError, match=said):
        ShardConfig.of({**GROUP, **given})


def test_settings_that_are_no_mapping_are_refused() -> None:
    with pytest.raises(ConfigError, match="must be a mapping"):
        ShardConfig.of("g")  # type: ignore[arg-type]
