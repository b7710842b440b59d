"""Test the metrics that a consumer adds to its member's."""

import math
from concurrent.futures import Future

import pytest

from groupsdk.clock import ManualClock
from groupsdk.consumer.listener import ListenerCalls
from groupsdk.consumer.metrics import CONSUMER_METRICS, ConsumerMetrics
from groupsdk.errors import DisconnectedError
from groupsdk.wire.messages.offsets import OffsetCommitResponse
from groupsdk.wire.schema import Response
from tests.consumer.rig import Bench, Listener


def test_commits_count_when_they_are_answered() -> None:
    clock = ManualClock()
    metrics = ConsumerMetrics(clock)
    assert math.isnan(metrics.snapshot(0)["commit-latency-avg"])
    answers: list[Future[Response]] = [Future() for _ in range(4)]
    for each in answers:
        metrics.commit_asked(each)
    clock.advance(10)
    answers[0].set_result(OffsetCommitResponse())
    clock.advance(20)
    answers[1].set_result(OffsetCommitResponse())
    answers[2].set_exception(DisconnectedError("gone"))
    answers[3].cancel()
    found = metrics.snapshot(7)
    assert list(found) == list(CONSUMER_METRICS)
    assert found["commit-latency-avg"] == 20
    assert found["commit-latency-max"] == 30
    assert found["commit-total"] == 2
    assert found["commit-rate"] == pytest.approx(2 / 30, rel=0.01)
    assert found["assigned-partitions"] == 7


def test_a_consumer_tells_them_with_those_of_its_member() -> None:
    bench = Bench()
    bench.consumer.subscribe("t")
    bench.fill(1)
    bench.read()
    bench.consumer.commit(asynchronous=False)
    bench.consumer._session.member.metrics = lambda: {"join-total": 1.0}  # type: ignore[method-assign]  # nobody answers here
    found = bench.consumer.metrics()
    assert found["join-total"] == 1
    assert found["commit-total"] == 1
    assert found["assigned-partitions"] == 3


def test_listeners_are_measured_unless_they_raise() -> None:
    listener = Listener()
    bench = Bench()
    bench.consumer.subscribe("t", listener=listener)
    metrics = bench.session.metrics
    assert math.isnan(metrics.snapshot(0)["partition-assigned-latency-max"])
    listener.hooks |= {
        "assigned": lambda _: bench.clock.advance(30),
        "revoked": lambda _: bench.clock.advance(7),
        "generation": lambda _: bench.clock.advance(1_000),
    }
    bench.read(timeout=0.3)
    listener.hooks["assigned"] = lambda _: bench.clock.advance(10)
    bench.consumer.enforce_rebalance("test")
    bench.read(timeout=0.3)
    listener.raises["assigned"] = RuntimeError("mine")
    bench.consumer.enforce_rebalance("test")
    with pytest.raises(RuntimeError, match="mine"):
        bench.read(timeout=0.3)
    found = metrics.snapshot(0)
    assert found["partition-assigned-latency-avg"] == 20
    assert found["partition-assigned-latency-max"] == 30
    assert found["partition-revoked-latency-avg"] == 7
    assert found["partition-revoked-latency-max"] == 7
    assert math.isnan(found["partition-lost-latency-avg"])


def test_revocation_in_place_of_a_loss_is_measured_as_a_loss() -> None:
    clock = ManualClock()
    metrics = ConsumerMetrics(clock)

    class Revoking:
        def on_partitions_revoked(self, given: object) -> None:
            clock.advance(5)

    ListenerCalls(Revoking(), metrics).lost([])
    assert metrics.snapshot(0)["partition-lost-latency-max"] == 5
    assert math.isnan(metrics.snapshot(0)["partition-revoked-latency-max"])
