"""Handle DescribeUserScramCredentials and AlterUserScramCredentials (KIP-554).

DescribeClientQuotas is here since Kafka's tools ask for the quotas of a user before they show its credentials.
"""

from collections.abc import Sequence
from itertools import islice
from typing import Final

from groupsdk.broker.server.call import Call, cluster_allowed
from groupsdk.broker.server.pace import Pace, Steps, counted
from groupsdk.broker.server.sasl_servers import Authentication
from groupsdk.broker.server.scram import (
    MAX_ITERATIONS,
    MECHANISM_NUMBERS,
    MIN_ITERATIONS,
    ScramCredential,
    ScramCredentials,
    from_salted,
)
from groupsdk.error_code import ErrorCode
from groupsdk.wire.messages import security as messages


Change = messages.ScramCredentialDeletion | messages.ScramCredentialUpsertion

_USERS_AT_ONCE: Final = 128
_MAX_SALT: Final = 1024
"""The most bytes of a salt or salted password; clients send about 24, and the hash's 32 or 64."""
_ENTITY_TYPES: Final = ("user", "client-id", "ip")
_EXACT: Final = 0
_MATCH_TYPES: Final = range(3)
_NUMBERS: Final = {name: number for number, name in MECHANISM_NUMBERS.items()}


def _credentials(call: Call) -> ScramCredentials:
    authentication: Authentication | None = call.node.authentication
    if authentication is not None:
        return authentication.scram
    # users can be created without a SASL listener, for one that is configured later
    cluster = call.node.cluster
    if cluster.scram is None:
        cluster.scram = ScramCredentials(cluster.catalogue.store, {})
    found: ScramCredentials = cluster.scram
    return found


def describe_credentials(
    call: Call, request: messages.DescribeUserScramCredentialsRequest
) -> Steps:
    """List the mechanisms and iterations of users' credentials, never the credentials, in steps.

    Requires "describe" on the cluster.
    """
    if not cluster_allowed(call, "describe"):
        code = ErrorCode.CLUSTER_AUTHORIZATION_FAILED
        return messages.DescribeUserScramCredentialsResponse(
            error_code=code, error_message=code.text
        )
    credentials = _credentials(call)
    asked = (user.name for user in request.users) if request.users else iter(credentials.users())
    counts = yield from counted(asked)
    results = []
    pace = Pace()
    for name, count in counts.items():
        if pace.due():
            call.large = True
            yield
        results.append(_described(credentials, name, count))
    return messages.DescribeUserScramCredentialsResponse(error_message=None, results=tuple(results))


def _described(
    credentials: ScramCredentials, name: str, count: int
) -> messages.DescribeUserScramCredentialsResult:
    stored = credentials.stored(name)
    if count > 1:
        code, text = ErrorCode.DUPLICATE_RESOURCE, "Cannot describe a user twice in one request"
        return messages.DescribeUserScramCredentialsResult(name, code, text)
    if not stored:
        code = ErrorCode.RESOURCE_NOT_FOUND
        text = f"Attempt to describe a user credential that does not exist: {name}"
        return messages.DescribeUserScramCredentialsResult(name, code, text)
    infos = tuple(messages.CredentialInfo(_NUMBERS[each], found) for each, found in stored.items())
    return messages.DescribeUserScramCredentialsResult(name, 0, None, infos)


def alter_credentials(call: Call, request: messages.AlterUserScramCredentialsRequest) -> Steps:
    """Set and remove credentials, in steps; a user with an invalid change is left unchanged.

    Each step writes the changes of some users, all changes of a user in one write, which may take as long as the disk
    takes to sync. Requires "alter" on the cluster.
    """
    pace = Pace()
    users: dict[str, list[Change]] = {}
    asked: tuple[Change, ...] = (*request.deletions, *request.upsertions)
    for each in asked:
        if pace.due():
            yield
        users.setdefault(each.name, []).append(each)
    denied = None
    if not cluster_allowed(call, "alter"):
        code = ErrorCode.CLUSTER_AUTHORIZATION_FAILED
        denied = (code, code.text)
    credentials = _credentials(call)
    results: list[messages.AlterUserScramCredentialsResult] = []
    left = iter(users.items())
    while some := tuple(islice(left, _USERS_AT_ONCE)):
        if results:
            yield
        written: dict[tuple[str, str], ScramCredential | None] = {}
        for name, changes in some:
            refusal = denied or _refusal(credentials, changes)
            if refusal is None:
                written |= (((name, MECHANISM_NUMBERS[x.mechanism]), _made(x)) for x in changes)
            results.append(messages.AlterUserScramCredentialsResult(name, *(refusal or (0, None))))
        if written:
            credentials.put(written)
    return messages.AlterUserScramCredentialsResponse(results=tuple(results))


