"""Keep the connection to the group coordinator: connect when something is to be sent, say when it breaks."""

import asyncio
from collections.abc import Callable, Coroutine
from functools import partial
from typing import Any

from groupsdk.drivers.engine.connect import Connector
from groupsdk.drivers.engine.connection import Connection
from groupsdk.drivers.engine.fitting import fit
from groupsdk.errors import DisconnectedError, EncodeError, GroupSdkError, UnsupportedVersionError
from groupsdk.membership.actions import MembershipRequest, Node
from groupsdk.membership.events import (
    Disconnected,
    NetworkEvent,
    RequestRefused,
    ResponseReceived,
)


class CoordinatorLink:
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
        self._waiting: list[tuple[int, MembershipRequest]] = []
        self._connecting: asyncio.Task[None] | None = None

    def send(self, request_id: int, request: MembershipRequest) -> None:
        """Send a request, as soon as there is a connection."""
        self._waiting.append((request_id, request))
        if self._connecting is not None:
            return
        if self._connection is not None and self._connection.usable and not self._expired:
            self._flush(self._connection)
            return
        self._connecting = self._spawn(self._connect())

    def close(self) -> None:
        """End the connection; nothing is reported from here on."""
        self.closed = True
        if self._connecting is not None:
            self._connecting.cancel()
        if self._connection is not None:
            self._connection.close()

    @property
    def _expired(self) -> bool:
        """Whether the broker wants new credentials (KIP-368).

        A new connection brings them: the group knows its members by their ids, not by their connections.
        """
        connection = self._connection
        if connection is None or connection.expires_at is None or not connection.idle:
            return False
        return asyncio.get_running_loop().time() >= connection.expires_at

    async def _connect(self) -> None:
        if self._connection is not None:
            self._connection.close()
            self._connection = None
        try:
            self._connection = await self._connector.open(self.node.host, self.node.port)
        except GroupSdkError as error:
            self._connecting = None
            self._lost(error)
            return
        self._connecting = None
        self._flush(self._connection)

    def _flush(self, connection: Connection) -> None:
        waiting, self._waiting = self._waiting, []
        for request_id, request in waiting:
            try:
                future = fit(connection, request)
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
        else:
            self._lost(error if isinstance(error, GroupSdkError) else DisconnectedError(str(error)))

    def _lost(self, error: GroupSdkError) -> None:
        if self.closed:
            return
        self.close()
        asyncio.get_running_loop().call_soon(self._report, Disconnected(error))

    def _later(self, event: NetworkEvent) -> None:
        asyncio.get_running_loop().call_soon(lambda: None if self.closed else self._report(event))
