"""The settings of consumer groups: the broker's, with their bounds, and per-group overrides."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, fields
from enum import Enum
from typing import Final

from groupsdk.errors import ConfigError
from groupsdk.limits import MAX_INT32


RELEASES: Final = ("4.3", "4.4")
"""The Kafka releases between which behaviour differs."""


class MigrationPolicy(Enum):
    """The directions in which a group with members may migrate between the classic and consumer protocols."""

    BIDIRECTIONAL = "bidirectional"
    UPGRADE = "upgrade"
    DOWNGRADE = "downgrade"
    DISABLED = "disabled"

    @property
    def upgrades(self) -> bool:
        """Whether a classic group with members may become a consumer group."""
        return self in {MigrationPolicy.BIDIRECTIONAL, MigrationPolicy.UPGRADE}

    @property
    def downgrades(self) -> bool:
        """Whether a consumer group may become a classic one when its last consumer protocol member leaves."""
        return self in {MigrationPolicy.BIDIRECTIONAL, MigrationPolicy.DOWNGRADE}


@dataclass(frozen=True, slots=True, kw_only=True)
class ConsumerGroupConfig:
    """The broker's settings of consumer groups; the defaults are Kafka 4.3's. Times are in milliseconds.

    Raises:
        ConfigError: a value is out of its bounds, or the session is not longer than the heartbeat interval.
    """

    group_consumer_session_timeout_ms: int = 45_000
    """How long a member may go without a heartbeat."""
    group_consumer_min_session_timeout_ms: int = 45_000
    """The lower bound of the session timeout, also of a group's own."""
    group_consumer_max_session_timeout_ms: int = 60_000
    """The upper bound of the session timeout, also of a group's own."""
    group_consumer_heartbeat_interval_ms: int = 5_000
    """The heartbeat interval that responses ask members to keep."""
    group_consumer_min_heartbeat_interval_ms: int = 5_000
    """The lower bound of the heartbeat interval, also of a group's own."""
    group_consumer_max_heartbeat_interval_ms: int = 15_000
    """The upper bound of the heartbeat interval, also of a group's own."""
    group_consumer_assignment_interval_ms: int = 1_000
    """The shortest time between two target assignments of a group (KIP-1263)."""
    group_consumer_min_assignment_interval_ms: int = 0
    """The lower bound of the assignment interval, also of a group's own."""
    group_consumer_max_assignment_interval_ms: int = 15_000
    """The upper bound of the assignment interval, also of a group's own."""
    group_consumer_assignor_timeout_ms: int = 5_000
    """The time after which an assignor is abandoned; not a Kafka setting."""
    group_consumer_max_size: int = MAX_INT32
    """The most members in a group."""
    group_consumer_migration_policy: str = "bidirectional"
    """A value of `MigrationPolicy`."""
    group_consumer_regex_refresh_interval_ms: int = 600_000
    """How often regular expressions are resolved again while topics do not change."""
    group_consumer_release: str = "4.3"
    """The Kafka release to follow where releases differ; not a Kafka setting."""
    group_max_size: int = MAX_INT32
    """The most members in a classic group, which a downgrade must not exceed."""

    def __post_init__(self) -> None:
        for each in fields(self):
            value = getattr(self, each.name)
            if isinstance(value, int) and not 0 <= value <= MAX_INT32:
                key = each.name.replace("_", ".")
                raise ConfigError(f"{key} must be from 0 to {MAX_INT32}, not {value}")
        for name, (low, high) in self._bounds().items():
            value = getattr(self, f"group_consumer_{name}")
            if not low <= value <= high:
                key = f"group.consumer.{name.replace('_', '.')}"
                raise ConfigError(f"{key} must be from {low} to {high}, not {value}")
        if self.group_consumer_heartbeat_interval_ms >= self.group_consumer_session_timeout_ms:
            raise ConfigError(
                "group.consumer.heartbeat.interval.ms must be less than group.consumer.session.timeout.ms"
            )
        policies = [each.value for each in MigrationPolicy]
        if self.group_consumer_migration_policy not in policies:
            raise ConfigError(
                f"group.consumer.migration.policy must be one of {', '.join(policies)}, not"
                f" {self.group_consumer_migration_policy!r}"
            )
        if self.group_consumer_release not in RELEASES:
            raise ConfigError(
                f"group.consumer.release must be one of {', '.join(RELEASES)}, not"
                f" {self.group_consumer_release!r}"
            )

    def _bounds(self) -> dict[str, tuple[int, int]]:
        names = ("session_timeout_ms", "heartbeat_interval_ms", "assignment_interval_ms")
        return {
            name: (
                getattr(self, f"group_consumer_min_{name}"),
                getattr(self, f"group_consumer_max_{name}"),
            )
            for name in names
        }

    def bounds_of(self, key: str) -> tuple[int, int]:
        """Return the lower and upper bound of a group's setting, by its dotted key (`consumer.session.timeout.ms`)."""
        return self._bounds()[key.removeprefix("consumer.").replace(".", "_")]

    @property
    def follows_4_4(self) -> bool:
        """Whether to follow Kafka 4.4 where it differs from 4.3."""
        return self.group_consumer_release == "4.4"

    @property
    def policy(self) -> MigrationPolicy:
        """The directions in which groups may migrate."""
        return MigrationPolicy(self.group_consumer_migration_policy)


