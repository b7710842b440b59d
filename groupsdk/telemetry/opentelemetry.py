"""Export metrics and a span for each rebalance through OpenTelemetry: `pip install groupsdk[opentelemetry]`."""

import math
import threading
import weakref
from collections.abc import Callable, Iterable, Mapping
from typing import Final, Protocol

from opentelemetry import metrics, trace
from opentelemetry.metrics import CallbackOptions, MeterProvider, Observation
from opentelemetry.trace import Status, StatusCode, TracerProvider

from groupsdk.clock import SystemClock
from groupsdk.drivers.one_thread import CallersLock
from groupsdk.member.recorder import RebalanceEvent
from groupsdk.snapshot import MemberSnapshot
from groupsdk.telemetry.openmetrics import Family
from groupsdk.telemetry.registry import MetricsRegistry, known_families
from groupsdk.version import __version__


_SCOPE: Final = "groupsdk"
_INTERVAL_S: Final = 1.0
_COLLECTION_S: Final = 0.1


def export_metrics(registry: MetricsRegistry, meter_provider: MeterProvider | None = None) -> None:
    """Register OpenTelemetry observers for every metric of a registry; they are read whenever the provider's reader collects.

    Instruments have the names of the Prometheus exposition with dots: `groupsdk.coordinator.join_total`. Labels become
    attributes; `group` is `messaging.consumer.group.name`, as the semantic conventions have it.

    Args:
        registry: its metrics are exported. Instruments are made at this call: those of members and consumers, whether there are
            any yet, and those of the workers and brokers that it has. Members may come and go later.
        meter_provider: None: the global one.
    """
    meter = metrics.get_meter(_SCOPE, __version__, meter_provider)
    readings = _Readings(registry)

    def observing(name: str) -> Callable[[CallbackOptions], Iterable[Observation]]:
        def observe(_: CallbackOptions) -> Iterable[Observation]:
            for labels, value in readings.samples(name):
                if not math.isnan(value):  # NaN: nothing was measured yet
                    yield Observation(value, _attributes(labels))

        return observe

    wanted = {each.name: each for each in (*known_families(), *registry.families())}
    for family in wanted.values():
        name = _instrument_name(family.name)
        if family.kind == "counter":
            meter.create_observable_counter(
                f"{name}_total", [observing(family.name)], description=family.help
            )
        else:
            meter.create_observable_gauge(name, [observing(family.name)], description=family.help)


class _Readings:
    """Reads a registry once per collection, shared by all its instruments."""

    def __init__(self, registry: MetricsRegistry) -> None:
        self._registry = registry
        self._clock = SystemClock()
        self._read_s = -math.inf
        self._families: dict[str, Family] = {}

    def samples(self, name: str) -> tuple[tuple[Mapping[str, str], float], ...]:
        now_s = self._clock.now_ms() / 1_000
        if now_s - self._read_s > _COLLECTION_S:
            self._families = {each.name: each for each in self._registry.families()}
            self._read_s = now_s
        family = self._families.get(name)
        return () if family is None else family.samples


class Traced(Protocol):
    """A member or consumer whose rebalances are traced."""

    def events(self) -> tuple[RebalanceEvent, ...]: ...

    def snapshot(self) -> MemberSnapshot: ...


class RebalanceTracer:
    """Creates a span for each completed rebalance of a member, with a child for each phase.

    A thread looks for ended rebalances every second, since a rebalance may end while nobody calls the member. It ends with
    `close`, or when the member is dropped. A context manager.

    Args:
        member: the member or consumer; referred to weakly.
        tracer_provider: None: the global one.
        interval_s: seconds between two polls.
    """

    def __init__(
        self,
        member: Traced,
        tracer_provider: TracerProvider | None = None,
        *,
        interval_s: float = _INTERVAL_S,
    ) -> None:
        self._member = weakref.ref(member)
        self._tracer = trace.get_tracer(_SCOPE, __version__, tracer_provider)
        self._interval_s = interval_s
        self._last: RebalanceEvent | None = None
        self._lock = CallersLock()
        self._closing = threading.Event()
        self._thread = threading.Thread(target=self._run, name="groupsdk-tracer", daemon=True)
        self._thread.start()

    def __enter__(self) -> "RebalanceTracer":
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """Create the spans of the rebalances that have ended, and stop."""
        self._closing.set()
        self._thread.join()
        self.flush()

    def flush(self) -> int:
        """Create the spans of the rebalances that ended since the last call; return their number."""
        with self._lock:
            member = self._member()
            if member is None:
                return 0
            new = _after(member.events(), self._last)
            snapshot = member.snapshot()
            for event in new:
                self._record(event, snapshot)
                self._last = event
            return len(new)

    def _run(self) -> None:
        while not self._closing.wait(self._interval_s):
            if self._member() is None:
                return
            self.flush()

    def _record(self, event: RebalanceEvent, snapshot: MemberSnapshot) -> None:
        def wall_ns(at_ms: int) -> int:
            return (at_ms + event.epoch_offset_ms) * 1_000_000

        attributes: dict[str, str | int | bool] = {
            "messaging.system": "kafka",
            "messaging.consumer.group.name": snapshot.group_id,
            "groupsdk.member.id": event.member_id,
            "groupsdk.generation.before": event.generation_before,
            "groupsdk.generation.after": event.generation_after,
            "groupsdk.rebalance.reason": event.reason,
            "groupsdk.rebalance.outcome": event.outcome,
            "groupsdk.rebalance.attempts": event.attempts,
            "groupsdk.rebalance.leader": event.leader,
        }
        if event.protocol_name is not None:
            attributes["groupsdk.protocol.name"] = event.protocol_name
        span = self._tracer.start_span(
            f"rebalance {snapshot.group_id}",
            context=trace.set_span_in_context(trace.INVALID_SPAN),
            attributes=attributes,
            start_time=wall_ns(event.started_ms),
        )
        if event.outcome.startswith("failed"):
            span.set_status(Status(StatusCode.ERROR, event.outcome))
        context = trace.set_span_in_context(span)
        at_ms = event.started_ms
        for name, spent_ms in event.phases:
            phase = self._tracer.start_span(name, context=context, start_time=wall_ns(at_ms))
            at_ms += spent_ms
            phase.end(wall_ns(at_ms))
        span.end(wall_ns(event.ended_ms))


def _after(
    events: tuple[RebalanceEvent, ...], last: RebalanceEvent | None
) -> tuple[RebalanceEvent, ...]:
    """Return the events after a given one, or all if that one is no longer kept."""
    for place in range(len(events) - 1, -1, -1):
        if events[place] == last:
            return events[place + 1 :]
    return events


def _attributes(labels: Mapping[str, str]) -> dict[str, str]:
    renamed = {"group": "messaging.consumer.group.name"}
    return {renamed.get(name, name): value for name, value in labels.items()}


def _instrument_name(name: str) -> str:
    package, kind, rest = name.split("_", 2)
    return f"{package}.{kind}.{rest}"
