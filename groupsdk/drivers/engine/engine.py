"""Run one member: feed events to its state machine, carry out its actions, and keep the connection to its coordinator."""

import asyncio
from collections import deque
from collections.abc import Callable, Coroutine
from functools import partial
from random import Random
from typing import Any, assert_never

from groupsdk import errors
from groupsdk.clock import Clock
from groupsdk.drivers.engine.connect import Connector
from groupsdk.drivers.engine.connection import Connection, send_request
from groupsdk.drivers.engine.lookup import REFRESH_S, CoordinatorLookup
from groupsdk.member import actions, events
from groupsdk.member.classic.membership import ClassicMembership
from groupsdk.member.machine import MembershipMachine
from groupsdk.member.membership import Membership
from groupsdk.member.requests import CoordinatorRequest, MembershipRequest
from groupsdk.member.view import MemberView
from groupsdk.settings.config import ConsumerMemberConfig, MemberConfig
from groupsdk.wire.schema import Response


TellAnswer = Callable[[Response | errors.GroupSdkError], None]
"""Takes the answer to a request of the caller's own, or the error in its place."""


class CoordinatorConnection:
    """The connection for all requests of a member, made when one is sent. Belongs to one event loop.

    `report` takes what happens; it is called on the loop, never from within `send`.
    """

    def __init__(
        self,
        node: actions.Node,
        connector: Connector,
        report: Callable[[events.NetworkEvent], None],
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
        """Send a request, in the order of calls, once there is a connection without a throttle."""
        self._waiting.append((request_id, request))
        if self._connecting is not None or self._throttle is not None:
            return
        self._go_on()

    @property
    def connection(self) -> Connection | None:
        """The connection, which the link goes on to own; None before there is one."""
        return self._connection

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
        except errors.ResolveError as error:
            # The name comes from a broker, so something resolved before: it may be a passing failure.
            why = (
                f"the group coordinator {node} has no address here (advertised.listeners): {error}"
            )
            self._lost(errors.DisconnectedError(why), connected=False)
        except errors.CredentialsUnavailableError as error:
            self._lost(error, connected=False)
        except errors.NetworkError as error:
            why = (
                f"the group coordinator {node} cannot be reached at the address that the brokers name for it"
                f" (advertised.listeners): {error}"
            )
            unreachable = type(error)(why)
            unreachable.__cause__ = error
            self._lost(unreachable, connected=False)
        except errors.GroupSdkError as error:
            self._lost(error, connected=False)
        else:
            self._connecting = None
            self._go_on(fresh=True)

    def _flush(self, connection: Connection) -> None:
        waiting, self._waiting = self._waiting, []
        for request_id, request in waiting:
            try:
                future = send_request(connection, request)
            except (errors.UnsupportedVersionError, errors.EncodeError) as error:
                self._later(events.RequestRefused(request_id, error))
            except errors.GroupSdkError as error:
                self._lost(error)
                return
            else:
                future.add_done_callback(partial(self._on_done, request_id))

    def _on_done(self, request_id: int, future: "asyncio.Future[Any]") -> None:
        if self.closed or future.cancelled():
            return
        error = future.exception()
        if error is None:
            self._report(events.ResponseReceived(request_id, future.result()))
        elif isinstance(error, errors.GroupSdkError):
            self._lost(error)
        else:
            raise error  # a bug, which the engine makes known

    def _lost(self, error: errors.GroupSdkError, *, connected: bool = True) -> None:
        if self.closed:
            return
        self._connecting = None  # where it is this very task, it is not to be cancelled
        self.close()
        last_word = events.Disconnected(error, connected)
        self._last_word = asyncio.get_running_loop().call_soon(self._report, last_word)

    def _later(self, event: events.NetworkEvent) -> None:
        asyncio.get_running_loop().call_soon(lambda: None if self.closed else self._report(event))


class Engine:
    """One member's state machine, timer and connections, on an event loop of its own; publishes each new view."""

    def __init__(
        self, config: MemberConfig, clock: Clock, publish: Callable[[MemberView], None]
    ) -> None:
        self._clock = clock
        self._publish = publish
        random = Random()
        self._machine = MembershipMachine(_membership_of(config, random))
        self._connector = Connector(config)
        self._lookup = CoordinatorLookup(
            config,
            self._connector,
            random,
            lambda error: self._on_event(events.LookupDelayed(error)),
        )
        self._tasks: set[asyncio.Task[None]] = set()
        self._looking: asyncio.Task[None] | None = None
        self._coordinator: CoordinatorConnection | None = None
        self._timer: asyncio.TimerHandle | None = None
        self._refreshing: asyncio.TimerHandle | None = None
        self._events: deque[events.Event] = deque()
        self._handling = False
        self._shown: MemberView | None = None
        self._stopped: asyncio.Future[None] | None = None
        self._aborted = False
        self._asked: dict[int, TellAnswer] = {}
        self._last_caller_request_id = 0

    async def run(self) -> None:
        """Run until the member is closed; then close every connection."""
        loop = asyncio.get_running_loop()
        self._stopped = loop.create_future()
        loop.set_exception_handler(self._on_loop_error)
        try:
            # The caller may have been faster.
            if self._aborted:
                return
            self._refreshing = loop.call_later(REFRESH_S, self._refresh_brokers)
            self._handle_events()
            await self._stopped
        finally:
            await self._tidy()

    def post(self, event: events.CallerEvent) -> None:
        """Process an event of the caller. Call it on the loop."""
        if isinstance(event, events.CredentialsChanged):
            self._connector.use_credentials(event.username, event.password)
        self._on_event(event)

    def ask(self, request: CoordinatorRequest, tell: TellAnswer) -> None:
        """Send the coordinator a request, in order with earlier events.

        `tell` is called once, on the loop, with the response or a `GroupSdkError`, perhaps before this returns.
        """
        if self._stopped is not None and self._stopped.done():
            tell(errors.MemberClosedError("the member is closed"))
            return
        self._last_caller_request_id += 1
        self._asked[self._last_caller_request_id] = tell
        self._on_event(events.CallerRequest(self._last_caller_request_id, request))

    def abort(self) -> None:
        """End `run` at once, even before it has begun; on the loop."""
        self._aborted = True
        if self._stopped is not None and not self._stopped.done():
            self._stopped.set_result(None)

    def metrics(self) -> dict[str, float]:
        """Return the values of Kafka's coordinator metrics; on the loop."""
        return self._machine.metrics(self._clock.now_ms())

    def _on_event(self, event: events.Event) -> None:
        # Carrying out an action may cause the next event: one after the other, never one within another.
        self._events.append(event)
        self._handle_events()

    def _handle_events(self) -> None:
        if self._handling or not self._events or self._stopped is None or self._stopped.done():
            return
        self._handling = True
        try:
            while self._events:
                now_ms = self._clock.now_ms()
                for action in self._machine.handle(self._events.popleft(), now_ms):
                    self._do(action, now_ms)
        except Exception as error:  # noqa: BLE001  # ends run(), which tells the caller
            self._crash(error)
            return
        finally:
            self._handling = False
        view = self._machine.view
        if view is not self._shown:
            self._shown = view
            self._publish(view)

    def _do(self, action: actions.Action, now_ms: int) -> None:
        match action:
            case actions.Send(request_id, node, request):
                coordinator = self._coordinator
                if coordinator is None or coordinator.closed or coordinator.node != node:
                    coordinator = self._connect_to(node, None)
                coordinator.send(request_id, request)
            case actions.Wake(at_ms):
                self._wake_after(None if at_ms is None else at_ms - now_ms)
            case actions.FindCoordinator():
                self._looking = self._spawn(self._look_up())
            case actions.StopLooking():
                if self._looking is not None:
                    self._looking.cancel()
                    self._looking = None
            case actions.Disconnect():
                self._disconnect(keep=True)
            case actions.AnswerCaller(caller_request_id, answer):
                self._asked.pop(caller_request_id)(answer)
            case actions.Stop():
                self.abort()
            case _:
                assert_never(action)

    def _connect_to(
        self, node: actions.Node, connection: Connection | None
    ) -> CoordinatorConnection:
        self._disconnect()
        self._coordinator = CoordinatorConnection(
            node, self._connector, self._on_event, self._spawn, connection
        )
        return self._coordinator

    def _disconnect(self, *, keep: bool = False) -> None:
        """Give up the connection to the coordinator; `keep` one that works for a lookup that may follow."""
        coordinator, self._coordinator = self._coordinator, None
        if coordinator is None:
            return
        connection = coordinator.release()
        if connection is not None and keep:
            self._lookup.keep(connection)
        elif connection is not None:
            connection.close()

    def _wake_after(self, delay_ms: int | None) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        if delay_ms is not None:
            loop = asyncio.get_running_loop()
            self._timer = loop.call_later(
                max(0, delay_ms) / 1000, self._on_event, events.TimerFired()
            )

    def _refresh_brokers(self) -> None:
        loop = asyncio.get_running_loop()
        self._refreshing = loop.call_later(REFRESH_S, self._refresh_brokers)
        connection = None if self._coordinator is None else self._coordinator.connection
        if connection is not None:
            self._lookup.refresh(connection)

    def _spawn(self, work: Coroutine[Any, Any, None]) -> "asyncio.Task[None]":
        task = asyncio.get_running_loop().create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._on_task_done)
        return task

    def _on_task_done(self, task: "asyncio.Task[None]") -> None:
        self._tasks.discard(task)
        error = None if task.cancelled() else task.exception()
        if error is not None:
            self._crash(error)

    def _on_loop_error(self, loop: asyncio.AbstractEventLoop, context: dict[str, Any]) -> None:
        """Handle an exception from a callback of the loop or of a connection; socket errors never get here.

        What nobody has asked a future for comes here as well, and is only logged.
        """
        error = context.get("exception")
        if isinstance(error, Exception) and context.keys() & {"handle", "protocol", "transport"}:
            self._crash(error)
        else:
            loop.default_exception_handler(context)

    def _crash(self, error: BaseException) -> None:
        if self._stopped is not None and not self._stopped.done():
            self._stopped.set_exception(error)

    async def _tidy(self) -> None:
        """Cancel everything left on the loop, so that it can be closed."""
        for timer in (self._timer, self._refreshing):
            if timer is not None:
                timer.cancel()
        self._disconnect()
        asked, self._asked = self._asked, {}
        for tell in asked.values():
            tell(errors.MemberClosedError("the member was closed before the coordinator answered"))
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)
        await self._connector.close()

    async def _look_up(self) -> None:
        try:
            found = await self._lookup.run()
        except errors.GroupSdkError as error:
            # the report of the last attempt may have been what made the machine give the lookup up
            if self._looking is asyncio.current_task():
                self._on_event(events.LookupFailed(error))
            return
        if found.connection is not None:
            self._connect_to(found.node, found.connection)
        self._on_event(events.CoordinatorFound(found.node))


def _membership_of(config: MemberConfig, random: Random) -> Membership:
    """Return the membership in the protocol that the configuration is of."""
    if isinstance(config, ConsumerMemberConfig):
        # here and not above: members of the classic protocol need not load the other one
        from groupsdk.member.consumer.membership import ConsumerMembership

        return ConsumerMembership(config, random)

    return ClassicMembership(config, random)
