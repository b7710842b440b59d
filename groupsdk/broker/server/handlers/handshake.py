"""Handle what a client asks first: ApiVersions and the SASL exchange."""

from functools import lru_cache
from typing import Final

from groupsdk.broker.server.apis import APIS, newest_version
from groupsdk.broker.server.authentication import FAILED_DELAY_MS, SaslGate
from groupsdk.broker.server.call import Call
from groupsdk.error_code import ErrorCode
from groupsdk.errors import GroupSdkError
from groupsdk.wire.messages import connection as messages


_API_VERSIONS: Final = 18
_FEATURES: Final = {"group.version": 1, "transaction.version": 2}
"""The level of each feature (KIP-584)."""


def api_versions(call: Call, request: messages.ApiVersionsRequest) -> messages.ApiVersionsResponse:
    """Return the served APIs and features; needs no authentication.

    From version 3 on, clients send their software's name; as in Kafka, names that are invalid in a metric are answered
    INVALID_REQUEST.
    """
    if call.version >= 3 and not (
        _is_name(request.client_software_name) and _is_name(request.client_software_version)
    ):
        return messages.ApiVersionsResponse(error_code=ErrorCode.INVALID_REQUEST)
    return _served(call.version, call.node.cluster.config.group_consumer_release)


@lru_cache(32)
def _served(version: int, release: str) -> messages.ApiVersionsResponse:
    """Build the answer once for each version."""
    keys = tuple(
        messages.ApiVersion(
            api_key=key,
            min_version=each.min_version if each.advertised_from is None else each.advertised_from,
            max_version=newest_version(key, release),
        )
        for key, each in sorted(APIS.items())
    )
    return messages.ApiVersionsResponse(
        api_keys=keys,
        # before version 4, clients reject features whose lowest level is 0 (KAFKA-17011)
        supported_features=tuple(
            messages.SupportedFeatureKey(name=name, min_version=0, max_version=level)
            for name, level in _FEATURES.items()
            if version >= 4
        ),
        finalized_features_epoch=0,
        finalized_features=tuple(
            messages.FinalizedFeatureKey(
                name=name, max_version_level=level, min_version_level=level
            )
            for name, level in _FEATURES.items()
        ),
    )


def unsupported_version() -> messages.ApiVersionsResponse:
    """Build the response to an unsupported version of ApiVersions: only its own served versions (KIP-511)."""
    own = APIS[_API_VERSIONS]
    return messages.ApiVersionsResponse(
        error_code=ErrorCode.UNSUPPORTED_VERSION,
        api_keys=(messages.ApiVersion(_API_VERSIONS, own.min_version, own.max_version),),
    )


def _is_name(text: str) -> bool:
    inner = text.replace(".", "").replace("-", "")
    return inner.isascii() and inner.isalnum() and text[0].isalnum() and text[-1].isalnum()


def sasl_handshake(
    call: Call, request: messages.SaslHandshakeRequest
) -> messages.SaslHandshakeResponse:
    """Start the exchange of a mechanism; UNSUPPORTED_SASL_MECHANISM lists the enabled ones.

    Version 0 is followed by SASL messages without a header. On a listener without SASL, the response is
    ILLEGAL_SASL_STATE.
    """
    gate = call.connection.authenticator
    if not isinstance(gate, SaslGate):
        return messages.SaslHandshakeResponse(error_code=ErrorCode.ILLEGAL_SASL_STATE)
    enabled = call.node.authentication.mechanisms
    if not gate.begin(request.mechanism, raw=call.version == 0):
        return messages.SaslHandshakeResponse(
            error_code=ErrorCode.UNSUPPORTED_SASL_MECHANISM, mechanisms=enabled
        )
    return messages.SaslHandshakeResponse(mechanisms=enabled)


def sasl_authenticate(
    call: Call, request: messages.SaslAuthenticateRequest
) -> messages.SaslAuthenticateResponse | None:
    """Process the client's next message; a failure is answered after 100 ms, and the connection is closed."""
    gate = call.connection.authenticator
    if not isinstance(gate, SaslGate) or not gate.begun:
        return messages.SaslAuthenticateResponse(
            error_code=ErrorCode.ILLEGAL_SASL_STATE,
            error_message="SaslAuthenticate request received after successful authentication"
            if isinstance(gate, SaslGate)
            else "SaslAuthenticate request received on a listener without SASL",
        )

    def later() -> None:
        answer = _evaluated(call, gate, request)
        if answer is not None:
            call.answer(answer)

    if gate.validate(request.auth_bytes, later):
        return None
    return _evaluated(call, gate, request)


def _evaluated(
    call: Call, gate: SaslGate, request: messages.SaslAuthenticateRequest
) -> messages.SaslAuthenticateResponse | None:
    try:
        answer = gate.evaluate(call.connection, request.auth_bytes)
    except GroupSdkError:
        call.node.cluster.scheduler.after(FAILED_DELAY_MS, lambda: _refused(call, gate.mechanism))
        return None
    return messages.SaslAuthenticateResponse(
        error_message=None,
        auth_bytes=answer,
        session_lifetime_ms=gate.lifetime_ms if gate.done else 0,
    )


def _refused(call: Call, mechanism: str) -> None:
    call.answer(
        messages.SaslAuthenticateResponse(
            error_code=ErrorCode.SASL_AUTHENTICATION_FAILED,
            error_message="Authentication failed during authentication due to invalid credentials"
            f" with SASL mechanism {mechanism}",
        )
    )
    call.connection.close("authentication failed")
