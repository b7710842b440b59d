"""Count a consumer's commits, under the names of Java's `ConsumerCoordinatorMetrics`."""

import threading
from concurrent.futures import Future
from typing import Final

from groupsdk.clock import Clock
from groupsdk.membership.metrics import RequestMetrics
from groupsdk.wire.schema import Response


CONSUMER_METRICS: Final[dict[str, str]] = {
    "commit-latency-avg": "Average time to an answer to OffsetCommit, in milliseconds",
    "commit-latency-max": "Longest time to an answer to OffsetCommit, in milliseconds",
    "commit-rate": "Commits answered per second",
    "commit-total": "Commits answered",
    "assigned-partitions": "Partitions that the consumer owns",
}
"""What `ConsumerMetrics.snapshot` holds, and what each means."""


class ConsumerMetrics:
    """Keep the metrics that a consumer has beside those of its member; for use by any thread.

    Every answer to a commit counts, whatever its error code, as in Kafka's client.

    Args:
        clock: the time.
    """

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._commits = RequestMetrics(with_avg=True)
        self._lock = threading.Lock()

    def commit_asked(self, answer: "Future[Response]") -> None:
        """Count a commit once it is answered."""
        sent_ms = self._clock.now_ms()

        def answered(done: "Future[Response]") -> None:
            if not done.cancelled() and done.exception() is None:
                now_ms = self._clock.now_ms()
                with self._lock:
                    self._commits.record(now_ms - sent_ms, now_ms)

        answer.add_done_callback(answered)

    def snapshot(self, assigned: int) -> dict[str, float]:
        """Return every metric of `CONSUMER_METRICS` by its name; NaN where there is nothing yet.

        Args:
            assigned: how many partitions are owned.
        """
        now_ms = self._clock.now_ms()
        with self._lock:
            commits = self._commits
            assert commits.avg is not None
            return {
                "commit-latency-avg": commits.avg.measure(now_ms),
                "commit-latency-max": commits.max.measure(now_ms),
                "commit-rate": commits.rate.measure(now_ms),
                "commit-total": float(commits.total),
                "assigned-partitions": float(assigned),
            }
