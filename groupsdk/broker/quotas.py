"""Store client quotas in the catalogue, and find those that a filter matches (KIP-546).

Quotas are stored and described, but not enforced.
"""

import json
import math
from collections.abc import Iterator, Mapping, Sequence
from ipaddress import ip_address
from typing import TYPE_CHECKING, Final

from groupsdk.wire.messages.describe_client_quotas import ANY, DEFAULT, ComponentData


if TYPE_CHECKING:
    from groupsdk.broker.catalogue import Catalogue


Entity = Mapping[str, str | None]
"""The names of an entity by type; None is the default entity of its type."""

IP: Final = "ip"
ENTITY_TYPES: Final = ("user", "client-id", IP)
_RESOURCE: Final = "quota"
_WHOLE: Final = "whole"
_ANY_NUMBER: Final = "any"
_CLIENT_KEYS: Final = {
    "producer_byte_rate": _WHOLE,
    "consumer_byte_rate": _WHOLE,
    "request_percentage": _ANY_NUMBER,
    "controller_mutation_rate": _ANY_NUMBER,
}
_IP_KEYS: Final = {"connection_creation_rate": _WHOLE}


def entity_problem(entity: Entity) -> str | None:
    """Return why an entity cannot have quotas; None if it can (Kafka: ClientQuotaControlManager)."""
    if not entity:
        return "Invalid empty client quota entity"
    for kind, name in entity.items():
        if kind not in ENTITY_TYPES:
            return f"Unhandled client quota entity type: {kind}"
        if name == "":
            return f"Empty {kind} not supported"
    if IP not in entity:
        return None
    if len(entity) > 1:
        return "Invalid quota entity combination, IP entity should not be combined with User or ClientId"
    name = entity[IP]
    if name is not None:
        try:
            ip_address(name)
        except ValueError:
            return f"{name} is not a valid IP address"
    return None


def value_problem(entity: Entity, key: str, value: float) -> str | None:
    """Return why a quota is invalid for an entity; None if it is valid.

    Args:
        entity: the entity, which decides on the quotas it can have.
        key: the name of the quota, such as "producer_byte_rate".
        value: its value.
    """
    form = (_IP_KEYS if IP in entity else _CLIENT_KEYS).get(key)
    if form is None:
        return f"Invalid configuration key {key}"
    if not math.isfinite(value):
        # Kafka accepts NaN, which is of no use to a client
        return f"Quota {key} must be a finite number, not {value}"
    if value <= 0:
        return f"Quota {key} must be greater than 0"
    if form == _WHOLE and value != int(value):
        return f"{key} cannot be a fractional value."
    return None


def change_quotas(
    catalogue: "Catalogue", entity: Entity, changes: Mapping[str, float | None]
) -> None:
    """Set or remove quotas of an entity.

    Args:
        catalogue: stores the quotas.
        entity: a valid entity.
        changes: the new value by the name of the quota; None removes it.

    Raises:
        StoreError: the change cannot be written.
    """
    name = _name(entity)
    entries = dict(catalogue.config(_RESOURCE, name))
    for key, value in changes.items():
        if value is None:
            entries.pop(key, None)
        else:
            entries[key] = repr(value)
    catalogue.set_config(_RESOURCE, name, entries)


def count_entities(catalogue: "Catalogue") -> int:
    """Return how many entities have quotas."""
    return len(catalogue.configured(_RESOURCE))


def matching_quotas(
    catalogue: "Catalogue", components: Sequence[ComponentData], *, strict: bool
) -> Iterator[tuple[Entity, Mapping[str, float]]]:
    """Yield the entities that match a filter, with their quotas.

    Args:
        catalogue: stores the quotas.
        components: the filter, of which every component must match.
        strict: exclude entities with a type that no component names.
    """
    for name in catalogue.configured(_RESOURCE):
        entity: dict[str, str | None] = json.loads(name)
        if strict and len(entity) != len(components):
            continue
        if all(_matches(entity, each) for each in components):
            entries = catalogue.config(_RESOURCE, name)
            yield entity, {key: float(value) for key, value in entries.items()}


def _matches(entity: Entity, component: ComponentData) -> bool:
    if component.entity_type not in entity:
        return False
    if component.match_type == ANY:
        return True
    wanted = None if component.match_type == DEFAULT else component.match
    return entity[component.entity_type] == wanted


def _name(entity: Entity) -> str:
    return json.dumps(dict(entity), sort_keys=True)
