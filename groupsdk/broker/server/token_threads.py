"""Run the user's token validator on threads, so that it does not block the broker's loop."""

import logging
import threading
from collections import deque
from collections.abc import Callable
from functools import partial
from typing import Final

from groupsdk.broker.coordinator.runtime.scheduler import Scheduler, Timer


logger = logging.getLogger(__name__)

Validated = tuple[str, int | None] | None
"""The user's name and when the token expires, in milliseconds since 1970; None: the token is not valid."""

_MOST: Final = 8
"""The most validations at a time; others wait. Clients that are not known yet cause them."""
_LIMIT_MS: Final = 10_000


class _Check:
    """One token to validate."""

    __slots__ = ("done", "run", "timer", "told")

    def __init__(self, run: Callable[[], Validated], done: Callable[[Validated], None]) -> None:
        self.run = run
        self.done = done
        self.timer: Timer | None = None
        self.told = False


class TokenThreads:
    """Runs each validation on a thread of its own, with a timeout; a token not validated in time is refused.

    Not thread-safe: call `start` on the loop's thread.
    """

    def __init__(self, scheduler: Scheduler, on_loop: Callable[[Callable[[], None]], None]) -> None:
        self._scheduler = scheduler
        self._on_loop = on_loop
        self._running = 0
        self._waiting: deque[_Check] = deque()

    def start(self, run: Callable[[], Validated], done: Callable[[Validated], None]) -> None:
        """Validate a token by `run`, which raises nothing, on a thread.

        `done` is called once, on the loop's thread, with the outcome.
        """
        check = _Check(run, done)
        check.timer = self._scheduler.after(_LIMIT_MS, lambda: self._overdue(check))
        self._waiting.append(check)
        self._go_on()

    def _go_on(self) -> None:
        while self._waiting and self._running < _MOST:
            check = self._waiting.popleft()
            if not check.told:
                self._running += 1
                thread = threading.Thread(
                    target=self._work, args=(check,), name="groupsdk-token-validator", daemon=True
                )
                try:
                    thread.start()
                except RuntimeError as error:  # the process has no more threads
                    logger.warning("token_validator cannot run: %s", error)
                    self._on_loop(partial(self._ended, check, None))

    def _work(self, check: _Check) -> None:
        outcome = check.run()
        try:
            self._on_loop(lambda: self._ended(check, outcome))
        except RuntimeError:
            logger.debug("a token was validated after the broker stopped")

    def _ended(self, check: _Check, outcome: Validated) -> None:
        self._running -= 1
        if check.timer is not None:
            check.timer.cancel()
        self._tell(check, outcome)
        self._go_on()

    def _overdue(self, check: _Check) -> None:
        logger.warning("token_validator has not returned within %d ms", _LIMIT_MS)
        self._tell(check, None)

    def _tell(self, check: _Check, outcome: Validated) -> None:
        if not check.told:
            check.told = True
            check.done(outcome)
