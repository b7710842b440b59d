"""Listen on one address of a node, and limit the resources of its connections."""

import asyncio
import logging
import socket
from collections import Counter, deque
from functools import partial
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from groupsdk.broker.coordinator.runtime.scheduler import Scheduler, Timer
from groupsdk.broker.server.connection import Connection, TlsConnection
from groupsdk.broker.server.socket_transport import SocketTransport
from groupsdk.errors import ConfigError
from groupsdk.limits import max_open_files
from groupsdk.printable import address_text


if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from groupsdk.broker.server.contract import ServingNode
    from groupsdk.broker.settings.table import BrokerConfig


logger = logging.getLogger(__name__)
_PROTOCOLS: Final = ("PLAINTEXT", "SSL", "SASL_PLAINTEXT", "SASL_SSL")
_LONGEST_SWEEP_MS: Final = 60_000
_ACCEPT_AT_ONCE: Final = 100
_ACCEPT_AGAIN_MS: Final = 1_000
_ACCEPT_TOLD_MS: Final = 60_000
_FILES_KEPT: Final = 4
"""Connections may take all file descriptors of the process but a quarter."""
_HANDSHAKE_S: Final = 30
_MAX_UNKNOWN_BYTES: Final = 16 * 1024 * 1024
"""How many bytes of large requests (64 KiB or more) unauthenticated clients may hold together."""
_REQUEST_MS: Final = 60_000
_REQUEST_BYTES_PER_MS: Final = 1024
"""A request must arrive within a minute, and a second for each MiB."""
_LOOK_MS: Final = 5_000
_FEW: Final = 4
"""Up to this many connections, delaying commits to write them together costs more than it saves. With more
connections it pays: written one by one, the rows "OffsetCommit, 1 partition" with 8 and 64 connections in
docs/benchmarks.md take 70 to 90 % more CPU.
"""


class ListenerAddress(NamedTuple):
    """One entry of `listeners`."""

    name: str
    host: str
    """The host to bind; "": all interfaces."""
    port: int
    """The port to bind; 0: any free one."""
    protocol: str
    """The security protocol: "PLAINTEXT", "SSL", "SASL_PLAINTEXT" or "SASL_SSL"."""

    @property
    def uses_tls(self) -> bool:
        """Whether connections are encrypted."""
        return self.protocol in {"SSL", "SASL_SSL"}

    @property
    def uses_sasl(self) -> bool:
        """Whether clients authenticate with SASL."""
        return self.protocol in {"SASL_PLAINTEXT", "SASL_SSL"}


class NodeAddresses(NamedTuple):
    """Where one node listens, and the host and port of each listener that it tells clients to connect to."""

    listeners: list[ListenerAddress]
    advertised: "Mapping[str, tuple[str, int]]"


def node_addresses(config: "BrokerConfig", position: int = 0, nodes: int = 1) -> NodeAddresses:
    """Read `listeners` and `advertised.listeners` for one of several nodes that share them.

    A listener is named once, or once for each node. Where `listeners` has it once, the first node takes its
    port and the others take free ones. Where `advertised.listeners` has it once, that is the first node's.
    """
    listening: dict[str, list[ListenerAddress]] = {}
    for each in listener_addresses(config):
        listening.setdefault(each.name, []).append(each)
    advertised: dict[str, list[tuple[str, int]]] = {}
    for name, host, port in parse_listeners("advertised.listeners", config.advertised_listeners):
        advertised.setdefault(name, []).append((host, port))
    for key, counts in (
        ("listeners", {name: len(each) for name, each in listening.items()}),
        ("advertised.listeners", {name: len(each) for name, each in advertised.items()}),
    ):
        for name, count in counts.items():
            if count not in {1, nodes}:
                raise ConfigError(
                    f"{key} names {name} {count} times for {nodes} node(s): name each listener once, or once for"
                    " each node, and give different listeners different names"
                )
    return NodeAddresses(
        [_of_node(found, position) for found in listening.values()],
        {
            name: found[position if len(found) > 1 else 0]
            for name, found in advertised.items()
            if position == 0 or len(found) > 1
        },
    )


def _of_node(found: list[ListenerAddress], position: int) -> ListenerAddress:
    if len(found) > 1 or position == 0:
        return found[position]
    (only,) = found
    return only._replace(port=0)


