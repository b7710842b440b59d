"""Answer DescribeUserScramCredentials and AlterUserScramCredentials."""

from collections import Counter

from groupsdk.broker.server.access import cluster_allowed
from groupsdk.broker.server.call import Call
from groupsdk.broker.server.sasl_servers import Authentication
from groupsdk.broker.server.scram import (
    MAX_ITERATIONS,
    MECHANISM_NUMBERS,
    MIN_ITERATIONS,
    ScramCredentials,
    from_salted,
)
from groupsdk.error_code import ErrorCode
from groupsdk.wire.messages.alter_user_scram_credentials import (
    AlterUserScramCredentialsRequest,
    AlterUserScramCredentialsResponse,
    AlterUserScramCredentialsResult,
    ScramCredentialDeletion,
    ScramCredentialUpsertion,
)
from groupsdk.wire.messages.describe_user_scram_credentials import (
    CredentialInfo,
    DescribeUserScramCredentialsRequest,
    DescribeUserScramCredentialsResponse,
    DescribeUserScramCredentialsResult,
)


Change = ScramCredentialDeletion | ScramCredentialUpsertion

_NUMBERS = {name: number for number, name in MECHANISM_NUMBERS.items()}


def _credentials(call: Call) -> ScramCredentials:
    authentication: Authentication | None = call.node.authentication
    if authentication is not None:
        return authentication.scram
    # without a SASL listener users can be made all the same, for one that is set up later
    return ScramCredentials(call.node.cluster.catalogue.store, {})


def describe_credentials(
    call: Call, request: DescribeUserScramCredentialsRequest
) -> DescribeUserScramCredentialsResponse:
    """Tell which mechanisms users have credentials for; never the credentials."""
    if not cluster_allowed(call, "describe"):
        code = ErrorCode.CLUSTER_AUTHORIZATION_FAILED
        return DescribeUserScramCredentialsResponse(error_code=code, error_message=code.text)
    credentials = _credentials(call)
    asked = [each.name for each in request.users or ()] or credentials.users()
    counts = Counter(asked)
    results = []
    for name in dict.fromkeys(asked):
        stored = credentials.stored(name)
        if counts[name] > 1:
            code, text = ErrorCode.DUPLICATE_RESOURCE, "Cannot describe a user twice in one request"
            results.append(DescribeUserScramCredentialsResult(name, code, text))
        elif not stored:
            code = ErrorCode.RESOURCE_NOT_FOUND
            text = f"Attempt to describe a user credential that does not exist: {name}"
            results.append(DescribeUserScramCredentialsResult(name, code, text))
        else:
            infos = tuple(CredentialInfo(_NUMBERS[each], count) for each, count in stored.items())
            results.append(DescribeUserScramCredentialsResult(name, 0, None, infos))
    return DescribeUserScramCredentialsResponse(error_message=None, results=tuple(results))


def alter_credentials(
    call: Call, request: AlterUserScramCredentialsRequest
) -> AlterUserScramCredentialsResponse:
    """Set and remove credentials; a user with any mistake in it is left as it was."""
    changes: list[Change] = [*request.deletions, *request.upsertions]
    users = list(dict.fromkeys(each.name for each in changes))
    if not cluster_allowed(call, "alter"):
        code = ErrorCode.CLUSTER_AUTHORIZATION_FAILED
        return AlterUserScramCredentialsResponse(
            results=tuple(AlterUserScramCredentialsResult(each, code, code.text) for each in users)
        )
    credentials = _credentials(call)
    twice = Counter((each.name, each.mechanism) for each in changes)
    failed: dict[str, tuple[ErrorCode, str]] = {}
    for each in changes:
        if not each.name:
            failed[each.name] = (ErrorCode.UNACCEPTABLE_CREDENTIAL, "Username must not be empty")
        elif twice[each.name, each.mechanism] > 1:
            text = "A user credential cannot be altered twice in the same request"
            failed[each.name] = (ErrorCode.DUPLICATE_RESOURCE, text)
        else:
            refusal = _refusal(credentials, each)
            if refusal is not None:
                failed[each.name] = refusal
    for each in changes:
        if each.name not in failed:
            mechanism = MECHANISM_NUMBERS[each.mechanism]
            made = None
            if isinstance(each, ScramCredentialUpsertion):
                made = from_salted(mechanism, each.salt, each.salted_password, each.iterations)
            credentials.put(each.name, mechanism, made)
    return AlterUserScramCredentialsResponse(
        results=tuple(
            AlterUserScramCredentialsResult(each, *failed.get(each, (0, None))) for each in users
        )
    )


def _refusal(credentials: ScramCredentials, change: Change) -> tuple[ErrorCode, str] | None:
    if change.mechanism not in MECHANISM_NUMBERS:
        return ErrorCode.UNSUPPORTED_SASL_MECHANISM, "Unknown SCRAM mechanism"
    if isinstance(change, ScramCredentialUpsertion):
        problem = _problem(change)
        return None if problem is None else (ErrorCode.UNACCEPTABLE_CREDENTIAL, problem)
    if MECHANISM_NUMBERS[change.mechanism] not in credentials.stored(change.name):
        text = "Attempt to delete a user credential that does not exist"
        return ErrorCode.RESOURCE_NOT_FOUND, text
    return None


def _problem(asked: ScramCredentialUpsertion) -> str | None:
    if not MIN_ITERATIONS <= asked.iterations <= MAX_ITERATIONS:
        return f"Iterations must be from {MIN_ITERATIONS} to {MAX_ITERATIONS}"
    if not asked.salt or not asked.salted_password:
        return "A credential needs a salt and a salted password"
    return None
