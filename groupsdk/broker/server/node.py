"""One node of a cluster: an id, listeners with their TLS context, and the connections to them."""

import logging
import ssl
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from groupsdk.broker.cluster import Cluster
from groupsdk.broker.server.faults import Faults
from groupsdk.broker.server.listener import Limits, Listener, NodeAddresses
from groupsdk.errors import ConfigError


if TYPE_CHECKING:
    from groupsdk.broker.server.fetch_sessions import FetchSessions
    from groupsdk.broker.settings.table import BrokerConfig


logger = logging.getLogger(__name__)


class Node:
    """A broker as seen by clients; all nodes of a cluster share its topics, logs and coordinators.

    Attributes:
        running: whether it accepts connections.
        authentication: the users; None: no listener uses SASL.
        addresses: the configured listeners.
    """

    def __init__(
        self,
        node_id: int,
        cluster: Cluster,
        limits: Limits,
        addresses: NodeAddresses,
        *,
        faults: "Faults | None" = None,
    ) -> None:
        self.node_id = node_id
        self.cluster = cluster
        self.faults = Faults() if faults is None else faults
        self.running = False
        self.authentication: Any = None
        self._limits = limits
        self._ports: dict[str, int] = {}
        self._listeners: list[Listener] = []
        self._advertised = addresses.advertised
        self._fetch_sessions: FetchSessions | None = None
        self.addresses = addresses.listeners

    def bind(self) -> None:
        """Bind the ports of all listeners; after a stop, the same ones as before."""
        config, scheduler = self.cluster.config, self.cluster.client_scheduler
        made: list[Listener] = []
        try:
            for address in self.addresses:
                listener = Listener(self, address, self._limits, scheduler, config)
                made.append(listener)
                self._ports[address.name] = listener.bind(self._ports.get(address.name))
        except BaseException:
            for listener in made:
                listener.close()
            raise
        self._listeners = made

    def serve(self) -> None:
        """Accept connections on the ports that `bind` bound; call it on the event loop."""
        for listener in self._listeners:
            tls = None
            if listener.address.uses_tls:
                tls = server_context(self.cluster.config)
            listener.serve(tls)
        self.running = True
        for listener in self._listeners:
            host, port = self.endpoint(listener.address.name)
            logger.info(
                "node %d: listening on %s://%s:%d", self.node_id, listener.address.name, host, port
            )

    def stop(self) -> None:
        """Stop listening and abort all connections; `bind` and `serve` restart it."""
        self.running = False
        for listener in self._listeners:
            listener.close()
        self._listeners = []
        self._fetch_sessions = None

    @property
    def listener_names(self) -> list[str]:
        """The names of the listeners, in the order of the configuration."""
        return [address.name for address in self.addresses]

    @property
    def listeners(self) -> list[Listener]:
        """The listeners; empty while the node is stopped."""
        return self._listeners

    def endpoint(self, listener: str) -> tuple[str, int]:
        """Return the host and port that Metadata names to clients of a listener."""
        advertised = self._advertised.get(listener)
        if advertised is not None:
            return advertised
        address = next(each for each in self.addresses if each.name == listener)
        return address.host or "127.0.0.1", self._ports.get(listener, address.port)

    @property
    def fetch_sessions(self) -> "FetchSessions":
        """The fetch sessions that clients have here (KIP-227)."""
        if self._fetch_sessions is None:
            from groupsdk.broker.server.fetch_sessions import FetchSessions

            slots = self.cluster.config.max_incremental_fetch_session_cache_slots
            self._fetch_sessions = FetchSessions(slots)
        return self._fetch_sessions

    @property
    def ports(self) -> dict[str, int]:
        """The ports by listener name, also while the node is stopped."""
        return dict(self._ports)

    def known_ports(self, ports: Mapping[str, int]) -> None:
        """Set the ports that `bind` binds, by listener name."""
        self._ports.update(ports)


def server_context(config: "BrokerConfig") -> ssl.SSLContext:
    """Create the TLS context for the listeners; TLS 1.2 or later."""
    if not config.ssl_keystore_location:
        raise ConfigError(
            "a listener with TLS needs ssl.keystore.location: a PEM file with the broker's certificate"
        )
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.minimum_version = ssl.TLSVersion.TLSv1_2
    try:
        context.load_cert_chain(
            config.ssl_keystore_location,
            config.ssl_key_location or None,
            config.ssl_key_password or "",
        )
    except (OSError, ssl.SSLError) as error:
        raise ConfigError(
            f"ssl.keystore.location={config.ssl_keystore_location}: {error.strerror or error}"
        ) from error
    if config.ssl_client_auth != "none":
        if not config.ssl_truststore_location:
            raise ConfigError(
                f"ssl.client.auth={config.ssl_client_auth} needs ssl.truststore.location"
            )
        try:
            context.load_verify_locations(config.ssl_truststore_location)
        except (OSError, ssl.SSLError) as error:
            raise ConfigError(
                f"ssl.truststore.location={config.ssl_truststore_location}: {error.strerror or error}"
            ) from error
        required = config.ssl_client_auth == "required"
        context.verify_mode = ssl.CERT_REQUIRED if required else ssl.CERT_OPTIONAL
    return context
