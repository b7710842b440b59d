"""Run the engine in a child process, which `ProcessHost` starts."""

import asyncio
import gc
import logging
import os
import signal
import socket
from collections import deque
from contextlib import suppress
from typing import NoReturn

from groupsdk.clock import SystemClock
from groupsdk.drivers.engine.engine import Engine
from groupsdk.drivers.hosts import frames
from groupsdk.lazy_imports import override
from groupsdk.member.events import CloseRequested
from groupsdk.member.view import MemberView
from groupsdk.types import GroupMembershipOperation


logger = logging.getLogger(__name__)

_LEAVE_MS = 5_000  # how long to wait for the coordinator's answer when the parent is dead
_FLUSH_S = 1.0
_MAX_LOGGED = 1_000  # records that wait for a parent that does not read
_WATCH_S = 1.0


class ParentLink(asyncio.Protocol):
    """The socket to the parent, which may stop reading while native code runs there.

    So nothing waits for it, and what is queued is bounded: only the latest view, and a limited number of log records.
    """

    def __init__(self, child: "Child", reader: frames.FrameReader) -> None:
        self.closed = asyncio.get_running_loop().create_future()
        self._child = child
        self._transport: asyncio.Transport | None = None
        self._reader = reader
        self._views = frames.ViewSender()
        self._view: MemberView | None = None
        self._told: deque[frames.MetricsTold | frames.Told | frames.Ended] = deque()
        self._logged: deque[frames.Logged] = deque(maxlen=_MAX_LOGGED)
        self._paused = False
        self._finishing = False
        self._all_sent = asyncio.get_running_loop().create_future()

    def show(self, view: MemberView) -> None:
        """Send a view, replacing one that is not sent yet."""
        self._view = view
        self._flush()

    def tell(self, message: frames.MetricsTold | frames.Told | frames.Ended) -> None:
        """Send a response, or the last message."""
        self._told.append(message)
        self._flush()

    def log(self, logged: frames.Logged) -> None:
        """Send a log record; the oldest ones are dropped while the parent does not read."""
        self._logged.append(logged)
        self._flush()

    async def finish(self) -> None:
        """Close the socket once all is sent, or after a while."""
        self._finishing = True
        self._flush()
        await asyncio.wait(
            [self._all_sent, self.closed],
            timeout=_FLUSH_S,
            return_when=asyncio.FIRST_COMPLETED,
        )
        if self._transport is not None:
            self._transport.close()
        await asyncio.wait([self.closed], timeout=_FLUSH_S)

    @override
    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        assert isinstance(transport, asyncio.Transport)
        transport.set_write_buffer_limits(high=0)
        self._transport = transport
        self._flush()
        self.data_received(b"")  # what came together with the first frame

    @override
    def data_received(self, data: bytes) -> None:
        for message in self._reader.feed(data):
            self._child.take(message)  # type: ignore[arg-type]  # the parent sends nothing else

    @override
    def eof_received(self) -> bool:
        self._child.orphaned("its parent has dropped it")
        return True  # what is left to say may still find a reader

    @override
    def connection_lost(self, exc: Exception | None) -> None:
        self._transport = None
        self.closed.set_result(None)
        self._child.orphaned("the process that it belongs to has died")

    @override
    def pause_writing(self) -> None:
        self._paused = True

    @override
    def resume_writing(self) -> None:
        self._paused = False
        self._flush()

    def _flush(self) -> None:
        transport = self._transport
        if transport is None or transport.is_closing():
            return
        while not self._paused and (message := self._next()) is not None:
            transport.write(frames.encode(message))
        waits = self._view is not None or self._logged or self._told
        if self._finishing and not waits and not self._all_sent.done():
            self._all_sent.set_result(None)

    def _next(self) -> frames.ToParent | None:
        """Return the next message to send: `Ended` comes last."""
        if self._view is not None:
            view, self._view = self._view, None
            return self._views.shown(view)
        if self._logged:
            return self._logged.popleft()
        return self._told.popleft() if self._told else None