def listener_addresses(config: "BrokerConfig") -> list[ListenerAddress]:
    """Parse `listeners` and `listener.security.protocol.map`.

    A listener that is reachable from the network must have both TLS and SASL.
    """
    protocols = dict(
        _pairs(config.listener_security_protocol_map, "listener.security.protocol.map")
    )
    found = [
        ListenerAddress(name, host, port, _protocol(protocols, name))
        for name, host, port in parse_listeners("listeners", config.listeners)
    ]
    if not found:
        raise ConfigError(
            "listeners must name at least one address, such as PLAINTEXT://127.0.0.1:9092"
        )
    for each in found:
        if not is_loopback(each.host) and not (each.uses_tls and each.uses_sasl):
            raise ConfigError(
                f"the listener {each.name} on {each.host or 'all interfaces'} is open to the network with"
                f" {each.protocol}: listen on 127.0.0.1, or set it to SASL_SSL in"
                " listener.security.protocol.map, with a certificate and users"
            )
    return found


def parse_listeners(key: str, text: str) -> list[tuple[str, str, int]]:
    """Parse `NAME://host:port,...` into (name, host, port), with names in upper case and IPv6 hosts unbracketed."""
    found = []
    for part in filter(None, (each.strip() for each in text.split(","))):
        name, separator, address = part.partition("://")
        host, colon, port = address.rpartition(":")
        if (
            not (name and separator and colon and port.isascii() and port.isdigit())
            or int(port) > 65_535
        ):
            raise ConfigError(
                f"{key}: {part!r} must have the form NAME://host:port with a port of 0 to 65535, such as"
                " PLAINTEXT://127.0.0.1:9092"
            )
        found.append((name.upper(), host.strip("[]"), int(port)))
    return found


def is_loopback(host: str) -> bool:
    """Return whether a host is only reachable from this machine."""
    if host.lower() == "localhost":
        return True
    try:
        from ipaddress import ip_address

        return ip_address(host).is_loopback
    except ValueError:
        return False


def _protocol(protocols: dict[str, str], name: str) -> str:
    protocol = protocols.get(name, name if name in _PROTOCOLS else "")
    if protocol not in _PROTOCOLS:
        raise ConfigError(
            f"the listener {name} has no security protocol: listener.security.protocol.map must map"
            f" {name} to one of {', '.join(_PROTOCOLS)}"
        )
    return protocol


def _pairs(text: str, key: str) -> list[tuple[str, str]]:
    pairs = []
    for part in filter(None, (each.strip() for each in text.split(","))):
        name, colon, value = part.partition(":")
        if not (name and colon and value):
            raise ConfigError(f"{key}: {part!r} must have the form NAME:value")
        pairs.append((name.upper(), value.upper()))
    return pairs


