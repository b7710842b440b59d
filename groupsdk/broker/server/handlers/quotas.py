"""Handle DescribeClientQuotas and AlterClientQuotas: quotas are stored and described, but not enforced.

Lists are in the order of Kafka's hash tables, which clients' own tests expect.
"""

from collections.abc import Iterable, Mapping
from typing import Final

from groupsdk.broker.consumer_groups.hash_order import HashOrder, text_hash
from groupsdk.broker.quotas import (
    ENTITY_TYPES,
    IP,
    Entity,
    change_quotas,
    count_entities,
    entity_problem,
    matching_quotas,
    value_problem,
)
from groupsdk.broker.server.call import Call, cluster_allowed
from groupsdk.error_code import ErrorCode
from groupsdk.wire.messages.alter_client_quotas import (
    AlterClientQuotasRequest,
    AlterClientQuotasResponse,
    EntityData as AlteredEntityData,
    EntryRequest,
    EntryResponse,
)
from groupsdk.wire.messages.describe_client_quotas import (
    ANY,
    EXACT,
    ComponentData,
    DescribeClientQuotasRequest,
    DescribeClientQuotasResponse,
    EntityData,
    EntryData,
    ValueData,
)


_CAPACITY: Final = 16


def describe_client_quotas(
    call: Call, request: DescribeClientQuotasRequest
) -> DescribeClientQuotasResponse:
    """List the quotas that match a filter (Kafka: ClientQuotasImage); requires "describe_configs" on the cluster."""
    if not cluster_allowed(call, "describe_configs"):
        code = ErrorCode.CLUSTER_AUTHORIZATION_FAILED
        return DescribeClientQuotasResponse(0, code, code.text, None)
    problem = _filter_problem(request.components)
    if problem is not None:
        return DescribeClientQuotasResponse(0, *problem, None)
    catalogue = call.node.cluster.catalogue
    found = matching_quotas(catalogue, request.components, strict=request.strict)
    entities = {_name(entity): (entity, values) for entity, values in found}
    capacity = -(-count_entities(catalogue) * 4 // 3)  # Java fills three quarters of a hash table
    order = _entity_order({name: entity for name, (entity, _) in entities.items()}, capacity)
    entries = tuple(_entry(*entities[name]) for name in order)
    return DescribeClientQuotasResponse(error_message=None, entries=entries)


def _name(entity: Entity) -> str:
    return str(sorted(entity.items()))


def _entry(entity: Entity, values: Mapping[str, float]) -> EntryData:
    return EntryData(
        tuple(EntityData(kind, entity[kind]) for kind in _in_table(entity, _CAPACITY)),
        # in Java, the values were in a table of the default size before
        tuple(ValueData(key, values[key]) for key in _in_table(_in_table(values, _CAPACITY), 0)),
    )


def _in_table(keys: Iterable[str], capacity: int) -> HashOrder[str]:
    """Order keys as a HashMap does that is created with a capacity."""
    order = HashOrder[str](text_hash, capacity)
    for key in keys:
        order.put(key)
    return order


def _entity_order(entities: Mapping[str, Entity], capacity: int) -> HashOrder[str]:
    """Order the names of entities as a HashMap of the entities does."""
    order = HashOrder[str](lambda name: _entity_hash(entities[name]), capacity)
    for name in entities:
        order.put(name)
    return order


def _entity_hash(entity: Entity) -> int:
    """Return the hash code of Kafka's ClientQuotaEntity: that of a list that contains the map of its names."""
    parts = (text_hash(kind) ^ text_hash(name or "") for kind, name in entity.items())
    return 31 + sum(parts) & 0xFFFFFFFF


def alter_client_quotas(call: Call, request: AlterClientQuotasRequest) -> AlterClientQuotasResponse:
    """Set and remove quotas, each entity independently; an entity named twice is refused, as in Kafka.

    Requires "alter_configs" on the cluster.
    """
    answers: dict[str, EntryResponse] = {}
    entities: dict[str, Entity] = {}
    for entry in request.entries:
        entity = {each.entity_type: each.entity_name for each in entry.entity}
        name = _name(entity)
        problem: tuple[int, str | None] | None
        if not cluster_allowed(call, "alter_configs"):
            forbidden = ErrorCode.CLUSTER_AUTHORIZATION_FAILED
            problem = forbidden, forbidden.text
        elif name in answers:
            problem = ErrorCode.INVALID_REQUEST, f"the entity {entity} is named twice"
        else:
            problem = _alter(call, entry, entity, validate_only=request.validate_only)
        names = tuple(
            AlteredEntityData(kind, entity[kind]) for kind in _in_table(entity, len(entity))
        )
        code, text = problem or (0, None)
        answers[name], entities[name] = EntryResponse(code, text, names), entity
    order = _entity_order(entities, _CAPACITY)
    return AlterClientQuotasResponse(entries=tuple(answers[name] for name in order))


def _alter(
    call: Call, entry: EntryRequest, entity: Entity, *, validate_only: bool
) -> tuple[ErrorCode, str] | None:
    text = entity_problem(entity)
    changes: dict[str, float | None] = {}
    for each in entry.ops:
        if each.key in changes:
            text = text or f"the quota {each.key} is named twice"
        changes[each.key] = None if each.remove else each.value
        # removing a quota only needs a valid name
        text = text or value_problem(entity, each.key, 1.0 if each.remove else each.value)
    if text is not None:
        return ErrorCode.INVALID_REQUEST, text
    if not validate_only:
        change_quotas(call.node.cluster.catalogue, entity, changes)
    return None


def _filter_problem(components: tuple[ComponentData, ...]) -> tuple[ErrorCode, str] | None:
    seen: set[str] = set()
    for each in components:
        kind = each.entity_type
        if not kind:
            return ErrorCode.INVALID_REQUEST, "a component of the filter has no entity type"
        if kind in seen:
            text = f"the filter names the entity type {kind} twice"
            return ErrorCode.INVALID_REQUEST, text
        if kind not in ENTITY_TYPES:
            text = f"the entity type {kind!r} must be one of {', '.join(ENTITY_TYPES)}"
            return ErrorCode.UNSUPPORTED_VERSION, text
        if not EXACT <= each.match_type <= ANY:
            return ErrorCode.INVALID_REQUEST, f"unknown match type {each.match_type}"
        if (each.match is not None) != (each.match_type == EXACT):
            text = f"{kind}: an exact match needs a string to match, and other match types must not have one"
            return ErrorCode.INVALID_REQUEST, text
        seen.add(kind)
    if IP in seen and len(seen) > 1:
        text = "a filter by ip cannot be combined with other entity types"
        return ErrorCode.INVALID_REQUEST, text
    return None
