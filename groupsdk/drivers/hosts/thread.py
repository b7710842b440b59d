"""Run the engine on a background thread."""

import _thread
import asyncio
import logging
import os
import threading
from collections.abc import Callable
from concurrent.futures import Future

# Loaded by the caller's thread, before the engine's needs it: a Ctrl-C that interrupts an import of the main thread can
# leave the interpreter's import lock held, and an import on the engine's thread would then stop the heartbeats.
import tenacity  # noqa: F401

from groupsdk.clock import Clock
from groupsdk.drivers.engine.engine import Engine
from groupsdk.drivers.hosts.host import Mailbox, promise, settle, warn_unclosed
from groupsdk.drivers.one_thread import CallersLock
from groupsdk.errors import EngineError, MemberClosedError
from groupsdk.limits import green_library
from groupsdk.member.events import CallerEvent, CloseRequested
from groupsdk.member.requests import CoordinatorRequest
from groupsdk.settings.config import MemberConfig
from groupsdk.types import GroupMembershipOperation
from groupsdk.wire.schema import Response


logger = logging.getLogger(__name__)

_ABANDONED_MS = 5_000


class ThreadHost:
    """A daemon thread with an event loop of its own.

    User code never runs on it, so it heartbeats on time whatever the caller does, as long as the
    interpreter switches threads: native code that keeps the interpreter's lock stops it too."""

    def __init__(self, config: MemberConfig, clock: Clock, mailbox: Mailbox) -> None:
        self.ended: Future[None] = promise()
        self._config = config
        self._mailbox = mailbox
        self._pid = os.getpid()
        self._engine = Engine(config, clock, mailbox.publish)
        self._loop: asyncio.AbstractEventLoop | None = None
        # re-entrant: request_rejoin() may be called by a signal handler, which interrupts its holder
        self._lock = CallersLock()
        self._open = False
        self._unwanted = False
        self._last_metrics: dict[str, float] = {}

    def start(self) -> None:
        library = green_library(_thread.start_new_thread)
        if library is not None:
            self.ended.set_result(None)
            raise EngineError(
                f"{library} has replaced Python's threads by greenlets, on which a member cannot run;"
                " set heartbeat='process'"
            )
        name = f"groupsdk-{self._config.group_id}"
        opened: Future[None] = promise()
        thread = threading.Thread(target=self._run, args=(opened,), name=name, daemon=True)
        try:
            thread.start()
            opened.result()
        except (OSError, RuntimeError) as error:
            self.ended.set_result(None)
            raise EngineError(
                f"cannot start the background thread of the member: {error}"
            ) from error
        except BaseException:
            # That of a signal handler: nobody will use this host, and its thread may be about to begin.
            with self._lock:
                self._unwanted = True
            self.abort()
            raise

    def post(self, event: CallerEvent) -> None:
        """Hand the engine an event."""
        self._call(self._engine.post, event)

    def ask(self, request: CoordinatorRequest) -> Future[Response]:
        """Send the coordinator a request beside the membership."""
        answer: Future[Response] = promise()
        if not self._call(lambda: self._engine.ask(request, lambda told: settle(answer, told))):
            answer.set_exception(MemberClosedError("the member is closed"))
        return answer

    def metrics(self) -> Future[dict[str, float]]:
        """Ask for the coordinator metrics."""
        answer: Future[dict[str, float]] = promise()
        if not self._call(lambda: answer.set_result(self._engine.metrics())):
            answer.set_result(self._last_metrics)
        return answer

    def abandon(self) -> None:
        """Close the member without waiting for it."""
        if os.getpid() == self._pid:  # in a fork, the member is that of the parent
            operation = GroupMembershipOperation.DEFAULT
            closing = CloseRequested(operation, _ABANDONED_MS, "the member was never closed")
            if self._call(self._engine.post, closing):
                warn_unclosed(self._config.group_id, self)

    def abort(self) -> None:
        """End the thread at once."""
        self._call(self._engine.abort)

    def _call(self, function: Callable[..., object], *arguments: object) -> bool:
        """Call a function on the loop; return whether the loop still calls any."""
        with self._lock:
            if self._open and self._loop is not None:
                self._loop.call_soon_threadsafe(function, *arguments)
            return self._open

    def _run(self, opened: Future[None]) -> None:
        try:
            # takes file descriptors, of which the process may have no more
            loop = asyncio.new_event_loop()
        except OSError as error:
            opened.set_exception(error)
            return
        with self._lock:
            self._loop = loop
            self._open = True
            if self._unwanted:
                self._engine.abort()
        opened.set_result(None)
        try:
            loop.run_until_complete(self._engine.run())
        except Exception as error:
            logger.exception(
                "group=%s: the background thread of a member ended", self._config.group_id
            )
            crash = EngineError(f"the background thread ended: {type(error).__name__}: {error}")
            crash.__cause__ = error
            self._mailbox.crash(crash)
        finally:
            self._end(loop)

    def _end(self, loop: asyncio.AbstractEventLoop) -> None:
        with self._lock:
            self._last_metrics = self._engine.metrics()
            self._open = False
        left = asyncio.all_tasks(loop)
        for task in left:
            task.cancel()
        # Besides, what was called in time is done, and transports close their sockets.
        loop.run_until_complete(
            asyncio.wait([*left, loop.create_task(asyncio.sleep(0))], timeout=1)
        )
        loop.close()
        self.ended.set_result(None)
