"""Change settings of brokers while they run (Kafka: `DynamicBrokerConfig`)."""

import logging
from collections.abc import Iterable, Mapping

from groupsdk.broker.settings.table import SETTINGS, BrokerConfig
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
