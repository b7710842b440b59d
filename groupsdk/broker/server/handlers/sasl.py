"""Handle SaslHandshake and SaslAuthenticate."""

from groupsdk.broker.server.authentication import FAILED_DELAY_MS, SaslGate
from groupsdk.broker.server.call import Call
from groupsdk.error_code import ErrorCode
from groupsdk.errors import GroupSdkError
from groupsdk.wire.messages.connection import (
    SaslAuthenticateRequest,
    SaslAuthenticateResponse,
    SaslHandshakeRequest,
    SaslHandshakeResponse,
)


def sasl_handshake(call: Call, request: SaslHandshakeRequest) -> SaslHandshakeResponse:
    """Start the exchange of a mechanism; UNSUPPORTED_SASL_MECHANISM lists the enabled ones.

    Version 0 is followed by SASL messages without a header. On a listener without SASL, the response is
    ILLEGAL_SASL_STATE.
    """
    gate = call.connection.authenticator
    if not isinstance(gate, SaslGate):
        return SaslHandshakeResponse(error_code=ErrorCode.ILLEGAL_SASL_STATE)
    enabled = call.node.authentication.mechanisms
    if not gate.begin(request.mechanism, raw=call.version == 0):
        return SaslHandshakeResponse(
            error_code=ErrorCode.UNSUPPORTED_SASL_MECHANISM, mechanisms=enabled
        )
    return SaslHandshakeResponse(mechanisms=enabled)


def sasl_authenticate(
    call: Call, request: SaslAuthenticateRequest
) -> SaslAuthenticateResponse | None:
    """Process the client's next message; a failure is answered after 100 ms, and the connection is closed."""
    gate = call.connection.authenticator
    if not isinstance(gate, SaslGate) or not gate.begun:
        return SaslAuthenticateResponse(
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
    call: Call, gate: SaslGate, request: SaslAuthenticateRequest
) -> SaslAuthenticateResponse | None:
    try:
        answer = gate.evaluate(call.connection, request.auth_bytes)
    except GroupSdkError:
        call.node.cluster.scheduler.after(FAILED_DELAY_MS, lambda: _refused(call, gate.mechanism))
        return None
    return SaslAuthenticateResponse(
        error_message=None,
        auth_bytes=answer,
        session_lifetime_ms=gate.lifetime_ms if gate.done else 0,
    )


def _refused(call: Call, mechanism: str) -> None:
    call.answer(
        SaslAuthenticateResponse(
            error_code=ErrorCode.SASL_AUTHENTICATION_FAILED,
            error_message="Authentication failed during authentication due to invalid credentials"
            f" with SASL mechanism {mechanism}",
        )
    )
    call.connection.close("authentication failed")
