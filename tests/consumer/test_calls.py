"""Test calls to the coordinator, in virtual time."""

import socket
from collections import deque
from collections.abc import Callable
from concurrent.futures import Future
from random import Random
from typing import Any

import pytest
from confluent_kafka import KafkaException, TopicPartition
from typing_extensions import override

from groupsdk.clock import ManualClock
from groupsdk.consumer import GroupConsumer
from groupsdk.consumer.calls import CoordinatorCalls
from groupsdk.errors import (
    CoordinatorNotAvailableError,
    DisconnectedError,
    GroupAuthorizationError,
    RequestTimeoutError,
)
from groupsdk.member.requests import CoordinatorRequest
from groupsdk.settings.backoff import ExponentialBackoff
from groupsdk.wire.messages.metadata import MetadataRequest, MetadataResponse
from groupsdk.wire.schema import Response


class Calls(CoordinatorCalls):
    """Answers as scripted: a response, an error, or None for nothing."""

    def __init__(self, *script: Any) -> None:
        self.clock = ManualClock()
        self.script = deque(script)
        self.asked = 0
        super().__init__(self.scripted, self.clock, ExponentialBackoff(100, 1_000), Random(1))

    def scripted(self, request: CoordinatorRequest) -> "Future[Response]":
        self.asked += 1
        answer: Future[Response] = Future()
        told = self.script.popleft()
        if isinstance(told, Exception):
            answer.set_exception(told)
        elif told is not None:
            answer.set_result(told)
        return answer

    @override
    def wait(self, answer: "Future[Response]", timeout_ms: int) -> bool:
        if not answer.done():
            self.clock.advance(timeout_ms)
        return answer.done()

    @override
    def pause(self, delay_ms: int) -> None:
        self.clock.advance(delay_ms)


GOOD = MetadataResponse(cluster_id="c")


def cluster(response: MetadataResponse) -> str | None:
    return response.cluster_id


def test_good_answer_is_returned() -> None:
    assert Calls(GOOD).call(MetadataRequest(), cluster, 1_000) == "c"


def test_passing_error_is_retried_with_a_growing_pause() -> None:
    calls = Calls(*[DisconnectedError("gone")] * 4, GOOD)
    assert calls.call(MetadataRequest(), cluster, None) == "c"
    assert calls.asked == 5
    assert 1_000 < calls.clock.now_ms() < 2_500


def test_the_last_error_is_raised_when_the_time_is_over() -> None:
    calls = Calls(*[DisconnectedError("gone")] * 100)
    with pytest.raises(DisconnectedError):
        calls.call(MetadataRequest(), cluster, 2_000)
    assert 2_000 <= calls.clock.now_ms() < 3_000
    once = Calls(DisconnectedError("gone"))
    with pytest.raises(DisconnectedError):
        once.call(MetadataRequest(), cluster, 0)


def test_silence_is_a_timeout() -> None:
    calls = Calls(None)
    with pytest.raises(RequestTimeoutError, match="within 500 ms"):
        calls.call(MetadataRequest(), cluster, 500)


def test_lasting_error_is_raised_at_once() -> None:
    calls = Calls(GroupAuthorizationError(30))
    with pytest.raises(GroupAuthorizationError):
        calls.call(MetadataRequest(), cluster, 10_000)
    assert calls.clock.now_ms() == 0


def test_an_error_in_the_answer_counts_too() -> None:
    answers = iter([DisconnectedError("no"), None])

    def read(response: MetadataResponse) -> str | None:
        error = next(answers)
        if error is not None:
            raise error
        return response.cluster_id

    assert Calls(GOOD, GOOD).call(MetadataRequest(), read, 1_000) == "c"


def test_really_waiting_ends_with_the_answer() -> None:
    answer: Future[Response] = Future()
    calls = CoordinatorCalls(lambda _: answer, ManualClock(), ExponentialBackoff(1, 1), Random(1))
    assert not calls.wait(answer, 0)
    answer.set_result(GOOD)
    assert calls.wait(answer, 10_000)
    calls.pause(0)


def test_an_error_that_was_answered_is_told_rather_than_that_the_time_is_over() -> None:
    calls = Calls(CoordinatorNotAvailableError(15, "asked"), None)
    with pytest.raises(CoordinatorNotAvailableError):
        calls.call(MetadataRequest(), cluster, 2_000)
    assert calls.asked == 2


@pytest.mark.parametrize(
    ("what", "ask"),
    [
        ("list_topics", lambda consumer: consumer.list_topics(timeout=0.5)),
        (
            "get_watermark_offsets",
            lambda consumer: consumer.get_watermark_offsets(TopicPartition("t", 0), timeout=0.5),
        ),
        (
            "offsets_for_times",
            lambda consumer: consumer.offsets_for_times([TopicPartition("t", 0, 1)], timeout=0.5),
        ),
    ],
)
def test_a_host_that_stays_silent_is_named_with_the_request_and_the_wait(
    what: str, ask: Callable[[GroupConsumer], object]
) -> None:
    with socket.create_server(("127.0.0.1", 0)) as silent:
        address = f"127.0.0.1:{silent.getsockname()[1]}"
        with (
            GroupConsumer(bootstrap_servers=address, group_id="g") as consumer,
            pytest.raises(KafkaException) as raised,
        ):
            ask(consumer)
    text = raised.value.args[0].str()
    assert text.startswith(f"{what}: no answer within 0.5 s, bootstrap.servers={address}: ")


def test_timed_out_call_tells_why_the_coordinator_was_not_found() -> None:
    with socket.create_server(("127.0.0.1", 0)) as silent:
        address = f"127.0.0.1:{silent.getsockname()[1]}"
        with GroupConsumer(bootstrap_servers=address, group_id="g") as consumer:
            consumer.subscribe("t")
            while consumer.snapshot().trouble is None:
                consumer.poll(0.1)
            with pytest.raises(CoordinatorNotAvailableError, match=f"{address} has not answered"):
                consumer.committed([TopicPartition("t", 0)], timeout=0.1)
