"""Authenticate a connection: the SASL exchange over Kafka's requests (KIP-152, KIP-368)."""

import asyncio
from typing import TYPE_CHECKING, Final

from groupsdk import errors
from groupsdk.drivers.engine.blocking import BlockingCalls
from groupsdk.drivers.engine.connection import Connection
from groupsdk.drivers.engine.sasl import SaslMechanism, mechanism_for
from groupsdk.error_code import ErrorCode
from groupsdk.printable import printable
from groupsdk.settings.security import OAuthToken, SecuritySettings, checked_credentials
from groupsdk.wire.messages.connection import SaslAuthenticateRequest, SaslHandshakeRequest


if TYPE_CHECKING:
    from groupsdk.settings.oidc import OidcTokenProvider

_MAX_STEPS: Final = 10
_REAUTHENTICATE_AT: Final = 0.85  # of the session's lifetime, as in Kafka's client


class Authenticator:
    """Authenticates connections as one member's settings say. Belongs to one event loop."""

    def __init__(self, security: SecuritySettings, blocking: BlockingCalls) -> None:
        self._security = security
        self._blocking = blocking
        self._oidc = _oidc_provider(security) if security.uses_oidc else None

    def use_credentials(self, username: str, password: str) -> None:
        """Use these credentials from the next connection on."""
        self._security = self._security.with_credentials(username, password)

    async def authenticate(self, connection: Connection) -> None:
        """Run the SASL exchange; records on the connection when the broker requires reauthentication."""
        where = connection.address
        connection.versions.negotiate(SaslAuthenticateRequest)
        # before anything is sent: brokers drop clients that stall during the handshake
        settings = await self._with_credentials(await self._with_token())
        # Not on this loop, here and below: SCRAM loads many modules, and computes for long.
        mechanism, message = await self._blocking.run(object(), lambda: _begin(settings))
        try:
            await self._handshake(connection, mechanism.name)
            for _ in range(_MAX_STEPS):
                if message is None:
                    break
                message = await self._step(connection, mechanism, message)
        except errors.AuthenticationError:
            if self._oidc is not None:
                self._oidc.forget()  # the broker may want another one: keys are rotated, tokens revoked
            raise
        except errors.DisconnectedError as error:
            raise errors.DisconnectedError(
                f"{where} closed the connection during the {mechanism.name} exchange: it went down,"
                " or does not accept these credentials and does not say so"
            ) from error
        if message is not None or not mechanism.complete:
            raise errors.AuthenticationError(f"{where}: the {mechanism.name} exchange did not end")

    async def _with_token(self) -> SecuritySettings:
        """Return the settings with a provider that returns the token at once.

        The user's one is asked off the loop, by one thread at a time, however long it blocks.
        """
        provider = self._oidc or self._security.sasl_oauth_token_provider
        if provider is None:
            return self._security
        try:
            token: str | OAuthToken = await self._blocking.run("token", provider)
        except Exception as error:
            raise _failed("sasl_oauth_token_provider", error) from error
        return self._security.with_token(token)

    async def _with_credentials(self, security: SecuritySettings) -> SecuritySettings:
        """Return the settings with the current result of the user name and password provider."""
        provider = security.sasl_credentials_provider
        if provider is None:
            return security
        try:
            credentials: object = await self._blocking.run("credentials", provider)
        except Exception as error:
            raise _failed("sasl_credentials_provider", error) from error
        return security.with_credentials(*checked_credentials(credentials))

    async def _handshake(self, connection: Connection, mechanism: str) -> None:
        answer = await connection.request(SaslHandshakeRequest(mechanism=mechanism))
        if answer.error_code == ErrorCode.UNSUPPORTED_SASL_MECHANISM:
            raise errors.AuthenticationError(
                f"{connection.address} does not accept sasl.mechanism"
                f" {mechanism}; it offers {printable(', '.join(answer.mechanisms)) or 'none'}"
            )
        if answer.error_code == ErrorCode.ILLEGAL_SASL_STATE:
            raise errors.AuthenticationError(
                f"{connection.address} does not use SASL on this port: set"
                f" security.protocol to {'SSL' if self._security.uses_tls else 'PLAINTEXT'}, or take another port"
            )
        if answer.error_code:
            raise errors.AuthenticationError(
                f"{connection.address} refused sasl.mechanism {mechanism}:"
                f" {errors.broker_error(answer.error_code, 'SaslHandshake')}"
            )

    async def _step(
        self, connection: Connection, mechanism: SaslMechanism, message: bytes
    ) -> bytes | None:
        answer = await connection.request(SaslAuthenticateRequest(auth_bytes=message))
        if answer.error_code:
            raise _refused(connection, mechanism, answer.error_code, answer.error_message)
        if answer.session_lifetime_ms > 0:
            lifetime_s = answer.session_lifetime_ms / 1000
            now = asyncio.get_running_loop().time()
            connection.expires_at = now + lifetime_s * _REAUTHENTICATE_AT
        auth_bytes = answer.auth_bytes
        return await self._blocking.run(object(), lambda: mechanism.respond(auth_bytes))


def _oidc_provider(security: SecuritySettings) -> "OidcTokenProvider":
    # only here, so that others do not pay for loading it
    from groupsdk.settings.oidc import OidcTokenProvider

    return OidcTokenProvider(security)


def _begin(settings: SecuritySettings) -> tuple[SaslMechanism, bytes | None]:
    mechanism = mechanism_for(settings)
    return mechanism, mechanism.start()


def _failed(provider: str, error: Exception) -> errors.GroupSdkError:
    """Return the error for an exception raised by the user's provider."""
    if isinstance(error, errors.NetworkError):
        return errors.CredentialsUnavailableError(f"{provider}: {error}")
    if isinstance(error, errors.GroupSdkError):
        return error
    # its text may hold what must not be logged; it is at hand as the cause
    return errors.AuthenticationError(f"{provider} raised {type(error).__name__}")


def _refused(
    connection: Connection, mechanism: SaslMechanism, code: int, text: str | None
) -> errors.AuthenticationError:
    if mechanism.failure is not None:
        return mechanism.failure
    said = code == ErrorCode.SASL_AUTHENTICATION_FAILED and text
    why = printable(text or "") if said else str(errors.broker_error(code, "SaslAuthenticate"))
    return errors.AuthenticationError(f"{connection.address} refused {mechanism.name}: {why}")
