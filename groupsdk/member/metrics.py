"""Count what a member does, under the names that Java's clients use."""

import math
from typing import Final


WINDOW_MS: Final = 30_000
"""`metrics.sample.window.ms`: one sample of an average, maximum or rate covers so much."""
SAMPLES: Final = 2
"""`metrics.num.samples`: so many samples are measured."""
_HOUR_MS: Final = 3_600_000

METRICS: Final[dict[str, str]] = {
    "heartbeat-response-time-max": "Longest response time of a heartbeat, in milliseconds",
    "heartbeat-rate": "Heartbeat responses per second",
    "heartbeat-total": "Heartbeats answered",
    "join-time-avg": "Average response time of JoinGroup, in milliseconds",
    "join-time-max": "Longest response time of JoinGroup, in milliseconds",
    "join-rate": "Joins per second",
    "join-total": "Joins",
    "sync-time-avg": "Average response time of SyncGroup, in milliseconds",
    "sync-time-max": "Longest response time of SyncGroup, in milliseconds",
    "sync-rate": "Syncs per second",
    "sync-total": "Syncs",
    "rebalance-latency-avg": "Average time of a completed rebalance, retries included, in milliseconds",
    "rebalance-latency-max": "Longest time of a completed rebalance, retries included, in milliseconds",
    "rebalance-latency-total": "Time spent in completed rebalances, in milliseconds",
    "rebalance-total": "Completed rebalances",
    "rebalance-rate-per-hour": "Completed rebalances per hour",
    "failed-rebalance-total": "Failed rebalances",
    "failed-rebalance-rate-per-hour": "Failed rebalances per hour",
    "last-rebalance-seconds-ago": "Seconds since the last completed rebalance; -1 for never",
    "last-heartbeat-seconds-ago": "Seconds since the last heartbeat was sent; -1 for never",
}
"""The metrics in `CoordinatorMetrics.snapshot`, with their descriptions."""


class _Sample:
    __slots__ = ("count", "last_ms", "start_ms", "value")

    def __init__(self, value: float, now_ms: int) -> None:
        self.reset(value, now_ms)

    def reset(self, value: float, now_ms: int) -> None:
        self.value = value
        self.count = 0
        self.start_ms = now_ms
        self.last_ms = now_ms


class _Sampled:
    """A value over the last samples; Kafka's `SampledStat`.

    There is one sample more than is measured: the oldest is reset for reuse when the newest is full, and
    one without an event for the whole window is reset when the statistic is measured.
    """

    __slots__ = ("_current", "_initial", "_samples", "_window_ms")

    def __init__(self, initial: float = 0.0, window_ms: int = WINDOW_MS) -> None:
        self._initial = initial
        self._window_ms = window_ms
        self._samples: list[_Sample] = []
        self._current = 0

    def _sample_at(self, now_ms: int) -> _Sample:
        """Return the sample that a value recorded now goes to, with the event counted."""
        if not self._samples:
            self._samples.append(_Sample(self._initial, now_ms))
        sample = self._samples[self._current]
        if now_ms - sample.start_ms >= self._window_ms:
            self._current = (self._current + 1) % (SAMPLES + 1)
            if self._current >= len(self._samples):
                sample = _Sample(self._initial, now_ms)
                self._samples.append(sample)
            else:
                sample = self._samples[self._current]
                sample.reset(self._initial, now_ms)
        sample.count += 1
        sample.last_ms = now_ms
        return sample

    def _purge(self, now_ms: int) -> None:
        for sample in self._samples:
            if now_ms - sample.last_ms >= SAMPLES * self._window_ms:
                sample.reset(self._initial, now_ms)


class _Max(_Sampled):
    """The largest value; NaN for none."""

    __slots__ = ()

    def __init__(self) -> None:
        super().__init__(initial=-math.inf)

    def record(self, value: float, now_ms: int) -> None:
        sample = self._sample_at(now_ms)
        if value > sample.value:
            sample.value = value

    def measure(self, now_ms: int) -> float:
        self._purge(now_ms)
        if not any(sample.count for sample in self._samples):
            return math.nan
        return max(sample.value for sample in self._samples)


class _Avg(_Sampled):
    """The mean of the values; NaN for none."""

    __slots__ = ()

    def record(self, value: float, now_ms: int) -> None:
        self._sample_at(now_ms).value += value

    def measure(self, now_ms: int) -> float:
        self._purge(now_ms)
        count = sum(sample.count for sample in self._samples)
        return sum(sample.value for sample in self._samples) / count if count else math.nan


class _Rate(_Sampled):
    """Events per unit of time; Kafka's `Rate` over a `WindowedCount`.

    A member that has just started is measured as if it had run for a whole window, so that its first event
    does not show as a burst.
    """

    __slots__ = ("_unit_ms",)

    def __init__(self, unit_ms: int, window_ms: int = WINDOW_MS) -> None:
        super().__init__(window_ms=window_ms)
        self._unit_ms = unit_ms

    def record(self, now_ms: int) -> None:
        self._sample_at(now_ms)

    def measure(self, now_ms: int) -> float:
        self._purge(now_ms)
        count = sum(sample.count for sample in self._samples)
        if not self._samples:
            # Java's, too, begins its first sample when it is first asked.
            self._samples.append(_Sample(self._initial, now_ms))
        elapsed_ms = now_ms - min(sample.start_ms for sample in self._samples)
        missing = SAMPLES - 1 - elapsed_ms // self._window_ms
        if missing > 0:
            elapsed_ms += missing * self._window_ms
        return count / (max(elapsed_ms, 1) / self._unit_ms)


