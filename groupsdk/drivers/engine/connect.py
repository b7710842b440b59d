"""Open connections: resolve, connect, TLS, versions, SASL."""

import asyncio
import socket
import ssl
import threading
from collections.abc import Callable
from typing import TypeVar

from groupsdk.config import MemberConfig
from groupsdk.drivers.engine.connection import Connection
from groupsdk.drivers.engine.sasl import SaslMechanism, mechanism_for
from groupsdk.drivers.engine.tls import build_ssl_context, explain_tls_error
from groupsdk.errors import (
    AuthenticationError,
    DisconnectedError,
    FrameError,
    GroupSdkError,
    RequestTimeoutError,
    ResolveError,
    broker_error,
)
from groupsdk.version import __version__
from groupsdk.wire.api import ApiVersionRanges, next_api_versions_version
from groupsdk.wire.messages.api_versions import ApiVersionsRequest
from groupsdk.wire.messages.sasl_authenticate import SaslAuthenticateRequest
from groupsdk.wire.messages.sasl_handshake import SaslHandshakeRequest


T = TypeVar("T")

_SASL_FAILED = 58
_MECHANISM_UNKNOWN = 33
_MAX_SASL_STEPS = 10
_REAUTHENTICATE_AT = 0.85  # of the session's lifetime, as in Kafka's client


class Connector:
    """Opens connections as one member's settings say. Belongs to one event loop."""

    def __init__(self, config: MemberConfig) -> None:
        self._config = config
        self._ssl_context: ssl.SSLContext | None = None

    async def open(self, host: str, port: int) -> Connection:
        """Return a connection that is ready for requests.

        Raises:
            ResolveError: the name has no address.
            NetworkError: the broker cannot be reached, or closed the connection.
            AuthenticationError: TLS or SASL failed.
            UnsupportedVersionError: the broker is too old.
            ConfigError: a file that the TLS settings name cannot be used.
        """
        timeout_s = self._config.socket_connection_setup_timeout_ms / 1000
        connection: Connection | None = None
        try:
            async with asyncio.timeout(timeout_s):
                connection = await self._connect(host, port)
                await self._agree_on_versions(connection)
                if self._config.security.uses_sasl:
                    await self._authenticate(connection)
                return connection
        except BaseException as error:
            if connection is not None:
                connection.close()
            if isinstance(error, TimeoutError):
                raise RequestTimeoutError(
                    f"{host}:{port} was not ready for requests within {timeout_s:g} s"
                ) from error
            raise

    async def _connect(self, host: str, port: int) -> Connection:
        security = self._config.security
        if security.uses_tls and self._ssl_context is None:
            self._ssl_context = await in_thread(lambda: build_ssl_context(security))
        error: OSError | None = None
        for address in await resolve(host, port):
            try:
                return await self._connect_to(address, host, port)
            except OSError as caught:
                error = caught
        raise self._explain(error or OSError("no address"), host, port) from error

    async def _connect_to(self, address: str, host: str, port: int) -> Connection:
        config = self._config
        _, connection = await asyncio.get_running_loop().create_connection(
            lambda: Connection(host, port, config.client_id, config.receive_message_max_bytes),
            address,
            port,
            ssl=self._ssl_context,
            server_hostname=host if self._ssl_context is not None else None,
        )
        return connection

    def _explain(self, error: OSError, host: str, port: int) -> GroupSdkError:
        if self._ssl_context is not None and not isinstance(error, ConnectionRefusedError):
            return explain_tls_error(error, host, port)
        return DisconnectedError(f"cannot connect to {host}:{port}: {error.strerror or error}")

    async def _agree_on_versions(self, connection: Connection) -> None:
        version: int | None = ApiVersionsRequest.api.max_version
        request = ApiVersionsRequest(
            client_software_name="groupsdk-python",
            client_software_version=__version__,
        )
        while version is not None:
            try:
                response = await connection.request(request, version)
            except (DisconnectedError, FrameError) as error:
                raise self._explain_silence(connection, error) from error
            retry = next_api_versions_version(response, version)
            if retry is None and response.error_code:
                raise broker_error(response.error_code, "ApiVersions")
            version = retry
            connection.versions = ApiVersionRanges.from_response(response)

    def _explain_silence(self, connection: Connection, error: GroupSdkError) -> GroupSdkError:
        """Say what it may mean that a broker does not answer the first request."""
        where = f"{connection.host}:{connection.port}"
        if self._config.security.uses_tls:
            return explain_tls_error(error.__cause__ or error, connection.host, connection.port)
        if isinstance(error, FrameError):
            return AuthenticationError(str(error))
        return FirstRequestRefusedError(
            f"{where} closed the connection on the first request; does the port speak"
            f" {self._config.security.protocol}? (security.protocol)"
        )

    async def _authenticate(self, connection: Connection) -> None:
        mechanism = mechanism_for(self._config.security)
        handshake = await connection.request(SaslHandshakeRequest(mechanism=mechanism.name))
        if handshake.error_code == _MECHANISM_UNKNOWN:
            raise AuthenticationError(
                f"{connection.host}:{connection.port} does not accept sasl.mechanism"
                f" {mechanism.name}; it offers {', '.join(handshake.mechanisms) or 'none'}"
            )
        if handshake.error_code:
            raise AuthenticationError(str(broker_error(handshake.error_code, "SaslHandshake")))
        # The token provider may ask a server, and SCRAM computes for long: not on this loop.
        message: bytes | None = await in_thread(mechanism.start)
        for _ in range(_MAX_SASL_STEPS):
            if message is None:
                break
            message = await self._authenticate_step(connection, mechanism, message)
        if not mechanism.complete:
            raise AuthenticationError(
                f"{connection.host}:{connection.port}: the {mechanism.name} exchange did not end"
            )

    async def _authenticate_step(
        self, connection: Connection, mechanism: SaslMechanism, message: bytes
    ) -> bytes | None:
        response = await connection.request(SaslAuthenticateRequest(auth_bytes=message))
        if response.error_code:
            raise self._refused(connection, mechanism, response.error_code, response.error_message)
        if response.session_lifetime_ms > 0:
            lifetime_s = response.session_lifetime_ms / 1000
            now = asyncio.get_running_loop().time()
            connection.expires_at = now + lifetime_s * _REAUTHENTICATE_AT
        auth_bytes = response.auth_bytes
        return await in_thread(lambda: mechanism.respond(auth_bytes))

    def _refused(
        self, connection: Connection, mechanism: SaslMechanism, code: int, text: str | None
    ) -> AuthenticationError:
        if mechanism.failure is not None:
            return mechanism.failure
        why = text if code == _SASL_FAILED and text else str(broker_error(code, "SaslAuthenticate"))
        return AuthenticationError(
            f"{connection.host}:{connection.port} refused {mechanism.name}: {why}"
        )


