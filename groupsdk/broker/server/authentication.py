"""Authenticate connections: other requests are refused until the client has authenticated."""

import logging
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Final

from groupsdk.broker.server.contract import BadRequestError
from groupsdk.broker.server.sasl_servers import OAuthBearerServer, SaslError, SaslServer
from groupsdk.broker.server.token_threads import Validated
from groupsdk.errors import GroupSdkError
from groupsdk.wire.schema import ApiKey


if TYPE_CHECKING:
    import asyncio

    from groupsdk.broker.server.contract import Responder, ServingNode


logger = logging.getLogger(__name__)
_BEFORE: Final = frozenset({ApiKey.SASL_HANDSHAKE, ApiKey.API_VERSIONS, ApiKey.SASL_AUTHENTICATE})
FAILED_DELAY_MS: Final = 100
"""How long the response to a failed authentication is delayed (Kafka's
connection.failed.authentication.delay.ms).
"""


def prepare(
    connection: "Responder",
    node: "ServingNode",
    transport: "asyncio.BaseTransport",
    *,
    uses_sasl: bool,
) -> None:
    """Set the principal of a connection from its TLS certificate, or prepare it for SASL."""
    if uses_sasl:
        connection.principal = ""
        connection.authenticator = SaslGate(node)
        return
    name = certificate_name(transport.get_extra_info("peercert"))
    if name is not None:
        connection.principal = f"User:{name}"


_SHORT_NAMES: Final = {
    "commonName": "CN",
    "countryName": "C",
    "localityName": "L",
    "organizationName": "O",
    "organizationalUnitName": "OU",
    "stateOrProvinceName": "ST",
    "streetAddress": "STREET",
    "domainComponent": "DC",
    "userId": "UID",
}


def certificate_name(certificate: Any) -> str | None:
    """Return the subject of a certificate as Java writes it (RFC 2253, last part first); None if there is none."""
    if not certificate:
        return None
    parts = [
        f"{_SHORT_NAMES.get(key, key)}={_escaped(value)}"
        for group in reversed(certificate.get("subject", ()))
        for key, value in group
    ]
    return ",".join(parts) or None


def _escaped(value: str) -> str:
    text = "".join(f"\\{each}" if each in ',+"\\<>;' else each for each in value)
    return f"\\{text}" if text.startswith(("#", " ")) else text


class SaslGate:
    """Blocks the requests of a connection until SASL authentication is complete, and again once it expires (KIP-368).

    Attributes:
        mechanism: the last mechanism that was started; "" before the first.
    """

    __slots__ = ("_expires_ms", "_node", "_server", "done", "lifetime_ms", "mechanism", "raw")

    def __init__(self, node: "ServingNode") -> None:
        self._node = node
        self._server: SaslServer | None = None
        self._expires_ms: int | None = None
        self.mechanism = ""
        self.lifetime_ms = 0
        """The lifetime of the session after the last authentication, in milliseconds; 0: unlimited."""
        self.done = False
        """Whether the client has authenticated."""
        self.raw = False
        """Whether the client sends SASL messages without a header (SaslHandshake version 0)."""

    def check(self, connection: "Responder", key: int) -> None:
        """Refuse a request before authentication or after its session; its connection is closed, as in Kafka."""
        if key in _BEFORE:
            return
        if not self.done:
            raise BadRequestError(f"a request of API {key} arrived before authentication")
        if self._expires_ms is not None and connection.node.cluster.now_ms() >= self._expires_ms:
            raise BadRequestError(
                "its session expired: it had to authenticate again before its token's expiry or connections.max.reauth.ms"
            )

    def begin(self, mechanism: str, *, raw: bool) -> bool:
        """Start an exchange. Return whether the mechanism is enabled.

        Args:
            raw: whether the client then sends SASL messages without a header; ignored when it re-authenticates.
        """
        if mechanism not in self._node.authentication.mechanisms:
            return False
        self._server = self._node.authentication.server(mechanism)
        self.mechanism = mechanism
        self.raw = raw and not self.done
        return True

    @property
    def begun(self) -> bool:
        """Whether a mechanism was chosen and its exchange is in progress."""
        return self._server is not None

    def validate(self, message: bytes, then: Callable[[], None]) -> bool:
        """Have the user's validator check the token in a message, if there is one. Return whether it does."""
        server, threads = self._server, self._node.authentication.token_threads
        if threads is None or not isinstance(server, OAuthBearerServer):
            return False
        check = server.validation(message)
        if check is None:
            return False

        def done(outcome: Validated) -> None:
            server.validated(outcome)
            then()

        threads.start(check, done)
        return True

    def evaluate(self, connection: "Responder", message: bytes) -> bytes:
        """Process the client's next message. Return the server's; the last one authenticates the client."""
        server = self._server
        assert server is not None
        try:
            answer = server.evaluate(message)
        except GroupSdkError as error:
            self._server = None
            logger.warning(
                "node %d: %s authentication of %s failed: %s",
                self._node.node_id,
                self.mechanism,
                connection.peer,
                error,
            )
            raise
        if server.principal is not None:
            if self.done and server.principal != connection.principal:
                raise SaslError("a client must re-authenticate as the same user")
            now_ms = connection.node.cluster.now_ms()
            if server.expires_ms is not None and server.expires_ms <= now_ms:
                raise SaslError("the token has expired")
            connection.principal = server.principal
            self.done, self.raw, self._server = True, False, None
            self._begin_session(now_ms, server.expires_ms)
        return answer

    def _begin_session(self, now_ms: int, expires_ms: int | None) -> None:
        """End the session after connections.max.reauth.ms or when its token expires, whichever is first (KIP-368)."""
        longest_ms = self._node.cluster.config.connections_max_reauth_ms
        ends = [] if expires_ms is None else [expires_ms]
        if longest_ms:
            ends.append(now_ms + longest_ms)
        self._expires_ms = min(ends, default=None)
        self.lifetime_ms = 0 if self._expires_ms is None else max(self._expires_ms - now_ms, 0)
