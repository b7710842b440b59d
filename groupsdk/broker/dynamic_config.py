"""Change settings of brokers while they run (Kafka: `DynamicBrokerConfig`)."""

import logging
from collections.abc import Iterable, Mapping

from groupsdk.broker.config import KINDS, BrokerConfig, dotted
from groupsdk.broker.log.errors import InvalidLogConfigError
from groupsdk.broker.log_manager import topic_defaults
from groupsdk.broker.setting_types import DYNAMIC
from groupsdk.errors import ConfigError


_LOG = logging.getLogger(__name__)


def problem(
    entries: Mapping[str, str], before: Mapping[str, str], base: BrokerConfig
) -> str | None:
    """Return why settings cannot be stored for brokers; None if they can.

    Args:
        entries: all settings to store, by dotted key.
        before: the stored settings; an entry that is unchanged may be one that is not dynamic.
        base: the settings that the broker was started with.
    """
    known = {dotted(name) for name in KINDS}
    changed = [
        key
        for key in sorted(entries.keys() | before.keys())
        if entries.get(key) != before.get(key) and key in known - DYNAMIC
    ]
    if changed:
        return f"Cannot update these configs dynamically: [{', '.join(changed)}]"
    try:
        _overlaid(base, entries)
    except (ConfigError, InvalidLogConfigError) as error:
        return str(error)
    return None


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
            _LOG.error("ignoring the settings changed while the broker ran: %s", error)
    return config


def _overlaid(base: BrokerConfig, entries: Mapping[str, str]) -> BrokerConfig:
    given = {key: value for key, value in entries.items() if key in DYNAMIC}
    if not given:
        return base
    config = BrokerConfig.of({**{dotted(name): each for name, each in vars(base).items()}, **given})
    topic_defaults(config)
    return config
