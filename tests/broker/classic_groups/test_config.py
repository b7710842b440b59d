import pytest

from groupsdk.broker.classic_groups.config import GroupConfig
from groupsdk.errors import ConfigError


def test_the_defaults_are_kafkas() -> None:
    config = GroupConfig()

    assert config.group_min_session_timeout_ms == 6_000
    assert config.group_max_session_timeout_ms == 1_800_000
    assert config.group_initial_rebalance_delay_ms == 3_000
    assert config.group_max_size == 2**31 - 1
    assert config.offset_metadata_max_bytes == 4_096
    assert config.offsets_retention_ms == 7 * 24 * 3_600_000
    assert config.offsets_retention_check_interval_ms == 600_000


@pytest.mark.parametrize(
    ("fields", "says"),
    [
        ({"group_max_size": 0}, "group.max.size must be from 1"),
        (
            {"offsets_retention_minutes": 2**31},
            "offsets.retention.minutes must be from 1 to 2147483647",
        ),
        (
            {"group_initial_rebalance_delay_ms": -1},
            "group.initial.rebalance.delay.ms must be from 0",
        ),
        (
            {"group_max_session_timeout_ms": 5_000},
            "group.min.session.timeout.ms=6000 must not be greater",
        ),
    ],
)
def test_what_cannot_be_is_refused(fields: dict[str, int], says: str) -> None:
    with pytest.raises(ConfigError, match=says):
        GroupConfig(**fields)


def test_the_bounds_themselves_are_good() -> None:
    config = GroupConfig(group_initial_rebalance_delay_ms=0, group_max_size=1)

    assert (config.group_initial_rebalance_delay_ms, config.group_max_size) == (0, 1)
