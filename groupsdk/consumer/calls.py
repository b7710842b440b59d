"""Ask the coordinator something, and wait for the answer."""

import time
from collections.abc import Callable
from concurrent import futures
from concurrent.futures import Future
from random import Random
from typing import Any, TypeVar

from groupsdk.backoff import ExponentialBackoff
from groupsdk.clock import Clock, Deadline
from groupsdk.errors import GroupSdkError, RequestTimeoutError
from groupsdk.membership.requests import CoordinatorRequest
from groupsdk.wire.schema import Response


T = TypeVar("T")

Ask = Callable[[CoordinatorRequest], Future[Response]]


class CoordinatorCalls:
    """Calls with retries, on the caller's thread; heartbeats go on meanwhile.

    Args:
        ask: sends a request, as `GroupMember.ask` does.
        clock: the time.
        backoff: how long to wait between attempts.
        random: where jitter comes from.
    """

    def __init__(self, ask: Ask, clock: Clock, backoff: ExponentialBackoff, random: Random) -> None:
        self.ask = ask
        self._clock = clock
        self._backoff = backoff
        self._random = random

    def call(
        self, request: CoordinatorRequest, read: Callable[[Any], T], timeout_ms: int | None
    ) -> T:
        """Return what `read` makes of the answer; repeats for as long as errors are retriable.

        Args:
            request: what to ask.
            read: takes the answer, and raises what its error codes mean.
            timeout_ms: how long to try; one attempt is made in any case. None: for ever.

        Raises:
            GroupSdkError: the last error.
        """
        deadline = Deadline(self._clock, timeout_ms)
        attempts = 0
        last: GroupSdkError | None = None
        while True:
            try:
                answer = self.ask(request)
                left_ms = deadline.remaining_ms(_LONG_MS)
                if not self.wait(answer, left_ms):
                    # an answer that came says more than one that had no time to come
                    raise last or RequestTimeoutError(
                        f"no answer from the coordinator within {left_ms} ms"
                    )
                return self.call_once(answer, read)
            except GroupSdkError as error:
                if not error.retriable or deadline.expired:
                    raise
                last = error
            self.pause(deadline.remaining_ms(self._backoff.backoff_ms(attempts, self._random)))
            attempts += 1

    def call_once(self, answer: "Future[Response]", read: Callable[[Any], T]) -> T:
        """Return what `read` makes of an answer that is there.

        Raises:
            GroupSdkError: why there is no answer, or what its error codes mean.
        """
        return read(answer.result(0))

    def wait(self, answer: "Future[Response]", timeout_ms: int) -> bool:
        """Wait for an answer; tell whether it, or the reason why there is none, is there."""
        futures.wait([answer], timeout_ms / 1000)
        return answer.done()

    def pause(self, delay_ms: int) -> None:
        """Wait."""
        time.sleep(delay_ms / 1000)


_LONG_MS = 2**31 - 1
