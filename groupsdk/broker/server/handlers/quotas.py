"""Answer DescribeClientQuotas: there are none. Kafka's tools ask before they show a user's SCRAM credentials."""

from typing import Final

from groupsdk.broker.server.access import cluster_allowed
from groupsdk.broker.server.call import Call
from groupsdk.error_code import ErrorCode
from groupsdk.wire.messages.describe_client_quotas import (
    ANY,
    EXACT,
    ComponentData,
    DescribeClientQuotasRequest,
    DescribeClientQuotasResponse,
)


_IP: Final = "ip"
_TYPES: Final = ("user", "client-id", _IP)


def describe_client_quotas(
    call: Call, request: DescribeClientQuotasRequest
) -> DescribeClientQuotasResponse:
    """List no quotas, after the checks of Kafka's ClientQuotasImage."""
    if not cluster_allowed(call, "describe_configs"):
        code = ErrorCode.CLUSTER_AUTHORIZATION_FAILED
        return DescribeClientQuotasResponse(0, code, code.text, None)
    problem = _problem(request.components)
    if problem is not None:
        return DescribeClientQuotasResponse(0, *problem, None)
    return DescribeClientQuotasResponse(error_message=None)


def _problem(components: tuple[ComponentData, ...]) -> tuple[ErrorCode, str] | None:
    seen: set[str] = set()
    for each in components:
        kind = each.entity_type
        if not kind:
            return ErrorCode.INVALID_REQUEST, "a component of the filter has no entity type"
        if kind in seen:
            text = f"the filter names the entity type {kind} twice"
            return ErrorCode.INVALID_REQUEST, text
        if kind not in _TYPES:
            text = f"the entity type {kind!r} is none of {', '.join(_TYPES)}"
            return ErrorCode.UNSUPPORTED_VERSION, text
        if not EXACT <= each.match_type <= ANY:
            return ErrorCode.INVALID_REQUEST, f"there is no match type {each.match_type}"
        if (each.match is not None) != (each.match_type == EXACT):
            text = f"{kind}: an exact match, and no other, needs a string to match"
            return ErrorCode.INVALID_REQUEST, text
        seen.add(kind)
    if _IP in seen and len(seen) > 1:
        text = "a filter by ip goes with no other one"
        return ErrorCode.INVALID_REQUEST, text
    return None