def _made(change: Change) -> ScramCredential | None:
    if isinstance(change, messages.ScramCredentialDeletion):
        return None
    mechanism = MECHANISM_NUMBERS[change.mechanism]
    return from_salted(mechanism, change.salt, change.salted_password, change.iterations)


def _refusal(
    credentials: ScramCredentials, changes: Sequence[Change]
) -> tuple[ErrorCode, str] | None:
    """Return the first error in the changes of one user."""
    if not changes[0].name:
        return ErrorCode.UNACCEPTABLE_CREDENTIAL, "Username must not be empty"
    if len({each.mechanism for each in changes}) < len(changes):
        text = "A user credential cannot be altered twice in the same request"
        return ErrorCode.DUPLICATE_RESOURCE, text
    found = (_refusal_of_one(credentials, each) for each in changes)
    return next((each for each in found if each is not None), None)


def _refusal_of_one(credentials: ScramCredentials, change: Change) -> tuple[ErrorCode, str] | None:
    if change.mechanism not in MECHANISM_NUMBERS:
        return ErrorCode.UNSUPPORTED_SASL_MECHANISM, "Unknown SCRAM mechanism"
    if isinstance(change, messages.ScramCredentialUpsertion):
        problem = _problem(change)
        return None if problem is None else (ErrorCode.UNACCEPTABLE_CREDENTIAL, problem)
    if MECHANISM_NUMBERS[change.mechanism] not in credentials.stored(change.name):
        text = "Attempt to delete a user credential that does not exist"
        return ErrorCode.RESOURCE_NOT_FOUND, text
    return None


def _problem(asked: messages.ScramCredentialUpsertion) -> str | None:
    if not MIN_ITERATIONS <= asked.iterations <= MAX_ITERATIONS:
        return f"Iterations must be from {MIN_ITERATIONS} to {MAX_ITERATIONS}"
    if not asked.salt or not asked.salted_password:
        return "A credential needs a salt and a salted password"
    if max(len(asked.salt), len(asked.salted_password)) > _MAX_SALT:
        return f"A salt and a salted password may have at most {_MAX_SALT} bytes each"
    return None


def describe_client_quotas(
    call: Call, request: messages.DescribeClientQuotasRequest
) -> messages.DescribeClientQuotasResponse:
    """Answer that there are no quotas, or as Kafka that the filter is wrong (KIP-546).

    Requires "describe_configs" on the cluster.
    """
    if not cluster_allowed(call, "describe_configs"):
        code = ErrorCode.CLUSTER_AUTHORIZATION_FAILED
        return messages.DescribeClientQuotasResponse(0, code, code.text, None)
    problem = _filter_problem(request.components)
    if problem is not None:
        return messages.DescribeClientQuotasResponse(0, *problem, None)
    return messages.DescribeClientQuotasResponse()


def _filter_problem(filters: Sequence[messages.ClientQuotaFilter]) -> tuple[ErrorCode, str] | None:
    seen: set[str] = set()
    for each in filters:
        kind = each.entity_type
        if not kind:
            return ErrorCode.INVALID_REQUEST, "a filter has no entity type"
        if kind in seen:
            return ErrorCode.INVALID_REQUEST, f"two filters are for the entity type {kind}"
        if kind not in _ENTITY_TYPES:
            text = f"the entity type {kind!r} must be one of {', '.join(_ENTITY_TYPES)}"
            return ErrorCode.UNSUPPORTED_VERSION, text
        if each.match_type not in _MATCH_TYPES:
            return ErrorCode.INVALID_REQUEST, f"unknown match type {each.match_type}"
        if (each.match is not None) != (each.match_type == _EXACT):
            text = f"{kind}: match type 0 needs a name to match, and the others must not have one"
            return ErrorCode.INVALID_REQUEST, text
        seen.add(kind)
    if "ip" in seen and len(seen) > 1:
        return ErrorCode.INVALID_REQUEST, "ip cannot be combined with other entity types"
    return None