class Limits:
    """The limits shared by all connections of a broker: their number, and the memory of large requests."""

    def __init__(self, config: "BrokerConfig") -> None:
        self.reconfigure(config)
        self._max_bytes = config.queued_max_request_bytes
        self._bytes = 0
        self._unknown_bytes = 0
        self._unsent = 0
        self._by_peer: Counter[str] = Counter()
        self._total = 0
        self.has_many_connections = False
        """Whether commits that arrive together are worth batching: see `_FEW`."""
        self._hungry: deque[Connection] = deque()
        self._favoured: Connection | None = None

    def reconfigure(self, config: "BrokerConfig") -> None:
        """Apply new limits of the number of connections; those that are open stay."""
        self._max_connections = config.max_connections
        # the logs need some as well: without any, what clients send cannot be stored
        self._open_files = max_open_files()
        self._max_by_files = max(1, self._open_files - self._open_files // _FILES_KEPT)
        self._max_per_ip = config.max_connections_per_ip

    def problem(self, peer: str) -> str | None:
        """Return which limit one more connection from this address would exceed; None if it is allowed."""
        if self._total >= self._max_connections:
            return f"max.connections={self._max_connections} is reached"
        if self._total >= self._max_by_files:
            return f"{self._total} are open, and this process may open {self._open_files} files (ulimit -n)"
        if self._by_peer[peer] >= self._max_per_ip:
            return f"max.connections.per.ip={self._max_per_ip} is reached for {peer}"
        return None

    def opened(self, peer: str) -> None:
        """Count a new connection from this address."""
        self._total += 1
        self.has_many_connections = self._total > _FEW
        self._by_peer[peer] += 1

    def lost(self, peer: str) -> None:
        """Stop counting a connection from this address."""
        self._total -= 1
        self.has_many_connections = self._total > _FEW
        self._by_peer[peer] -= 1
        if not self._by_peer[peer]:
            del self._by_peer[peer]

    def reserve(self, connection: Connection, size: int) -> bool:
        """Reserve memory for the received part of a large request.

        False if it has to wait for `Connection.memory_free`. While the limit is reached, one request at a time goes on:
        if several waited half received, none would complete.
        """
        if self._bytes >= self._max_bytes:
            if self._favoured not in (None, connection):
                if connection not in self._hungry:
                    self._hungry.append(connection)
                return False
            self._favoured = connection
        self._bytes += size
        return True

    def release(self, connection: Connection, size: int) -> None:
        """Release reserved memory, and resume waiting connections."""
        self._bytes -= size
        if self._favoured is connection:
            self._favoured = None
        while self._hungry and (self._bytes < self._max_bytes or self._favoured is None):
            self._hungry.popleft().memory_free()

    def reserve_unknown(self, size: int) -> bool:
        """Reserve memory for an unauthenticated client. Return False if such clients hold too much already."""
        if self._unknown_bytes + size > _MAX_UNKNOWN_BYTES:
            return False
        self._unknown_bytes += size
        return True

    def release_unknown(self, size: int) -> None:
        """Release memory of an unauthenticated client; `size` in bytes."""
        self._unknown_bytes -= size

    def unsent(self, change: int) -> None:
        """Update how many bytes of responses wait for clients to read them, by a positive or negative change."""
        self._unsent += change

    @property
    def must_answer_small(self) -> bool:
        """Whether responses must be small because clients that do not read hold too much memory."""
        return self._unsent > self._max_bytes


class Listener:
    """One address of one node, and its connections.

    Attributes:
        max_request_bytes: the largest request accepted (socket.request.max.bytes).
        soon: calls a function in the next iteration of the loop, or at once before `serve`.
    """

    def __init__(
        self,
        node: "ServingNode",
        address: ListenerAddress,
        limits: Limits,
        scheduler: Scheduler,
        config: "BrokerConfig",
    ) -> None:
        self.node = node
        self.address = address
        self.name = address.name
        self.max_request_bytes = config.socket_request_max_bytes
        self.connections: set[Connection] = set()
        self.now_ms = scheduler.now_ms
        self.reserve = limits.reserve
        self.release = limits.release
        self.reserve_unknown = limits.reserve_unknown
        self.release_unknown = limits.release_unknown
        self.unsent = limits.unsent
        self._limits = limits
        self._scheduler = scheduler
        self._config = config
        self._idle_ms = config.connections_max_idle_ms
        self._counted: set[Connection] = set()
        self._socket: socket.socket | None = None
        self._loop: asyncio.AbstractEventLoop | None = None
        self._tls: Any = None
        self._watches = False  # connections read from their own sockets
        self._tasks: set[asyncio.Task[None]] = set()
        self._sweep: Timer | None = None
        self._arriving: dict[Connection, int] = {}
        self._look: Timer | None = None
        self._closed = False
        self._told_ms = 0
        self.soon: Callable[[Callable[[], Any]], Any] = lambda call: call()

    def bind(self, port: int | None = None) -> int:
        """Bind the configured address, or this port, and listen; clients can connect, and wait until `serve`."""
        host = self.address.host
        port = self.address.port if port is None else port
        family = socket.AF_INET6 if ":" in host else socket.AF_INET
        made = socket.socket(family, socket.SOCK_STREAM)
        try:
            made.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            made.bind((host, port))
            made.listen(self._config.socket_listen_backlog_size)
            made.setblocking(False)
        except OSError as error:
            made.close()
            raise ConfigError(
                f"the listener {self.address.name} cannot listen on {address_text(host, port)}: {error}"
            ) from error
        self._socket = made
        return int(made.getsockname()[1])

    def serve(self, tls: Any = None) -> None:
        """Accept connections on the port that `bind` bound; call it on the event loop.

        `loop.create_server` is not used, as it loses a connection that is being accepted while the server closes: it is
        neither served nor closed.
        """
        self._loop = loop = asyncio.get_running_loop()
        self._tls = tls
        self._watches = tls is None and isinstance(loop, asyncio.SelectorEventLoop)
        self.soon = loop.call_soon
        assert self._socket is not None
        loop.add_reader(self._socket.fileno(), self._accept)
        self._arm_sweep()

    def _accept(self) -> None:
        assert self._loop is not None
        # those that are refused are closed only in the next iteration of the loop
        for _ in range(max(1, min(_ACCEPT_AT_ONCE, max_open_files() // 16))):
            if self._socket is None:
                return
            try:
                made, address = self._socket.accept()
            except (BlockingIOError, InterruptedError, ConnectionAbortedError):
                return
            except OSError as error:
                # out of file descriptors: retry, as others may be closed meanwhile
                self._tell_unaccepted(error)
                self._loop.remove_reader(self._socket.fileno())
                self._scheduler.after(_ACCEPT_AGAIN_MS, self._accept_again)
                return
            made.setblocking(False)
            if self._watches:
                SocketTransport(self._loop, made, address, Connection(self))
                continue
            task = self._loop.create_task(self._welcome(made))
            self._tasks.add(task)
            task.add_done_callback(partial(self._welcomed, made))

    def _tell_unaccepted(self, error: OSError) -> None:
        if self.now_ms() >= self._told_ms:
            self._told_ms = self.now_ms() + _ACCEPT_TOLD_MS
            logger.warning(
                "node %d: cannot accept connections, trying again each second: %s",
                self.node.node_id,
                error,
            )

    def _welcomed(self, made: socket.socket, task: asyncio.Task[None]) -> None:
        self._tasks.discard(task)
        if task.cancelled():
            made.close()
        elif (error := task.exception()) is not None:
            # usually a failed TLS handshake, which concerns only this client
            logger.info(
                "node %d: connection failed before it was established: %s", self.node.node_id, error
            )
            made.close()

    def _accept_again(self) -> None:
        if self._socket is not None and self._loop is not None:
            self._loop.add_reader(self._socket.fileno(), self._accept)

    async def _welcome(self, made: socket.socket) -> None:
        more: dict[str, Any] = {}
        kind = Connection
        if self._tls is not None:
            more = {"ssl": self._tls, "ssl_handshake_timeout": _HANDSHAKE_S}
            kind = TlsConnection
        assert self._loop is not None
        await self._loop.connect_accepted_socket(lambda: kind(self), made, **more)

    def close(self) -> None:
        """Stop listening and abort all connections."""
        self._closed = True
        for timer in (self._sweep, self._look):
            if timer is not None:
                timer.cancel()
        if self._socket is not None:
            if self._loop is not None:
                self._loop.remove_reader(self._socket.fileno())
            self._socket.close()
        self._socket = None
        for task in self._tasks:
            task.cancel()
        for connection in list(self.connections):
            connection.abort()

    def opened(self, connection: Connection, transport: asyncio.BaseTransport) -> None:
        """Register a new connection, or abort it if a limit is exceeded."""
        self.connections.add(connection)
        problem = self._limits.problem(connection.peer)
        if self._closed:
            # it was being accepted when the listener closed
            problem = "the node has stopped"
        if problem is not None:
            logger.info("node %d: refusing %s: %s", self.node.node_id, connection.peer, problem)
            connection.abort()
            return
        self._counted.add(connection)
        self._limits.opened(connection.peer)
        if self.address.uses_tls or self.address.uses_sasl:
            from groupsdk.broker.server.authentication import prepare

            prepare(connection, self.node, transport, uses_sasl=self.address.uses_sasl)

    def lost(self, connection: Connection) -> None:
        """Remove a closed connection."""
        self.connections.discard(connection)
        if connection in self._counted:
            self._counted.discard(connection)
            self._limits.lost(connection.peer)

    @property
    def must_answer_small(self) -> bool:
        """Whether responses must be small because clients that do not read hold too much memory."""
        return self._limits.must_answer_small

    def begun(self, connection: Connection, size: int) -> None:
        """Start the deadline of a request of which a part has been received; a large one has more time."""
        self._arriving[connection] = self.now_ms() + _REQUEST_MS + size // _REQUEST_BYTES_PER_MS
        if self._look is None and not self._closed:
            self._look = self._scheduler.after(_LOOK_MS, self._look_at_arriving)

    def ended(self, connection: Connection) -> None:
        """Cancel the deadline: the request is complete, or the connection is lost."""
        self._arriving.pop(connection, None)

    def _look_at_arriving(self) -> None:
        self._look = None
        now_ms = self.now_ms()
        for connection, until_ms in list(self._arriving.items()):
            if until_ms <= now_ms:
                connection.expire("a request was not received completely in time")
        if self._arriving and not self._closed:
            self._look = self._scheduler.after(_LOOK_MS, self._look_at_arriving)

    def _arm_sweep(self) -> None:
        delay_ms = min(max(self._idle_ms // 2, 1), _LONGEST_SWEEP_MS)
        self._sweep = self._scheduler.after(delay_ms, self._sweep_idle)

    def _sweep_idle(self) -> None:
        now_ms = self.now_ms()
        for connection in list(self.connections):
            if connection.heard:
                connection.heard, connection.active_ms = False, now_ms
            elif connection.active_ms <= now_ms - self._idle_ms:
                connection.expire(f"idle for connections.max.idle.ms={self._idle_ms}")
        self._arm_sweep()