class FirstRequestRefusedError(DisconnectedError):
    """The broker closed the connection instead of answering the first request on it."""


async def resolve(host: str, port: int) -> list[str]:
    """Return the addresses of a host, in the order to try them.

    Raises:
        ResolveError: it has none.
    """
    if _is_address(host):
        return [host]
    try:
        found = await in_thread(lambda: socket.getaddrinfo(host, port, type=socket.SOCK_STREAM))
    except (OSError, UnicodeError) as error:
        raise ResolveError(f"{host!r} does not resolve to an address: {error}") from error
    return list(dict.fromkeys(str(sockaddr[0]) for *_, sockaddr in found))


def _is_address(host: str) -> bool:
    for family in (socket.AF_INET, socket.AF_INET6):
        try:
            socket.inet_pton(family, host)
        except OSError:
            continue
        return True
    return False


async def in_thread(function: Callable[[], T]) -> T:
    """Run a function that may block on a thread of its own.

    Not on asyncio's executor: that keeps the thread for every member, and waits for it at exit.
    """
    loop = asyncio.get_running_loop()
    future: asyncio.Future[T] = loop.create_future()

    def finish(result: T | None, error: BaseException | None) -> None:
        if future.cancelled():
            return
        if error is not None:
            future.set_exception(error)
        else:
            future.set_result(result)  # type: ignore[arg-type]  # T where there is no error

    def run() -> None:
        result: T | None = None
        error: BaseException | None = None
        try:
            result = function()
        except BaseException as caught:  # noqa: BLE001  # handed over to whoever awaits
            error = caught
        if not loop.is_closed():
            loop.call_soon_threadsafe(finish, result, error)

    threading.Thread(target=run, name="groupsdk-blocking", daemon=True).start()
    return await future
