"""Blocking requests to the group coordinator."""

import time
from collections.abc import Callable, Iterable
from concurrent import futures
from concurrent.futures import Future
from contextlib import suppress
from random import Random
from typing import Any, Final, TypeVar

from confluent_kafka import KafkaError, KafkaException

from groupsdk.clock import Clock, Deadline
from groupsdk.errors import (
    BrokerError,
    GroupSdkError,
    RequestTimeoutError,
    StaleMemberEpochError,
)
from groupsdk.member.requests import CoordinatorRequest
from groupsdk.offsets import UNKNOWN_TOPIC
from groupsdk.settings.backoff import ExponentialBackoff
from groupsdk.snapshot import MemberSnapshot
from groupsdk.wire.schema import Response


T = TypeVar("T")

Ask = Callable[[CoordinatorRequest], Future[Response]]


class CallGivenUpError(Exception):
    """The caller no longer waits for this call."""

    def __init__(self, asked: "Future[Response] | None", error: GroupSdkError | None) -> None:
        super().__init__("the call was abandoned")
        self.asked = asked
        self.error = error


def repeatable(error: GroupSdkError) -> bool:
    """Return whether the same request may succeed later; StaleMemberEpochError counts, as the member soon knows its epoch."""
    return error.retriable or isinstance(error, StaleMemberEpochError)


def repeatable_before_revocation(error: GroupSdkError) -> bool:
    """Return whether a commit of partitions that go may be repeated: not if their topic is gone, as a rule the reason why they go.

    All records would wait for it until the time is over (KAFKA-13310); see CommitRequestManager.
    """
    gone = isinstance(error, BrokerError) and error.code in UNKNOWN_TOPIC
    return repeatable(error) and not gone


class CoordinatorCalls:
    """Makes requests with retries on the caller's thread; heartbeats continue meanwhile."""

    def __init__(self, ask: Ask, clock: Clock, backoff: ExponentialBackoff, random: Random) -> None:
        self.ask = ask
        self.given_up: Future[None] | None = None
        """Done once nobody waits for the calls that are made at present; None where that cannot happen."""
        self._clock = clock
        self._backoff = backoff
        self._random = random

    def call(
        self,
        request: CoordinatorRequest,
        read: Callable[[Any], T],
        timeout_ms: int | None,
        repeatable: Callable[[GroupSdkError], bool] = repeatable,
    ) -> T:
        """Return the result of `read` on the response, which may raise the error of its codes; retries while errors are `repeatable`.

        A member epoch that is not the newest any more is as good as retriable: the next attempt is sent under the epoch of that
        moment. One attempt is made in any case; a `timeout_ms` of None is no limit. Raises CallGivenUpError if `given_up` was
        done first.
        """
        deadline = Deadline(self._clock, timeout_ms)
        attempts = 0
        last: GroupSdkError | None = None
        while True:
            try:
                answer = self.ask(request)
                left_ms = deadline.remaining_ms(_LONG_MS)
                if not self.wait(answer, left_ms):
                    self.check_wanted(answer)
                    # an answer that came says more than one that had no time to come
                    raise last or RequestTimeoutError(
                        f"no answer from the coordinator within {left_ms} ms"
                    )
                return self.call_once(answer, read)
            except GroupSdkError as error:
                if not repeatable(error) or deadline.expired:
                    raise
                last = error
            self.pause(deadline.remaining_ms(self._backoff.backoff_ms(attempts, self._random)))
            self.check_wanted(error=last)
            attempts += 1

    def call_once(self, answer: "Future[Response]", read: Callable[[Any], T]) -> T:
        """Return the result of `read` on a response that has arrived; GroupSdkError says why there is none."""
        return read(answer.result(0))

    def wait(self, answer: "Future[Response]", timeout_ms: int) -> bool:
        """Wait for a response; return whether it, or its error, has arrived."""
        if self.given_up is None:
            # not futures.wait(): a Ctrl-C within that could leave the answer locked, and the engine waiting for it
            with suppress(TimeoutError):
                answer.exception(timeout_ms / 1000)
        else:  # not on the main thread
            both: list[Future[Any]] = [answer, self.given_up]
            futures.wait(both, timeout_ms / 1000, futures.FIRST_COMPLETED)
        return answer.done()

    def pause(self, delay_ms: int) -> None:
        """Wait, unless the caller gives up."""
        if self.given_up is None:
            time.sleep(delay_ms / 1000)
        else:
            futures.wait([self.given_up], delay_ms / 1000)

    def check_wanted(
        self, asked: "Future[Response] | None" = None, error: GroupSdkError | None = None
    ) -> None:
        """Raise CallGivenUpError with the arguments if the caller no longer waits."""
        if self.given_up is not None and self.given_up.done():
            raise CallGivenUpError(asked, error)


def ask_brokers(
    what: str,
    timeout_s: float,
    servers: Iterable[str],
    snapshot: Callable[[], MemberSnapshot],
    ask: Callable[[float], T],
) -> T:
    """Return librdkafka's answer; if no broker answers, name them and the wait, which librdkafka does not."""
    try:
        return ask(timeout_s)
    except KafkaException as error:
        cause = error.args[0]
        if cause.code() not in _UNANSWERED:
            raise
        why = snapshot().trouble or cause.str()
        tried = f"no answer within {timeout_s:g} s, bootstrap.servers={', '.join(servers)}"
        raise KafkaException(KafkaError(cause.code(), f"{what}: {tried}: {why}")) from error


_LONG_MS = 2**31 - 1
_UNANSWERED: Final = (
    KafkaError._TRANSPORT,  # noqa: SLF001  # their public names
    KafkaError._ALL_BROKERS_DOWN,  # noqa: SLF001
    KafkaError._TIMED_OUT,  # noqa: SLF001
)