GROUP_SETTINGS: Final = (
    "consumer.session.timeout.ms",
    "consumer.heartbeat.interval.ms",
    "consumer.assignment.interval.ms",
)
"""The settings that a group may override; the broker's setting has the same name with the prefix `group.`."""

_BROKER_FIELDS: Final = {each: f"group_{each.replace('.', '_')}" for each in GROUP_SETTINGS}

GroupSettings = Callable[[str], Mapping[str, str]]
"""Returns a group's own settings by dotted key; empty if it has none."""


def no_group_settings(group_id: str) -> Mapping[str, str]:
    """Return no settings, for any group."""
    return {}


class EffectiveSettings:
    """The effective settings of a group: its own, limited to the broker's bounds (KIP-1240), else the broker's.

    Args:
        config: returns the broker's settings, which may change while it runs.
        own: returns a group's own settings.
    """

    __slots__ = ("_own", "config")

    def __init__(self, config: Callable[[], ConsumerGroupConfig], own: GroupSettings) -> None:
        self.config = config
        self._own = own

    def session_timeout_ms(self, group_id: str) -> int:
        """Return the session timeout of a group's members in milliseconds."""
        return self._value(group_id, "consumer.session.timeout.ms")

    def heartbeat_interval_ms(self, group_id: str) -> int:
        """Return the heartbeat interval of a group's members in milliseconds."""
        return self._value(group_id, "consumer.heartbeat.interval.ms")

    def assignment_interval_ms(self, group_id: str) -> int:
        """Return the shortest time between two target assignments of a group in milliseconds."""
        return self._value(group_id, "consumer.assignment.interval.ms")

    def _value(self, group_id: str, key: str) -> int:
        config = self.config()
        text = self._own(group_id).get(key)
        if text is None:
            value: int = getattr(config, _BROKER_FIELDS[key])
            return value
        low, high = config.bounds_of(key)
        return min(max(int(text), low), high)


def group_settings_problem(entries: Mapping[str, str], config: ConsumerGroupConfig) -> str | None:
    """Return why a group's settings are invalid; None if they are valid (Kafka: GroupConfig.validate).

    Args:
        entries: the settings by dotted key, as sent by a client.
        config: the broker's settings, with the bounds.
    """
    values: dict[str, int] = {}
    for key, text in entries.items():
        if key not in GROUP_SETTINGS:
            return f"Unknown group config name: {key}"
        try:
            values[key] = int(text)
        except ValueError:
            return f"Invalid value {text} for configuration {key}: Not a number of type INT"
        low, high = config.bounds_of(key)
        bound = key.removeprefix("consumer.")
        if values[key] < low:
            return f"{key} must be greater than or equal to group.consumer.min.{bound}"
        if values[key] > high:
            return f"{key} must be less than or equal to group.consumer.max.{bound}"
    session = values.get(GROUP_SETTINGS[0], config.group_consumer_session_timeout_ms)
    interval = values.get(GROUP_SETTINGS[1], config.group_consumer_heartbeat_interval_ms)
    if session <= interval:
        return "consumer.session.timeout.ms must be greater than consumer.heartbeat.interval.ms"
    return None
