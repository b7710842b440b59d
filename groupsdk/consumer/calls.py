"""Blocking requests to the group coordinator."""

import time
from collections.abc import Callable, Iterable
from concurrent import futures
from concurrent.futures import Future
from contextlib import suppress
from typing import Any, Final, TypeVar

from confluent_kafka import KafkaError, KafkaException

from groupsdk.assignment import TopicPartition
from groupsdk.clock import Deadline
from groupsdk.drivers.caller import Await
from groupsdk.drivers.group_calls import RepeatedCalls, Steps
from groupsdk.errors import BrokerError, GroupSdkError, StaleMemberEpochError
from groupsdk.member.requests import CoordinatorRequest
from groupsdk.offsets import UNKNOWN_TOPIC
from groupsdk.snapshot import MemberSnapshot
from groupsdk.types import OffsetAndMetadata
from groupsdk.wire.schema import Response


T = TypeVar("T")


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


class CoordinatorCalls(RepeatedCalls):
    """Makes requests with retries on the caller's thread; heartbeats continue meanwhile."""

    given_up: Future[None] | None = None
    """Done once nobody waits for the calls that are made at present; None where that cannot happen."""

    def call(
        self,
        request: CoordinatorRequest,
        read: Callable[[Any], T],
        timeout_ms: int | None,
        repeatable: Callable[[GroupSdkError], bool] = repeatable,
    ) -> T:
        """Return the result of `read` on the response; retries while errors are `repeatable`. See `RepeatedCalls.steps`.

        A member epoch that is not the newest any more is as good as retriable: the next attempt is sent under the epoch of that
        moment. A `timeout_ms` of None is no limit. Raises CallGivenUpError if `given_up` was done first.
        """
        return self.run(self.steps(request, read, Deadline(self._clock, timeout_ms), repeatable))

    def fetch_committed(
        self, group_id: str, partitions: Iterable[TopicPartition], timeout_ms: int
    ) -> dict[TopicPartition, OffsetAndMetadata | None]:
        """Fetch committed offsets, None where there is none, without those of open transactions (KIP-447)."""
        deadline = Deadline(self._clock, timeout_ms)
        return self.run(self.committed(group_id, partitions, deadline, repeatable))

    def run(self, steps: Steps[T]) -> T:
        """Wait for each step of a call, and return its result; CallGivenUpError if `given_up` was done first."""
        while True:
            try:
                step = next(steps)
            except StopIteration as end:
                result: T = end.value
                return result
            if isinstance(step, Await):
                if not self.wait(step.answer, step.timeout_ms):
                    self.check_wanted(step.answer)
            else:
                self.pause(step.delay_ms)
                self.check_wanted(error=step.after)

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


_UNANSWERED: Final = (
    KafkaError._TRANSPORT,  # noqa: SLF001  # their public names
    KafkaError._ALL_BROKERS_DOWN,  # noqa: SLF001
    KafkaError._TIMED_OUT,  # noqa: SLF001
)
