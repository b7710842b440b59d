"""What the parts of the server ask of each other; it is below all of them, so that none imports one that imports it.

A listener accepts connections, a connection makes a call of each request, handlers answer calls. Each of them knows the
one above it by its contract here: a call its `Responder`, a connection its `Acceptor`, both the `ServingNode`.
"""

from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Protocol

from groupsdk.errors import GroupSdkError


if TYPE_CHECKING:
    import asyncio

    from groupsdk.broker.cluster import Cluster
    from groupsdk.broker.server.fetch_sessions import FetchSessions
    from groupsdk.broker.server.pace import Steps
    from groupsdk.wire.schema import Response


class BadRequestError(GroupSdkError):
    """Bytes on which Kafka closes the connection: an invalid request, or one that is not served."""


class FaultScript(Protocol):
    """The scripted faults of a node, as connections ask for them."""

    any: bool

    def intercept(self, call: Any, request: Any) -> bool:
        """Apply a fault to a request. Return whether there was one."""


class ServingNode(Protocol):
    """The node of a connection and of its requests."""

    node_id: int
    cluster: "Cluster"
    running: bool
    authentication: Any
    """The users; None: no listener uses SASL."""

    @property
    def faults(self) -> FaultScript:
        """Its scripted faults."""

    @property
    def fetch_sessions(self) -> "FetchSessions":
        """The fetch sessions that clients have here (KIP-227)."""


class Responder(Protocol):
    """The connection of a request, which sends the response."""

    principal: str
    client_host: str
    peer: str
    listener_name: str
    authenticator: Any
    on_lost: Callable[[], None] | None

    @property
    def node(self) -> ServingNode:
        """The node that the client is connected to."""

    @property
    def closed(self) -> bool:
        """Whether the client gets no further responses."""

    @property
    def must_answer_small(self) -> bool:
        """Whether responses must be small because slow clients already hold too much memory."""

    def answered(self, call: Any, response: "Response") -> None:
        """Send the response to the current request and start the next one."""

    def run(self, call: Any, message: Any) -> None:
        """Handle a request."""

    def go_on(self) -> None:
        """Start the next request; the current one gets no response."""

    def go_on_with(self, call: Any, message: Any, steps: "Steps") -> None:
        """Run the remaining steps of a request and answer it."""

    def close(self, reason: str = "") -> None:
        """Close the connection after sending the pending responses; a reason is logged."""

    def abort(self) -> None:
        """Close the connection immediately; unsent responses are lost."""


class Acceptor(Protocol):
    """The listener of a connection, which bounds what all connections hold. `connection` is the caller itself."""

    max_request_bytes: int

    @property
    def node(self) -> ServingNode:
        """The node that listens."""

    @property
    def name(self) -> str:
        """The name of the listener."""

    @property
    def must_answer_small(self) -> bool:
        """Whether slow clients already hold too much memory."""

    def now_ms(self) -> int:
        """Return the time."""

    def soon(self, call: Callable[[], None]) -> None:
        """Call a function with the next turn of the loop."""

    def opened(self, connection: Any, transport: "asyncio.BaseTransport") -> None:
        """Register a new connection, or abort it if a limit is exceeded."""

    def lost(self, connection: Any) -> None:
        """Remove a closed connection."""

    def begun(self, connection: Any, size: int) -> None:
        """Start the deadline of a request of which a part has arrived."""

    def ended(self, connection: Any) -> None:
        """Cancel the deadline."""

    def reserve(self, connection: Any, size: int) -> bool:
        """Reserve memory for a request. Return whether there was enough."""

    def release(self, connection: Any, size: int) -> None:
        """Release what was reserved."""

    def reserve_unknown(self, size: int) -> bool:
        """Reserve memory for a request of a client that has not authenticated."""

    def release_unknown(self, size: int) -> None:
        """Release what was reserved by `reserve_unknown`."""

    def unsent(self, more: int) -> None:
        """Count bytes that a client has not read yet."""