class Child:
    """The engine, and its link to the parent; owns the socket."""

    def __init__(
        self, sock: socket.socket, start: frames.Start, reader: frames.FrameReader
    ) -> None:
        self._socket = sock
        self._start = start
        self._reader = reader
        self._engine = Engine(start.config, SystemClock(), self._show)
        self._link: ParentLink | None = None
        self._orphaned = False

    async def run(self) -> None:
        """Run until the member is closed, or its parent is dead."""
        loop = asyncio.get_running_loop()
        running = loop.create_task(self._engine.run())
        link = self._link = ParentLink(self, self._reader)
        self._log_to(link)
        await loop.create_connection(lambda: link, sock=self._socket)
        self._watch_parent()
        await asyncio.wait([running])
        failure = None if running.cancelled() else running.exception()
        error = None
        if failure is not None:
            logger.error(
                "group=%s: the engine of a member ended",
                self._start.config.group_id,
                exc_info=failure,
            )
            await asyncio.sleep(0)  # which sends the record first
            error = f"{type(failure).__name__}: {failure}"
        link.tell(frames.Ended(error, self._engine.metrics()))
        await link.finish()

    def take(self, message: frames.ToChild) -> None:
        """Process a message of the parent."""
        match message:
            case frames.MetricsAsked(request_id):
                if self._link is not None:
                    self._link.tell(frames.MetricsTold(request_id, self._engine.metrics()))
            case frames.Asked(request_id, request):
                self._engine.ask(
                    request, lambda answer: self._tell(frames.Told(request_id, answer))
                )
            case frames.Start():
                raise AssertionError("started twice")
            case _:
                self._engine.post(message)

    def orphaned(self, why: str) -> None:
        """End the engine, since the member can no longer be used. May be repeated.

        A dead process does no work, so a dynamic member leaves at once: others can continue before the session
        timeout is over. A static one falls silent: it may return before that."""
        if not self._orphaned:
            self._orphaned = True
            self._engine.post(CloseRequested(GroupMembershipOperation.DEFAULT, _LEAVE_MS, why))

    def _tell(self, message: frames.Told) -> None:
        if self._link is not None:
            self._link.tell(message)

    def _show(self, view: MemberView) -> None:
        if self._link is not None:
            self._link.show(view)

    def _log_to(self, link: ParentLink) -> None:
        loop = asyncio.get_running_loop()

        def forward(logged: frames.Logged) -> None:
            # from any thread: tokens are fetched and passwords hashed elsewhere
            if not loop.is_closed():
                loop.call_soon_threadsafe(link.log, logged)

        root = logging.getLogger()
        root.addHandler(frames.ForwardingHandler(forward))
        root.setLevel(self._start.log_level)

    def _watch_parent(self) -> None:
        """Notice that the parent has died even if a fork of it keeps the socket open."""
        loop = asyncio.get_running_loop()
        try:
            descriptor = os.pidfd_open(self._start.parent_pid)
        except ProcessLookupError:
            self.orphaned("the process that it belongs to has died")
        except (AttributeError, OSError):  # not on this platform
            loop.call_later(_WATCH_S, self._look_for_parent)
        else:
            loop.add_reader(descriptor, self._parent_died, descriptor)

    def _parent_died(self, descriptor: int) -> None:
        asyncio.get_running_loop().remove_reader(descriptor)
        self.orphaned("the process that it belongs to has died")

    def _look_for_parent(self) -> None:
        try:
            os.kill(self._start.parent_pid, 0)
        except ProcessLookupError:
            self.orphaned("the process that it belongs to has died")
        except PermissionError:
            pass  # it lives, under another user by now
        asyncio.get_running_loop().call_later(_WATCH_S, self._look_for_parent)


def main(descriptor: int) -> NoReturn:
    """Run one member's engine for the process at the other end of a socket, and exit."""
    # Ctrl-C goes to all processes of the terminal, and the SIGTERM of a service manager to all of the
    # service. The parent closes the member in good order, or dies, which is noticed.
    for number in frames.PARENTS_SIGNALS:
        signal.signal(number, signal.SIG_IGN)
    signal.pthread_sigmask(signal.SIG_UNBLOCK, frames.PARENTS_SIGNALS)
    gc.freeze()
    gc.enable()
    status = 1
    with socket.socket(fileno=descriptor) as sock:
        try:
            reader = frames.FrameReader()
            start = _first_frame(sock, reader)
            if start is not None:
                asyncio.run(Child(sock, start, reader).run())
            status = 0
        except Exception as error:  # noqa: BLE001  # the parent raises it
            with suppress(OSError):
                sock.setblocking(True)
                sock.sendall(frames.encode(frames.Ended(f"{type(error).__name__}: {error}", {})))
    # At once: threads that wait for a name server must not hold the process up.
    os._exit(status)


def _first_frame(sock: socket.socket, reader: frames.FrameReader) -> frames.Start | None:
    """Return the first frame; None if the parent is gone already."""
    while data := sock.recv(65_536):
        for message in reader.feed(data):
            assert isinstance(message, frames.Start), message
            return message
    return None
