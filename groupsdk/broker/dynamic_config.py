"""Change settings of brokers while they run (Kafka: `DynamicBrokerConfig`)."""

import logging
import re
from collections.abc import Iterable, Mapping

from groupsdk.broker.config import KINDS, BrokerConfig, dotted
from groupsdk.broker.kafka_settings import (
    CLUSTER_WIDE,
    KAFKA_SETTINGS,
    LISTENER_ONLY,
    ONE_BROKER_ONLY,
)
from groupsdk.broker.kept_settings import BROKER_SETTINGS, value_problem
from groupsdk.broker.log.errors import InvalidLogConfigError
from groupsdk.broker.log_manager import topic_defaults
from groupsdk.broker.setting_types import DYNAMIC
from groupsdk.errors import ConfigError


logger = logging.getLogger(__name__)
_OF_LISTENER = re.compile(r"listener\.name\.[^.]*\.(.*)")


def problem(
    entries: Mapping[str, str],
    before: Mapping[str, str],
    base: BrokerConfig,
    *,
    for_all: bool = False,
) -> str | None:
    """Return why settings cannot be stored for brokers, in Kafka's order of checks; None if they can.

    Args:
        entries: all settings to store, by dotted key.
        before: the stored settings; an entry that is unchanged may be one that is not dynamic.
        base: the settings that the broker was started with.
        for_all: whether they are for all brokers, not for one of them.
    """
    changed = [
        key for key in sorted(entries.keys() | before.keys()) if entries.get(key) != before.get(key)
    ]
    refused = [key for key in changed if not _is_dynamic(key)]
    if refused:
        return f"Cannot update these configs dynamically: [{', '.join(refused)}]"
    refused = [key for key in changed if key in LISTENER_ONLY]
    if refused:
        return (
            "These security configs can be dynamically updated only per-listener using the listener prefix:"
            f" [{', '.join(refused)}]"
        )
    try:
        _overlaid(base, entries)
    except (ConfigError, InvalidLogConfigError) as error:
        return str(error)
    kept = (
        value_problem(key, BROKER_SETTINGS[key], value)
        for key, value in entries.items()
        if key in BROKER_SETTINGS
    )
    found = next(filter(None, kept), None)
    refused = [key for key in changed if _is_of_one_broker(key)] if for_all else []
    if found is None and refused:
        return (
            "Cannot update these configs at default cluster level, broker id must be specified:"
            f" [{', '.join(refused)}]"
        )
    return found


def _is_dynamic(key: str) -> bool:
    """Return whether a setting can be stored: one that takes effect, or that is kept without effect."""
    if key in DYNAMIC or key in LISTENER_ONLY:
        return True
    if key in KAFKA_SETTINGS:
        return KAFKA_SETTINGS[key].changeable
    return key.replace(".", "_") not in KINDS


def _is_of_one_broker(key: str) -> bool:
    prefixed = _OF_LISTENER.fullmatch(key)
    return key in ONE_BROKER_ONLY or (prefixed is not None and prefixed[1] not in CLUSTER_WIDE)


def effective_config(base: BrokerConfig, layers: Iterable[Mapping[str, str]]) -> BrokerConfig:
    """Return the settings in effect once all layers are applied, the last one with the highest precedence.

    A layer that is not valid (any more) is ignored, with an error in the log: a broker must start.

    Args:
        base: the settings that the broker was started with.
        layers: stored settings by dotted key; those that are not dynamic are ignored.
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
    given = {key: value for key, value in entries.items() if key in DYNAMIC}
    if not given:
        return base
    config = BrokerConfig.of({**{dotted(name): each for name, each in vars(base).items()}, **given})
    topic_defaults(config)
    return config
