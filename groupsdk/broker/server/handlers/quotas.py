"""Answer DescribeClientQuotas and AlterClientQuotas: quotas are stored and described, but not enforced."""

from groupsdk.broker.quotas import (
    ENTITY_TYPES,
    IP,
    Entity,
    change_quotas,
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


def describe_client_quotas(
    call: Call, request: DescribeClientQuotasRequest
) -> DescribeClientQuotasResponse:
    """List the quotas that match a filter, after the checks of Kafka's ClientQuotasImage."""
    if not cluster_allowed(call, "describe_configs"):
        code = ErrorCode.CLUSTER_AUTHORIZATION_FAILED
        return DescribeClientQuotasResponse(0, code, code.text, None)
    problem = _filter_problem(request.components)
    if problem is not None:
        return DescribeClientQuotasResponse(0, *problem, None)
    found = matching_quotas(call.node.cluster.catalogue, request.components, strict=request.strict)
    entries = tuple(
        EntryData(
            tuple(EntityData(kind, name) for kind, name in entity.items()),
            tuple(ValueData(key, value) for key, value in values.items()),
        )
        for entity, values in found
    )
    return DescribeClientQuotasResponse(error_message=None, entries=entries)


def alter_client_quotas(call: Call, request: AlterClientQuotasRequest) -> AlterClientQuotasResponse:
    """Set and remove quotas, each entity independently; a repeated entity is refused, as in Kafka."""
    answers: dict[str, EntryResponse] = {}
    for entry in request.entries:
        entity = {each.entity_type: each.entity_name for each in entry.entity}
        name = str(sorted(entity.items()))
        problem: tuple[int, str | None] | None
        if not cluster_allowed(call, "alter_configs"):
            forbidden = ErrorCode.CLUSTER_AUTHORIZATION_FAILED
            problem = forbidden, forbidden.text
        elif name in answers:
            problem = ErrorCode.INVALID_REQUEST, f"the entity {entity} is named twice"
        else:
            problem = _alter(call, entry, entity, validate_only=request.validate_only)
        names = tuple(AlteredEntityData(kind, each) for kind, each in entity.items())
        code, text = problem or (0, None)
        answers[name] = EntryResponse(code, text, names)
    return AlterClientQuotasResponse(entries=tuple(answers.values()))


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
            return ErrorCode.INVALID_REQUEST, f"there is no match type {each.match_type}"
        if (each.match is not None) != (each.match_type == EXACT):
            text = f"{kind}: an exact match, and no other, needs a string to match"
            return ErrorCode.INVALID_REQUEST, text
        seen.add(kind)
    if IP in seen and len(seen) > 1:
        text = "a filter by ip goes with no other one"
        return ErrorCode.INVALID_REQUEST, text
    return None
