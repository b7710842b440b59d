"""Handle DescribeAcls, CreateAcls and DeleteAcls."""

from collections.abc import Generator
from typing import Final

from groupsdk.broker.authorizer import Acl, AclFilter, Authorizer, acl_problem
from groupsdk.broker.server.call import Call, cluster_allowed
from groupsdk.broker.server.contract import BadRequestError
from groupsdk.broker.server.error_responses import refuse
from groupsdk.broker.server.pace import Pace, Steps
from groupsdk.error_code import ErrorCode
from groupsdk.wire.messages import security as messages
from groupsdk.wire.schema import Response


_NO_AUTHORIZER = "No Authorizer is configured."
_MANY_ACLS: Final = 512
"""The number of ACLs from which a response is encoded in steps."""
_CHANGED_AT_ONCE: Final = 256
_ADDED: Final = messages.AclCreationResult(0, None)


def describe_acls(call: Call, request: messages.DescribeAclsRequest) -> Response | Steps | None:
    """List the ACLs that match a filter, by resource, in steps; requires "describe" on the cluster.

    Without an authorizer the response is SECURITY_DISABLED.
    """
    _check_known(_filter(request))
    if not cluster_allowed(call, "describe"):
        return refuse(request, ErrorCode.CLUSTER_AUTHORIZATION_FAILED, call.version)
    authorizer = call.node.cluster.authorizer
    if authorizer is None:
        return messages.DescribeAclsResponse(
            error_code=ErrorCode.SECURITY_DISABLED,
            error_message="No Authorizer is configured on the broker",
        )
    return _list_acls(call, request, authorizer)


def _list_acls(call: Call, request: messages.DescribeAclsRequest, authorizer: Authorizer) -> Steps:
    resources: dict[tuple[int, str, int], list[messages.AclDescription]] = {}
    found = yield from _matching_acls(_filter(request), authorizer, Pace())
    call.large = len(found) > _MANY_ACLS
    pace = Pace()
    for acl in found:
        if pace.due():
            yield
        resources.setdefault(acl[:3], []).append(
            messages.AclDescription(acl.principal, acl.host, acl.operation, acl.permission)
        )
    described = []
    for resource, acls in resources.items():
        if pace.due():
            yield
        described.append(messages.DescribeAclsResource(*resource, tuple(acls)))
    return messages.DescribeAclsResponse(error_message=None, resources=tuple(described))


def create_acls(call: Call, request: messages.CreateAclsRequest) -> Response | Steps | None:
    """Add the valid ACLs, in steps, with one result for each; requires "alter" on the cluster.

    Raises BadRequestError if an element of an ACL is UNKNOWN (0).
    """
    for each in request.creations:
        _check_elements(each, each.resource_pattern_type, each.permission_type)
    if not cluster_allowed(call, "alter"):
        return refuse(request, ErrorCode.CLUSTER_AUTHORIZATION_FAILED, call.version)
    authorizer = call.node.cluster.authorizer
    if authorizer is None:
        result = messages.AclCreationResult(ErrorCode.SECURITY_DISABLED, _NO_AUTHORIZER)
        return messages.CreateAclsResponse(results=(result,) * len(request.creations))
    return _add_acls(call, request, authorizer)


def _add_acls(call: Call, request: messages.CreateAclsRequest, authorizer: Authorizer) -> Steps:
    results = []
    call.large = len(request.creations) > _MANY_ACLS
    for start in range(0, len(request.creations), _CHANGED_AT_ONCE):
        if start:
            yield
        valid = []
        for each in request.creations[start : start + _CHANGED_AT_ONCE]:
            acl = _created(each)
            problem = acl_problem(acl)
            if problem is None:
                valid.append(acl)
                results.append(_ADDED)
            else:
                results.append(messages.AclCreationResult(ErrorCode.INVALID_REQUEST, problem))
        authorizer.add(valid)
    return messages.CreateAclsResponse(results=tuple(results))


def _created(asked: messages.AclCreation) -> Acl:
    return Acl(
        resource_type=asked.resource_type,
        resource_name=asked.resource_name,
        pattern_type=asked.resource_pattern_type,
        principal=asked.principal,
        host=asked.host,
        operation=asked.operation,
        permission=asked.permission_type,
    )


def delete_acls(call: Call, request: messages.DeleteAclsRequest) -> Response | Steps | None:
    """Remove the ACLs that match any of the filters, in steps, and list them; requires "alter" on the cluster.

    Raises BadRequestError if an element of a filter is UNKNOWN (0).
    """
    _check_known(*map(_filter, request.filters))
    if not cluster_allowed(call, "alter"):
        return refuse(request, ErrorCode.CLUSTER_AUTHORIZATION_FAILED, call.version)
    authorizer = call.node.cluster.authorizer
    if authorizer is None:
        result = messages.DeleteAclsFilterResult(ErrorCode.SECURITY_DISABLED, _NO_AUTHORIZER)
        return messages.DeleteAclsResponse(filter_results=(result,) * len(request.filters))
    return _remove_acls(call, request, authorizer)


def _remove_acls(call: Call, request: messages.DeleteAclsRequest, authorizer: Authorizer) -> Steps:
    results = []
    pace = Pace()
    for wanted in request.filters:
        gone = yield from _matching_acls(_filter(wanted), authorizer, pace)
        call.large |= len(gone) > _MANY_ACLS
        told: list[messages.DeleteAclsMatchingAcl] = []
        for start in range(0, len(gone), _CHANGED_AT_ONCE):
            if pace.due(_CHANGED_AT_ONCE):
                yield
            some = gone[start : start + _CHANGED_AT_ONCE]
            authorizer.remove(some)
            told += map(_matching, some)
        results.append(messages.DeleteAclsFilterResult(0, None, tuple(told)))
    return messages.DeleteAclsResponse(filter_results=tuple(results))


def _matching_acls(
    wanted: AclFilter, authorizer: Authorizer, pace: Pace
) -> Generator[None, None, list[Acl]]:
    found = []
    for acl in authorizer.matching(wanted):
        if pace.due():
            yield
        if acl is not None:
            found.append(acl)
    return found


def _matching(acl: Acl) -> messages.DeleteAclsMatchingAcl:
    return messages.DeleteAclsMatchingAcl(
        error_code=0,
        error_message=None,
        resource_type=acl.resource_type,
        resource_name=acl.resource_name,
        pattern_type=acl.pattern_type,
        principal=acl.principal,
        host=acl.host,
        operation=acl.operation,
        permission_type=acl.permission,
    )


def _check_known(*asked: Acl | AclFilter) -> None:
    """Reject elements that are UNKNOWN (0) by closing the connection, as Kafka does when it decodes the request."""
    for each in asked:
        _check_elements(each, each.pattern_type, each.permission)


def _check_elements(
    asked: Acl | AclFilter | messages.AclCreation, pattern_type: int, permission: int
) -> None:
    if 0 in (asked.resource_type, pattern_type, asked.operation, permission):
        raise BadRequestError(f"an ACL has an UNKNOWN element: {asked}")


def _filter(asked: messages.DescribeAclsRequest | messages.DeleteAclsFilter) -> AclFilter:
    return AclFilter(
        resource_type=asked.resource_type_filter,
        resource_name=asked.resource_name_filter,
        pattern_type=asked.pattern_type_filter,
        principal=asked.principal_filter,
        host=asked.host_filter,
        operation=asked.operation,
        permission=asked.permission_type,
    )
