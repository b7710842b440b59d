"""Run jobs one after the other on a thread of their own, for callers that must not block."""

import asyncio
import logging
import os
import threading
from collections import deque
from collections.abc import Callable
from concurrent.futures import Future
from queue import Empty, SimpleQueue
from typing import Any, Final

from groupsdk.errors import EngineError


logger = logging.getLogger(__name__)

Job = Callable[[], object]
_Queued = tuple[asyncio.AbstractEventLoop, Job, bool]

_LOOK_S: Final = 1.0
"""How often a thread that waits for a loop looks whether that is still there."""


class JobThread:
    """A thread that runs jobs in order, and runs later ones while a job waits for an event loop.

    It starts with the first job. An exception of a job is only logged: a job has to deliver its outcome itself.
    """

    def __init__(self, name: str) -> None:
        self.loop: asyncio.AbstractEventLoop | None = None
        """The loop that the job at work was put from: where the callbacks that it causes belong."""
        self._name = name
        self._jobs: SimpleQueue[_Queued | None] = SimpleQueue()
        self._put_off: deque[_Queued] = deque()
        """Jobs that came while another one waited and are not done within that one; of the thread alone."""
        self._thread: threading.Thread | None = None
        self._ending = False
        self._pid = os.getpid()

    @property
    def forked(self) -> bool:
        """Whether this process is a fork, in which the thread does not exist."""
        return os.getpid() != self._pid

    def put(self, loop: asyncio.AbstractEventLoop, job: Job, *, within: bool = True) -> None:
        """Queue a job; call on the loop. Unless `within`, it is not done within another job that waits.

        Raises EngineError if this process is a fork, in which the thread does not exist.
        """
        if self.forked:
            raise EngineError(
                "the process forked after the consumer was created, and its thread stayed in the parent; create"
                " consumers after forking"
            )
        if self._thread is None:
            self._thread = threading.Thread(target=self._run, name=self._name, daemon=True)
            self._thread.start()
        self._jobs.put((loop, job, within))

    def end(self) -> None:
        """End the thread after the queued jobs; callable from any thread, including during garbage collection."""
        self._jobs.put(None)

    def serve_until_done(self, running: "Future[Any]", loop: asyncio.AbstractEventLoop) -> None:
        """Run further jobs until a future of the loop is done; called on this thread, within a job.

        Raises EngineError if the loop was closed before.
        """
        running.add_done_callback(lambda _: self._jobs.put((loop, _nothing, True)))
        while not running.done():
            try:
                job = self._jobs.get(timeout=_LOOK_S)
            except Empty:
                if loop.is_closed():
                    raise EngineError(
                        "the event loop was closed while a callback ran on it"
                    ) from None
                continue
            if job is not None and not job[2]:
                self._put_off.append(job)
            else:
                self._do(job)

    def _run(self) -> None:
        while not self._ending:
            self._do(self._next())
        # put at the same time: whoever waits for it must be told
        while self._put_off or not self._jobs.empty():
            self._do(self._next())

    def _next(self) -> _Queued | None:
        return self._put_off.popleft() if self._put_off else self._jobs.get()

    def _do(self, job: _Queued | None) -> None:
        if job is None:
            # not the end of whoever is at work in a job further out
            self._ending = True
            return
        outer, self.loop = self.loop, job[0]
        try:
            job[1]()
        except Exception:
            logger.exception("a job of the thread %s failed", self._name)
        finally:
            self.loop = outer


def _nothing() -> None: ...
