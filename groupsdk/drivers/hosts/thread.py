"""Run the engine on a background thread."""

import asyncio
import logging
import threading
from collections.abc import Callable
from concurrent.futures import Future, TimeoutError as FutureTimeoutError

from groupsdk.clock import Clock
from groupsdk.config import MemberConfig
from groupsdk.drivers.engine.engine import Engine
from groupsdk.drivers.mailbox import Mailbox
from groupsdk.errors import EngineError
from groupsdk.membership.events import CallerEvent


logger = logging.getLogger(__name__)


class ThreadHost:
    """A daemon thread with an event loop of its own.

    User code never runs on it, so it heartbeats on time whatever the caller does, as long as the
    interpreter switches threads: native code that keeps the interpreter's lock stops it too.
    """

    def __init__(self, config: MemberConfig, clock: Clock, mailbox: Mailbox) -> None:
        self._config = config
        self._mailbox = mailbox
        self._loop = asyncio.new_event_loop()
        self._engine = Engine(config, clock, mailbox.publish)
        self._thread = threading.Thread(
            target=self._run, name=f"groupsdk-{config.group_id}", daemon=True
        )
        self._last_metrics: dict[str, float] = {}

    def start(self) -> None:
        """Start the thread."""
        self._thread.start()

    def post(self, event: CallerEvent) -> None:
        """Hand the engine an event."""
        self._call(lambda: self._engine.post(event))

    def metrics(self, timeout_ms: int) -> dict[str, float]:
        """Return the coordinator metrics."""
        answer: Future[dict[str, float]] = Future()
        if not self._call(lambda: answer.set_result(self._engine.metrics())):
            return self._last_metrics
        try:
            return answer.result(timeout_ms / 1000)
        except FutureTimeoutError:
            if not self._thread.is_alive():
                return self._last_metrics
            raise EngineError(f"no answer from the background thread in {timeout_ms} ms") from None

    def stop(self, timeout_ms: int) -> None:
        """Wait for the thread to end; after the timeout make it end."""
        self._thread.join(timeout_ms / 1000)
        if self._thread.is_alive():
            self._call(self._engine.abort)
            self._thread.join(1)

    def _call(self, function: Callable[[], object]) -> bool:
        try:
            self._loop.call_soon_threadsafe(function)
        except RuntimeError:  # the loop is closed
            return False
        return True

    def _run(self) -> None:
        asyncio.set_event_loop(self._loop)
        try:
            self._loop.run_until_complete(self._engine.run())
        except Exception as error:
            logger.exception(
                "group=%s: the background thread of a member ended", self._config.group_id
            )
            crash = EngineError(f"the background thread ended: {type(error).__name__}: {error}")
            crash.__cause__ = error
            self._mailbox.crash(crash)
        finally:
            self._last_metrics = self._engine.metrics()
            self._loop.run_until_complete(asyncio.sleep(0))  # lets transports close their sockets
            self._loop.close()
