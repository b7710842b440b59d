"""Open connections: resolve, connect, TLS, versions, SASL."""

import asyncio
import os
import socket
import ssl
from typing import Any, Final

from groupsdk import errors
from groupsdk.drivers.engine.authenticate import Authenticator
from groupsdk.drivers.engine.blocking import BlockingCalls
from groupsdk.drivers.engine.connection import Connection, check_versions
from groupsdk.drivers.engine.refusals import TlsRefusedError, refused_without_tls
from groupsdk.drivers.engine.sasl import preload
from groupsdk.drivers.engine.tls import build_ssl_context, explain_tls_error
from groupsdk.lazy_dataclasses import dataclass
from groupsdk.printable import address_text
from groupsdk.settings.config import MemberConfig
from groupsdk.version import __version__
from groupsdk.wire.api import ApiVersionRanges, next_api_versions_version
from groupsdk.wire.messages.connection import ApiVersionsRequest


@dataclass(frozen=True, slots=True)
class SocketAddress:
    """One address of a host."""

    family: socket.AddressFamily
    """IPv4 or IPv6."""
    sockaddr: Any
    """What `socket.connect` takes for this family."""


_MAX_ADDRESSES: Final = 16  # of one host; a name server may list any number
_MAX_FAILED_HOSTS: Final = 100  # brokers come and go under ever new names


class WrongProtocolError(errors.AuthenticationError):
    """The server on the port does not speak Kafka's protocol, or does so only inside TLS."""


class Connector:
    """Opens connections with one member's settings, and tracks those that are open. Belongs to one event loop."""

    def __init__(self, config: MemberConfig) -> None:
        self._config = config
        self._blocking = BlockingCalls()
        self._authenticator = Authenticator(config.security, self._blocking)
        self._ssl_context: ssl.SSLContext | None = None
        self._prepared = False
        self._open: set[Connection] = set()
        self._failures: dict[str, int] = {}

    async def prepare(self) -> None:
        """Import what the first connection needs, so that its connect time measures the broker only."""
        await self._load_tls()
        mechanism = self._config.security.mechanism
        if mechanism is not None and not self._prepared:
            await self._blocking.run("sasl", lambda: preload(mechanism))
        self._prepared = True

    async def open(self, host: str, port: int) -> Connection:
        """Return a connection that is ready for requests.

        Takes `socket.connection.setup.timeout.ms` at most. A host's addresses are tried in turn; where a
        connection fails after that, the next call starts with another address.

        Raises:
            ResolveError: the name has no address.
            NetworkError: the broker cannot be reached, or closed the connection.
            AuthenticationError: TLS or SASL failed.
            UnsupportedVersionError: the broker is too old.
            WireError: the server does not speak Kafka's protocol.
            ConfigError: a file that the TLS settings name cannot be used.
        """
        timeout_s = self._config.socket_connection_setup_timeout_ms / 1000
        connection: Connection | None = None
        try:
            async with asyncio.timeout(timeout_s):
                connection = await self._connect(host, port, timeout_s)
                await self._agree_on_versions(connection)
                if self._config.security.uses_sasl:
                    await self._authenticator.authenticate(connection)
                self._failures.pop(host, None)
                return connection
        except BaseException as error:
            if not isinstance(
                error, asyncio.CancelledError
            ):  # which says nothing about the address
                self._note_failure(host)
            if connection is not None:
                connection.close()
            if isinstance(error, TimeoutError):
                raise errors.RequestTimeoutError(
                    f"{address_text(host, port)} was not ready for requests within {timeout_s:g} s"
                    f" ({_reached(connection)})"
                ) from error
            raise

    def use_credentials(self, username: str, password: str) -> None:
        """Use these credentials from the next connection on; open connections stay as they are."""
        self._authenticator.use_credentials(username, password)

    async def close(self) -> None:
        """Close all connections, and wait until their sockets are closed."""
        connections = list(self._open)
        for connection in connections:
            connection.close()
        for connection in connections:
            await connection.wait_closed()

    def _note_failure(self, host: str) -> None:
        self._failures[host] = self._failures.pop(host, 0) + 1  # to the end: dropped last
        if len(self._failures) > _MAX_FAILED_HOSTS:
            del self._failures[next(iter(self._failures))]

    async def _load_tls(self) -> None:
        security = self._config.security
        if security.uses_tls and self._ssl_context is None:
            self._ssl_context = await self._blocking.run("tls", lambda: build_ssl_context(security))

    async def _connect(self, host: str, port: int, timeout_s: float) -> Connection:
        await self._load_tls()
        addresses = (await resolve_host(host, port, self._blocking))[:_MAX_ADDRESSES]
        first = self._failures.get(host, 0) % len(addresses)
        sock = await _connect_any(
            addresses[first:] + addresses[:first], address_text(host, port), timeout_s
        )
        try:
            return await self._start(sock, host, port)
        except OSError as error:
            raise _explain_tls(error, host, port) from error

    async def _start(self, sock: socket.socket, host: str, port: int) -> Connection:
        config = self._config
        connection = Connection(
            host,
            port,
            config.client_id,
            config.receive_message_max_bytes,
            config.request_timeout_ms,
            self._open,
        )
        transport, _ = await asyncio.get_running_loop().create_connection(
            lambda: connection,
            sock=sock,
            ssl=self._ssl_context,
            server_hostname=host if self._ssl_context is not None else None,
        )
        if not connection.usable:
            transport.abort()  # the connection has ended before it knew of its socket, or never hears of it
        return connection

    async def _agree_on_versions(self, connection: Connection) -> None:
        version: int | None = ApiVersionsRequest.api.max_version
        request = ApiVersionsRequest(
            client_software_name="groupsdk-python",
            client_software_version=__version__,
        )
        while version is not None:
            try:
                response = await connection.request(request, version)
            except (errors.DisconnectedError, errors.FrameError) as error:
                raise self._explain_silence(connection, error) from error
            retry = next_api_versions_version(response, version)
            if retry is None and response.error_code:
                raise refusal(response.error_code, "ApiVersions")
            version = retry
            connection.versions = ApiVersionRanges.from_response(response)
        check_versions(connection, static=self._config.group_instance_id is not None)

    def _explain_silence(
        self, connection: Connection, error: errors.GroupSdkError
    ) -> errors.GroupSdkError:
        """Explain why a broker may not answer the first request."""
        where = connection.address
        if isinstance(error, errors.FrameError):
            return WrongProtocolError(str(error))
        if self._config.security.uses_tls:
            return _explain_tls(error.__cause__ or error, connection.host, connection.port)
        return refused_without_tls(where, self._config.security)