class RequestMetrics:
    """The metrics of one kind of request: count, rate, longest latency and, if wanted, the average."""

    __slots__ = ("avg", "max", "rate", "total")

    def __init__(self, *, with_avg: bool) -> None:
        self.avg = _Avg() if with_avg else None
        self.max = _Max()
        self.rate = _Rate(unit_ms=1000)
        self.total = 0

    def record(self, latency_ms: float, now_ms: int) -> None:
        if self.avg is not None:
            self.avg.record(latency_ms, now_ms)
        self.max.record(latency_ms, now_ms)
        self.rate.record(now_ms)
        self.total += 1


class CoordinatorMetrics:
    """Keep the metrics of Java's group ``<prefix>-coordinator-metrics``.

    Names and values are those of `AbstractCoordinator.GroupCoordinatorMetrics` with Kafka's default
    configuration (two samples of 30 s; an hour for what is per hour). Memory is constant. Not thread-safe:
    it belongs to the thread that runs the member's machine, and `snapshot` moves old samples out, so it
    too. The zero point of `now_ms` means nothing.
    """

    def __init__(self) -> None:
        self._heartbeat = RequestMetrics(with_avg=False)
        self._join = RequestMetrics(with_avg=True)
        self._sync = RequestMetrics(with_avg=True)
        self._rebalance_avg = _Avg()
        self._rebalance_max = _Max()
        self._rebalance_rate = _Rate(_HOUR_MS, _HOUR_MS)
        self._rebalance_latency_total = 0.0
        self._rebalance_total = 0
        self._failed_rate = _Rate(_HOUR_MS, _HOUR_MS)
        self._failed_total = 0
        self.last_heartbeat_ms: int | None = None
        """When the last heartbeat was sent; None for never."""
        self._last_rebalance_ms: int | None = None

    def heartbeat_received(self, latency_ms: float, now_ms: int) -> None:
        """Count the response to a heartbeat, whatever its error code, as Java does."""
        self._heartbeat.record(latency_ms, now_ms)

    def join_completed(self, latency_ms: float, now_ms: int) -> None:
        """Count a JoinGroup response without an error."""
        self._join.record(latency_ms, now_ms)

    def sync_completed(self, latency_ms: float, now_ms: int) -> None:
        """Count a SyncGroup response without an error."""
        self._sync.record(latency_ms, now_ms)

    def rebalance_completed(self, latency_ms: float, now_ms: int) -> None:
        """Count a rebalance that reached a new generation; its time counts from the first JoinGroup."""
        self._rebalance_avg.record(latency_ms, now_ms)
        self._rebalance_max.record(latency_ms, now_ms)
        self._rebalance_rate.record(now_ms)
        self._rebalance_latency_total += latency_ms
        self._rebalance_total += 1
        self._last_rebalance_ms = now_ms

    def rebalance_failed(self, now_ms: int) -> None:
        """Count a rebalance, or an attempt at one, that failed."""
        self._failed_rate.record(now_ms)
        self._failed_total += 1

    def snapshot(self, now_ms: int) -> dict[str, float]:
        """Return every metric of `METRICS` by its name, in that order; NaN for one without a value yet."""
        values: dict[str, float] = {
            "heartbeat-response-time-max": self._heartbeat.max.measure(now_ms),
            "heartbeat-rate": self._heartbeat.rate.measure(now_ms),
            "heartbeat-total": float(self._heartbeat.total),
        }
        for name, requests in (("join", self._join), ("sync", self._sync)):
            if requests.avg is not None:
                values[f"{name}-time-avg"] = requests.avg.measure(now_ms)
            values[f"{name}-time-max"] = requests.max.measure(now_ms)
            values[f"{name}-rate"] = requests.rate.measure(now_ms)
            values[f"{name}-total"] = float(requests.total)
        values |= {
            "rebalance-latency-avg": self._rebalance_avg.measure(now_ms),
            "rebalance-latency-max": self._rebalance_max.measure(now_ms),
            "rebalance-latency-total": self._rebalance_latency_total,
            "rebalance-total": float(self._rebalance_total),
            "rebalance-rate-per-hour": self._rebalance_rate.measure(now_ms),
            "failed-rebalance-total": float(self._failed_total),
            "failed-rebalance-rate-per-hour": self._failed_rate.measure(now_ms),
            "last-rebalance-seconds-ago": _seconds_since(self._last_rebalance_ms, now_ms),
            "last-heartbeat-seconds-ago": _seconds_since(self.last_heartbeat_ms, now_ms),
        }
        return values


def _seconds_since(then_ms: int | None, now_ms: int) -> float:
    """Return whole seconds, as Java does; -1 for never."""
    return -1.0 if then_ms is None else float((now_ms - then_ms) // 1000)
