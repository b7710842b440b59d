"""The connection to the group coordinator: connects when a request is sent, and reports when it breaks."""

import asyncio
from collections.abc import Callable, Coroutine
from functools import partial
from typing import Any

from groupsdk.drivers.engine.connect import Connector
from groupsdk.drivers.engine.connection import Connection, send_request
from groupsdk.errors import (
    CredentialsUnavailableError,
    DisconnectedError,
    EncodeError,
    GroupSdkError,
    NetworkError,
    ResolveError,
    UnsupportedVersionError,
)
from groupsdk.membership.actions import Node
from groupsdk.membership.events import (
    Disconnected,
    NetworkEvent,
    RequestRefused,
    ResponseReceived,
)
from groupsdk.membership.requests import CoordinatorRequest, MembershipRequest


class CoordinatorConnection:
    """The one connection that a member's requests go over. Belongs to one event loop.

    Args:
        node: where the coordinator is.
        connector: opens the connection.
        report: takes what happens; called on the loop, never from within `send`.
        spawn: runs a coroutine as a task, and makes a bug in it known.
        connection: a connection to the node that is open already.
    """

    def __init__(
        self,
        node: Node,
        connector: Connector,
        report: Callable[[NetworkEvent], None],
        spawn: Callable[[Coroutine[Any, Any, None]], "asyncio.Task[None]"],
        connection: Connection | None = None,
    ) -> None:
        self.node = node
        self.closed = False
        self._spawn = spawn
        self._connector = connector
        self._report = report
        self._connection = connection
        self._waiting: list[tuple[int, MembershipRequest | CoordinatorRequest]] = []
        self._connecting: asyncio.Task[None] | None = None
        self._throttle: asyncio.TimerHandle | None = None
        self._last_word: asyncio.Handle | None = None

    def send(self, request_id: int, request: MembershipRequest | CoordinatorRequest) -> None:
        """Send a request as soon as there is a connection and the broker does not throttle the client.

        Args:
            request_id: the id to report its response or error under.
            request: the request; requests are sent in the order of the calls.
        """
        self._waiting.append((request_id, request))
        if self._connecting is not None or self._throttle is not None:
            return
        self._go_on()

    def close(self) -> None:
        """End the connection; nothing is reported from here on."""
        self.closed = True
        if self._connecting is not None:
            self._connecting.cancel()
        if self._throttle is not None:
            self._throttle.cancel()
        if self._connection is not None:
            self._connection.close()
        if self._last_word is not None:
            # It would be taken for that of the link that has come in this one's place.
            self._last_word.cancel()

    def release(self) -> Connection | None:
        """End the link as `close` does, but return its connection, open, where it has one."""
        connection, self._connection = self._connection, None
        self.close()
        return connection

    def _go_on(self, *, fresh: bool = False) -> None:
        self._throttle = None
        connection = self._connection
        # a fresh one is used at least once, however short the broker says that it lasts
        expires = connection is not None and connection.expires_at is not None and not fresh
        expired = connection is not None and expires and self._expired(connection)
        if connection is None or not connection.usable or expired:
            self._connecting = self._spawn(self._connect())
        elif connection.throttled_s > 0:
            # A broker under a quota reads nothing of what is sent too early (KIP-219), so it may as well
            # stay here, where a request that is given up meanwhile costs the broker nothing.
            loop = asyncio.get_running_loop()
            self._throttle = loop.call_later(connection.throttled_s, self._go_on)
        else:
            self._flush(connection)

    def _expired(self, connection: Connection) -> bool:
        """Return whether the broker wants new credentials (KIP-368).

        A new connection brings them: the group knows its members by their ids, not by their connections.
        """
        if connection.expires_at is None or not connection.idle:
            return False
        return asyncio.get_running_loop().time() >= connection.expires_at

    async def _connect(self) -> None:
        if self._connection is not None:
            self._connection.close()
            self._connection = None
        node = self.node
        try:
            self._connection = await self._connector.open(node.host, node.port)
        except ResolveError as error:
            # The name comes from a broker, so something resolved before: it may be a passing failure.
            why = (
                f"the group coordinator {node} has no address here (advertised.listeners): {error}"
            )
            self._lost(DisconnectedError(why), connected=False)
        except CredentialsUnavailableError as error:
            self._lost(error, connected=False)
        except NetworkError as error:
            why = (
                f"the group coordinator {node} cannot be reached at the address that the brokers name for it"
                f" (advertised.listeners): {error}"
            )
            unreachable = type(error)(why)
            unreachable.__cause__ = error
            self._lost(unreachable, connected=False)
        except GroupSdkError as error:
            self._lost(error, connected=False)
        else:
            self._connecting = None
            self._go_on(fresh=True)

    def _flush(self, connection: Connection) -> None:
        waiting, self._waiting = self._waiting, []
        for request_id, request in waiting:
            try:
                future = send_request(connection, request)
            except (UnsupportedVersionError, EncodeError) as error:
                self._later(RequestRefused(request_id, error))
            except GroupSdkError as error:
                self._lost(error)
                return
            else:
                future.add_done_callback(partial(self._on_done, request_id))

    def _on_done(self, request_id: int, future: "asyncio.Future[Any]") -> None:
        if self.closed or future.cancelled():
            return
        error = future.exception()
        if error is None:
            self._report(ResponseReceived(request_id, future.result()))
        elif isinstance(error, GroupSdkError):
            self._lost(error)
        else:
            raise error  # a bug, which the engine makes known

    def _lost(self, error: GroupSdkError, *, connected: bool = True) -> None:
        if self.closed:
            return
        self._connecting = None  # where it is this very task, it is not to be cancelled
        self.close()
        last_word = Disconnected(error, connected)
        self._last_word = asyncio.get_running_loop().call_soon(self._report, last_word)

    def _later(self, event: NetworkEvent) -> None:
        asyncio.get_running_loop().call_soon(lambda: None if self.closed else self._report(event))
