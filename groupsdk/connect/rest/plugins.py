"""Describe connectors' classes and try configurations, in the shapes of Kafka Connect (`ConfigInfos`).

Classes here say which keys they need and no more, so every key is a text without a default.
"""

from collections.abc import Mapping
from typing import Any, Final

from groupsdk.connect.connector_config import check_config
from groupsdk.connect.errors import ConnectorConfigError, UnknownConnectorError
from groupsdk.connect.secrets import NO_PROVIDERS, ConfigProviders, masked
from groupsdk.connect.task import CLASS_KEY, Connector


_GROUP: Final = "Common"


def listed(classes: Mapping[str, type[Connector]]) -> list[dict[str, Any]]:
    """Return all classes that configurations may name."""
    return [
        {"class": name, "type": classes[name].kind, "version": classes[name].version}
        for name in sorted(classes)
    ]


def definitions(classes: Mapping[str, type[Connector]], name: str) -> list[dict[str, Any]]:
    """Return the keys that a class needs.

    Raises:
        UnknownConnectorError: there is no such class.
    """
    return [_definition(key, True, order) for order, key in enumerate(_needed(classes, name), 1)]


def validated(
    classes: Mapping[str, type[Connector]],
    name: str,
    config: Mapping[str, str],
    providers: ConfigProviders = NO_PROVIDERS,
) -> dict[str, Any]:
    """Return what a class says of a configuration, key by key.

    Raises:
        UnknownConnectorError: there is no such class.
    """
    needed = _needed(classes, name)
    errors: dict[str, list[str]] = {}
    if config.get(CLASS_KEY, name) != name:
        errors[CLASS_KEY] = [f"must be {name!r}, as in the path, not {config[CLASS_KEY]!r}"]
    try:
        check_config(classes[name], {CLASS_KEY: name, **config}, providers)
    except ConnectorConfigError as error:
        errors.setdefault(error.field, []).append(error.reason)
    shown = masked(config, classes[name].secrets)
    keys = dict.fromkeys([*needed, *config, *errors])
    return {
        "name": name,
        "error_count": sum(map(len, errors.values())),
        "groups": [_GROUP],
        "configs": [
            {
                "definition": _definition(key, key in needed, order),
                "value": {
                    "name": key,
                    "value": shown.get(key),
                    "recommended_values": [],
                    "errors": errors.get(key, []),
                    "visible": True,
                },
            }
            for order, key in enumerate(keys, 1)
        ],
    }


def _needed(classes: Mapping[str, type[Connector]], name: str) -> list[str]:
    kind = classes.get(name)
    if kind is None:
        raise UnknownConnectorError(f"there is no class {name!r}, only: {', '.join(classes)}")
    return [CLASS_KEY, *kind.required]


def _definition(key: str, required: bool, order: int) -> dict[str, Any]:
    return {
        "name": key,
        "type": "STRING",
        "required": required,
        "default_value": None,
        "importance": "HIGH" if required else "LOW",
        "documentation": "",
        "group": _GROUP,
        "order": order,
        "width": "NONE",
        "display_name": key,
        "dependents": [],
    }
