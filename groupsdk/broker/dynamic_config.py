"""Change settings of brokers while they run, as Kafka's `DynamicBrokerConfig` does."""

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
    """Return why entries cannot be set for brokers; None if they can.

    Args:
        entries: everything that is to be set, by dotted key.
        before: what was set until now; an entry that stays as it is is not a change.
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
    """Return the settings that hold once all layers are applied, the last one first.

    A layer that an earlier version wrote and this one refuses is ignored, with an error in the log: a broker
    must start.
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
