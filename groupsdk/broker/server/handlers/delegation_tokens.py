"""Handle the four APIs of delegation tokens (KIP-48) as Kafka does without `delegation.token.secret.key`."""

from typing import Final

from groupsdk.broker.server.call import Call, allowed
from groupsdk.error_code import ErrorCode
from groupsdk.wire.messages.create_delegation_token import (
    CreateDelegationTokenRequest,
    CreateDelegationTokenResponse,
)
from groupsdk.wire.messages.describe_delegation_token import (
    DescribeDelegationTokenRequest,
    DescribeDelegationTokenResponse,
)
from groupsdk.wire.messages.expire_delegation_token import (
    ExpireDelegationTokenRequest,
    ExpireDelegationTokenResponse,
)
from groupsdk.wire.messages.renew_delegation_token import (
    RenewDelegationTokenRequest,
    RenewDelegationTokenResponse,
)


_USER: Final = "User"
_ANONYMOUS: Final = "User:ANONYMOUS"
_NAMES_REQUESTER: Final = 3


def create_delegation_token(
    call: Call, request: CreateDelegationTokenRequest
) -> CreateDelegationTokenResponse:
    """Refuse to create a token, for the first of Kafka's reasons that applies.

    A token of another owner requires "create_tokens" on that user.
    """
    requester_type, _, requester = call.principal.partition(":")
    owner_type, owner = request.owner_principal_type or "", request.owner_principal_name
    if not owner:
        owner_type, owner = requester_type, requester
    owned_by_other = (owner_type, owner) != (requester_type, requester)
    code = _refusal(call)
    if code == ErrorCode.DELEGATION_TOKEN_REQUEST_NOT_ALLOWED:
        pass
    elif owned_by_other and not allowed(call, "create_tokens", "user", f"{owner_type}:{owner}"):
        code = ErrorCode.DELEGATION_TOKEN_AUTHORIZATION_FAILED
    elif any(each.principal_type != _USER for each in request.renewers):
        code = ErrorCode.INVALID_PRINCIPAL_TYPE
    names_requester = call.version >= _NAMES_REQUESTER
    return CreateDelegationTokenResponse(
        error_code=code,
        principal_type=owner_type,
        principal_name=owner,
        token_requester_principal_type=requester_type if names_requester else "",
        token_requester_principal_name=requester if names_requester else "",
        issue_timestamp_ms=_no_time(code),
        expiry_timestamp_ms=_no_time(code),
        max_timestamp_ms=_no_time(code),
    )


def renew_delegation_token(
    call: Call, request: RenewDelegationTokenRequest
) -> RenewDelegationTokenResponse:
    """Refuse to renew a token: there are none."""
    code = _refusal(call)
    return RenewDelegationTokenResponse(code, _no_time(code))


def expire_delegation_token(
    call: Call, request: ExpireDelegationTokenRequest
) -> ExpireDelegationTokenResponse:
    """Refuse to expire a token: there are none."""
    code = _refusal(call)
    return ExpireDelegationTokenResponse(code, _no_time(code))


def describe_delegation_token(
    call: Call, request: DescribeDelegationTokenRequest
) -> DescribeDelegationTokenResponse:
    """Refuse to list tokens: there are none."""
    return DescribeDelegationTokenResponse(error_code=_refusal(call))


def _refusal(call: Call) -> ErrorCode:
    """Return why a request for tokens is refused: the connection is not authenticated, or tokens are disabled."""
    name = call.connection.listener_name
    protocol = next(each.protocol for each in call.node.addresses if each.name == name)
    if protocol == "PLAINTEXT" or (protocol == "SSL" and call.principal == _ANONYMOUS):
        return ErrorCode.DELEGATION_TOKEN_REQUEST_NOT_ALLOWED
    return ErrorCode.DELEGATION_TOKEN_AUTH_DISABLED


def _no_time(code: ErrorCode) -> int:
    """Return the time in a refusal: Kafka's controller, which knows that tokens are disabled, leaves out the brokers' -1."""
    return 0 if code == ErrorCode.DELEGATION_TOKEN_AUTH_DISABLED else -1
