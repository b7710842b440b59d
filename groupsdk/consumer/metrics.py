"""Measure a consumer's commits and listeners, under the names of Java's `ConsumerCoordinatorMetrics`."""

from collections.abc import Iterator
from concurrent.futures import Future
from contextlib import contextmanager
from typing import Final

from groupsdk.clock import Clock
from groupsdk.consumer.listener import Callback
from groupsdk.drivers.one_thread import CallersLock
from groupsdk.member.metrics import RequestMetrics
from groupsdk.wire.schema import Response


CONSUMER_METRICS: Final[dict[str, str]] = {
    "commit-latency-avg": "Average response time of OffsetCommit, in milliseconds",
    "commit-latency-max": "Longest response time of OffsetCommit, in milliseconds",
    "commit-rate": "OffsetCommit responses per second",
    "commit-total": "Commits answered",
    "partition-revoked-latency-avg": "Average time in on_partitions_revoked, in milliseconds",
    "partition-revoked-latency-max": "Longest time in on_partitions_revoked, in milliseconds",
    "partition-assigned-latency-avg": "Average time in on_partitions_assigned, in milliseconds",
    "partition-assigned-latency-max": "Longest time in on_partitions_assigned, in milliseconds",
    "partition-lost-latency-avg": "Average time in on_partitions_lost or its stand-in, in milliseconds",
    "partition-lost-latency-max": "Longest time in on_partitions_lost or its stand-in, in milliseconds",
    "assigned-partitions": "Partitions that the consumer owns",
}
"""The metrics in `ConsumerMetrics.snapshot`, with their descriptions."""

CALLBACKS: Final[tuple[Callback, ...]] = ("revoked", "assigned", "lost")
"""The methods of a listener that are measured, as the metrics name them."""


class ConsumerMetrics:
    """A consumer's metrics beyond its member's; each commit's response counts, as in Kafka's client. Thread-safe."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._commits = RequestMetrics(with_avg=True)
        self._callbacks = {kind: RequestMetrics(with_avg=True) for kind in CALLBACKS}
        self._lock = CallersLock()

    def commit_asked(self, answer: "Future[Response]") -> None:
        """Count a commit and its latency from now on once its response arrives; one without a response does not count."""
        sent_ms = self._clock.now_ms()

        def answered(done: "Future[Response]") -> None:
            if not done.cancelled() and done.exception() is None:
                now_ms = self._clock.now_ms()
                with self._lock:
                    self._commits.record(now_ms - sent_ms, now_ms)

        answer.add_done_callback(answered)

    @contextmanager
    def callback(self, kind: Callback) -> Iterator[None]:
        """Time a listener's method, within a `with` statement. One that raises does not count, as in Kafka's client."""
        began_ms = self._clock.now_ms()
        yield
        now_ms = self._clock.now_ms()
        with self._lock:
            self._callbacks[kind].record(now_ms - began_ms, now_ms)

    def snapshot(self, assigned: int) -> dict[str, float]:
        """Return every metric of `CONSUMER_METRICS` by its name; NaN where there is nothing yet."""
        now_ms = self._clock.now_ms()
        with self._lock:
            commits = self._commits
            assert commits.avg is not None
            metrics = {
                "commit-latency-avg": commits.avg.measure(now_ms),
                "commit-latency-max": commits.max.measure(now_ms),
                "commit-rate": commits.rate.measure(now_ms),
                "commit-total": float(commits.total),
            }
            for kind, calls in self._callbacks.items():
                assert calls.avg is not None
                metrics[f"partition-{kind}-latency-avg"] = calls.avg.measure(now_ms)
                metrics[f"partition-{kind}-latency-max"] = calls.max.measure(now_ms)
            return metrics | {"assigned-partitions": float(assigned)}
