"""The settings in effect: those of a broker while it runs, and those of a group."""

import logging
from collections.abc import Callable, Iterable, Mapping
from typing import Final

from groupsdk.broker.settings.table import GROUP_SETTINGS, SETTINGS, BrokerConfig, GroupConfig
from groupsdk.broker.settings.topic import InvalidLogConfigError, topic_defaults
from groupsdk.errors import ConfigError


logger = logging.getLogger(__name__)


def problem(
    entries: Mapping[str, str], before: Mapping[str, str], base: BrokerConfig
) -> str | None:
    """Return why settings cannot be stored for brokers; None if they can. An unchanged one need not be dynamic."""
    refused = [
        key
        for key in sorted(entries.keys() | before.keys())
        if entries.get(key) != before.get(key) and not is_dynamic(key)
    ]
    if refused:
        return f"Cannot update these configs dynamically: [{', '.join(refused)}]"
    try:
        _overlaid(base, entries)
    except (ConfigError, InvalidLogConfigError) as error:
        return str(error)
    return None


def is_dynamic(key: str) -> bool:
    """Return whether a change of a broker's setting takes effect while it runs.

    They are fewer than Kafka's: listeners and TLS are read at the start.
    """
    return key in SETTINGS and SETTINGS[key].dynamic


def effective_config(base: BrokerConfig, layers: Iterable[Mapping[str, str]]) -> BrokerConfig:
    """Return the settings in effect once all layers are applied, the last one with the highest precedence.

    A layer that is not valid (any more) is ignored, with an error in the log: a broker must start.
    """
    config = base
    for layer in layers:
        try:
            config = _overlaid(config, layer)
        except (ConfigError, InvalidLogConfigError) as error:
            # without a traceback: the fault is in the stored settings
            logger.error("ignoring the settings changed while the broker ran: %s", error)  # noqa: TRY400
    return config


def _overlaid(base: BrokerConfig, entries: Mapping[str, str]) -> BrokerConfig:
    given = {key: value for key, value in entries.items() if is_dynamic(key)}
    if not given:
        return base
    config = base.changed(**vars(BrokerConfig.of(given)))
    topic_defaults(config)
    return config


_SESSION_TIMEOUT: Final = "consumer.session.timeout.ms"
_HEARTBEAT_INTERVAL: Final = "consumer.heartbeat.interval.ms"
_ASSIGNMENT_INTERVAL: Final = "consumer.assignment.interval.ms"
_FIELDS: Final = {key: name.replace(".", "_") for key, name in GROUP_SETTINGS.items()}

GroupSettings = Callable[[str], Mapping[str, str]]
"""Returns a group's own settings by dotted key; empty if it has none."""


def no_group_settings(group_id: str) -> Mapping[str, str]:
    return {}


class EffectiveSettings:
    """The effective settings of a group: its own, limited to the broker's bounds, else the broker's.

    Args:
        config: returns the broker's settings, which may change while it runs.
    """

    __slots__ = ("_own", "config")

    def __init__(self, config: Callable[[], GroupConfig], own: GroupSettings) -> None:
        self.config = config
        self._own = own

    def heartbeat_times_ms(self, group_id: str) -> tuple[int, int]:
        """Return the session timeout and the heartbeat interval of a group's members: each heartbeat needs both."""
        if self._own(group_id):
            return self.session_timeout_ms(group_id), self._value(group_id, _HEARTBEAT_INTERVAL)
        config = self.config()
        return config.group_consumer_session_timeout_ms, config.group_consumer_heartbeat_interval_ms

    def session_timeout_ms(self, group_id: str) -> int:
        """Return the session timeout of a group's members."""
        return self._value(group_id, _SESSION_TIMEOUT)

    def assignment_interval_ms(self, group_id: str) -> int:
        """Return the shortest time between two target assignments of a group."""
        return self._value(group_id, _ASSIGNMENT_INTERVAL)

    def _value(self, group_id: str, key: str) -> int:
        config = self.config()
        text = self._own(group_id).get(key)
        if text is None:
            value: int = getattr(config, _FIELDS[key])
            return value
        low, high = config.bounds_of(key)
        return min(max(int(text), low), high)


def group_settings_problem(entries: Mapping[str, str], config: GroupConfig) -> str | None:
    """Return why a group's settings, as sent by a client, are invalid; None if they are valid (Kafka: GroupConfig.validate)."""
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
    session = values.get(_SESSION_TIMEOUT, config.group_consumer_session_timeout_ms)
    interval = values.get(_HEARTBEAT_INTERVAL, config.group_consumer_heartbeat_interval_ms)
    if session <= interval:
        return f"{_SESSION_TIMEOUT} must be greater than {_HEARTBEAT_INTERVAL}"
    return None