def refusal(code: int, asked: str) -> errors.BrokerError:
    """Return the exception for an error code in a response that is not about a membership.

    Never a fatal one: FENCED_INSTANCE_ID is fatal only in response to a member's own request."""
    error = errors.broker_error(code, asked)
    return errors.BrokerError(code, asked) if error.fatal else error


def _explain_tls(error: BaseException, host: str, port: int) -> errors.GroupSdkError:
    explained = explain_tls_error(error, host, port)
    if isinstance(explained, errors.DisconnectedError):
        return TlsRefusedError(str(explained))
    return explained


async def _connect_any(
    addresses: list[SocketAddress], where: str, timeout_s: float
) -> socket.socket:
    """Connect to the first address that answers; a DisconnectedError names the reason of each that does not."""
    loop = asyncio.get_running_loop()
    until = loop.time() + timeout_s
    reasons: dict[str, None] = {}
    for position, address in enumerate(addresses):
        share_s = (until - loop.time()) / (len(addresses) - position)
        try:
            async with asyncio.timeout(share_s):
                return await connect_socket(address)
        except TimeoutError:
            reasons[f"no answer from {address.sockaddr[0]} within {share_s:.3g} s"] = None
        except OverflowError as error:
            # a port that a broker named, and that cannot be
            reasons[str(error)] = None
        except OSError as error:
            # asyncio puts words of its own in the place of the system's, such as "Connection refused"
            reasons[os.strerror(error.errno) if error.errno else str(error)] = None
    raise errors.DisconnectedError(f"cannot connect to {where}: {'; '.join(reasons)}")


def _reached(connection: Connection | None) -> str:
    if connection is None:
        return "still connecting"
    return "connected, but no answer" if not connection.versions else "still authenticating"


KEEPALIVE_IDLE_S: Final = 15
KEEPALIVE_INTERVAL_S: Final = 5
KEEPALIVE_COUNT: Final = 3
USER_TIMEOUT_MS: Final = 1_000 * (KEEPALIVE_IDLE_S + KEEPALIVE_INTERVAL_S * KEEPALIVE_COUNT)
"""A peer that vanished is noticed after 30 s, whether or not a response is outstanding."""


async def resolve_host(host: str, port: int, blocking: BlockingCalls) -> list[SocketAddress]:
    """Return the addresses of a host, at least one or a ResolveError, in the system's order of preference."""
    for family in (socket.AF_INET, socket.AF_INET6):
        try:
            socket.inet_pton(family, host)
        except (OSError, ValueError):
            continue
        return [SocketAddress(family, (host, port))]
    try:
        found = await blocking.run(
            ("resolve", host), lambda: socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)
        )
    except (OSError, ValueError) as error:  # UnicodeError is a ValueError
        raise errors.ResolveError(f"{host!r} does not resolve to an address: {error}") from error
    addresses = [
        # with the port put in: a lookup for another port of the same host may have been joined
        SocketAddress(family, (sockaddr[0], port, *sockaddr[2:]))
        for family, _, _, _, sockaddr in found
    ]
    if not addresses:
        raise errors.ResolveError(f"{host!r} has no IP address")
    return list(dict.fromkeys(addresses))


async def connect_socket(address: SocketAddress) -> socket.socket:
    """Return a connected non-blocking socket, tuned by `tune`, which the caller owns."""
    loop = asyncio.get_running_loop()
    sock = socket.socket(address.family, socket.SOCK_STREAM)
    try:
        sock.setblocking(False)
        tune(sock)
        await loop.sock_connect(sock, address.sockaddr)
    except BaseException:
        # The loop would forget the socket only in its next turn, and take a new one with the same number,
        # opened meanwhile, for this one.
        loop.remove_writer(sock)
        sock.close()
        raise
    return sock


def tune(sock: socket.socket) -> None:
    """Disable Nagle's algorithm, and make the system detect peers that vanish silently.

    The group coordinator may hold a join for minutes, during which nothing is sent: without probes the
    loss of its machine would go unnoticed for as long.
    """
    sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    sock.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
    for names, value in (
        (("TCP_KEEPIDLE", "TCP_KEEPALIVE"), KEEPALIVE_IDLE_S),  # the second is macOS's name
        (("TCP_KEEPINTVL",), KEEPALIVE_INTERVAL_S),
        (("TCP_KEEPCNT",), KEEPALIVE_COUNT),
        (("TCP_USER_TIMEOUT",), USER_TIMEOUT_MS),
    ):
        option = next((getattr(socket, name) for name in names if hasattr(socket, name)), None)
        if option is not None:
            sock.setsockopt(socket.IPPROTO_TCP, option, value)
