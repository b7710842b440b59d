"""Collect the metrics of all members, workers and brokers of a process."""

import re
import weakref
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final, Protocol

from groupsdk.clock import WallClock
from groupsdk.drivers.one_thread import CallersLock
from groupsdk.member.metrics import METRICS
from groupsdk.snapshot import MemberSnapshot
from groupsdk.telemetry.openmetrics import (
    Family,
    Labels,
    Worker,
    check_label,
    exposition,
    family_of,
    openmetrics,
    worker_families,
)


if TYPE_CHECKING:
    # members do not need them
    from groupsdk.admin.watching import ClusterView
    from groupsdk.verdict.observation import KnownLog
    from groupsdk.verdict.values import GroupVerdict, Severity


_MEMBER: Final = "groupsdk_member_"
_FACTS: Final = {
    "generation": "The generation or member epoch; -1 for none",
    "stable": "1 if the member is stable in its group",
    "holds": "1 if the group cannot have rebalanced without the member",
    "leader": "1 if the member computed the last assignment",
    "coordinator_known": "1 if the group coordinator is known",
}
"""The facts of a member's snapshot, with their descriptions."""
_COORDINATOR: Final = "groupsdk_coordinator_"
MAX_FINDINGS: Final = 10_000
"""The most findings that are exported at a time."""


class Member(Protocol):
    """Any member or consumer, for threads or asyncio."""

    def metrics(self) -> Mapping[str, float]: ...

    def snapshot(self) -> MemberSnapshot: ...


class Broker(Protocol):
    """An `EmbeddedBroker`."""

    def group_metrics(self) -> Mapping[str, int]: ...


def member_families(member: Member, labels: Labels) -> Iterator[Family]:
    """Yield the metrics of a member or consumer.

    `join-total` becomes the counter `groupsdk_coordinator_join_total`, `join-time-avg` the gauge
    `groupsdk_coordinator_join_time_avg`. There are also gauges of the member's snapshot: generation, stable, holds and
    leader.
    """
    snapshot = member.snapshot()
    facts = (
        snapshot.generation.generation_id,
        snapshot.stable,
        snapshot.holds,
        snapshot.is_leader,
        snapshot.coordinator is not None,
    )
    for (name, explained), fact in zip(_FACTS.items(), facts, strict=True):
        yield Family(f"{_MEMBER}{name}", "gauge", explained, ((labels, float(fact)),))
    yield from coordinator_families(member.metrics(), labels)


def known_families() -> Iterator[Family]:
    """Yield the families of every metric that a member or consumer has once it has started, without samples."""
    from groupsdk.consumer.metrics import CONSUMER_METRICS  # imports confluent-kafka

    for name, explained in _FACTS.items():
        yield Family(f"{_MEMBER}{name}", "gauge", explained, ())
    for name, explained in {**METRICS, **CONSUMER_METRICS}.items():
        yield family_of(_COORDINATOR + name.replace("-", "_"), explained, ())


def coordinator_families(metrics: Mapping[str, float], labels: Labels) -> Iterator[Family]:
    """Yield the families of a member's or consumer's metrics."""
    for name, value in metrics.items():
        shown = _COORDINATOR + name.replace("-", "_")
        yield family_of(shown, METRICS.get(name) or _of_consumers(name), ((labels, value),))


def broker_families(counts: Mapping[str, int], labels: Labels) -> Iterator[Family]:
    """Yield the counts of a broker's groups.

    `NumGroupsStable` becomes `groupsdk_broker_num_groups_stable`; what stands behind a comma, as in
    `consumer-group-count,state=stable`, becomes a label. A count of events, such as `offset-commit-count`, becomes the
    counter `groupsdk_broker_offset_commit_total`.
    """
    found: dict[str, list[tuple[Labels, float]]] = {}
    for name, value in counts.items():
        first, *tags = name.split(",")
        more = dict(tag.split("=", 1) for tag in tags)
        found.setdefault(first, []).append(({**labels, **more}, float(value)))
    for name, samples in found.items():
        shown = re.sub(r"(?<=[a-z])(?=[A-Z])", "_", name).lower().replace("-", "_")
        explained = f"{name} of Kafka's group coordinator"
        if name.endswith("-count") and samples[0][0] == labels:
            shown = f"{shown.removesuffix('_count')}_total"
        yield family_of(f"groupsdk_broker_{shown}", explained, tuple(samples))


def finding_families(
    verdicts: Iterable["GroupVerdict"], known: "KnownLog | None" = None
) -> Iterator[Family]:
    """Yield the findings about watched groups: a sample that is 1 for each group and rule, with the worst severity of that rule.

    With `known` also whether the groups' log is read, without which some rules do not apply. Of more than `MAX_FINDINGS` the most severe are kept.
    """
    worst: dict[tuple[str, str], Severity] = {}
    for verdict in verdicts:
        for each in verdict.findings:
            # the most severe one comes first
            worst.setdefault((each.group, each.rule), each.severity)
    kept = sorted(worst.items(), key=lambda each: (-each[1].rank, each[0]))[:MAX_FINDINGS]
    yield Family(
        "groupsdk_group_finding",
        "gauge",
        "1 for each finding about a group, as groupsdk doctor explains it",
        tuple(
            ({"group": group, "rule": rule, "severity": severity.value}, 1.0)
            for (group, rule), severity in sorted(kept)
        ),
    )
    if known is not None:
        yield Family(
            "groupsdk_group_log_read",
            "gauge",
            "1 if the groups' log is read; otherwise findings about the past are those of what was seen by watching",
            (({}, float(not known.text)),),
        )


def watched_families(view: "ClusterView", now_ms: int | None = None) -> Iterator[Family]:
    """Yield the metrics of the groups of a view. `now_ms` is the time in milliseconds since 1970, by default the clock's.

    Every sample has the label `group`. The lag of a partition that cannot be known, since nothing is committed or the
    partition is gone, has no sample. Rebalances are counted since watching began; one that begins and ends between two
    looks counts when it changed something.
    """
    states: list[tuple[Labels, float]] = []
    members: list[tuple[Labels, float]] = []
    lags: list[tuple[Labels, float]] = []
    committed: list[tuple[Labels, float]] = []
    for group in view.groups:
        described = group.description
        label = {"group": described.group_id}
        facts = {"type": described.type.value, "state": described.state}
        states.append(({**label, **facts}, 1.0))
        members.append((label, float(len(described.members))))
        for each in group.lag:
            where = {**label, "topic": each.topic, "partition": str(each.partition)}
            if each.committed is not None:
                committed.append((where, float(each.committed)))
            if each.lag is not None:
                lags.append((where, float(each.lag)))
    yield Family("groupsdk_group", "info", "The type and the state of a group", tuple(states))
    yield Family("groupsdk_group_members", "gauge", "Members of a group", tuple(members))
    yield Family(
        "groupsdk_group_committed_offset", "gauge", "The offset to read next", tuple(committed)
    )
    yield Family(
        "groupsdk_group_lag", "gauge", "The lag: offsets that are not yet consumed", tuple(lags)
    )
    yield Family(
        "groupsdk_group_rebalances",
        "counter",
        "Rebalances that have ended since watching began",
        tuple(({"group": group_id}, float(count)) for group_id, count in view.ended.items()),
    )
    yield Family(
        "groupsdk_cluster_reached",
        "gauge",
        "1 if the last query of the cluster succeeded, and none has been waiting for long",
        (({}, float(view.error is None and view.asking_since_ms is None)),),
    )
    now_ms = WallClock().now_ms() if now_ms is None else now_ms
    ages: list[tuple[Labels, float]] = []
    if view.seen_ms is not None:
        ages.append(({}, max(0, now_ms - view.seen_ms) / 1000))
    yield Family(
        "groupsdk_cluster_age_seconds",
        "gauge",
        "The age of what is known of the groups",
        tuple(ages),
    )


def _of_consumers(name: str) -> str:
    from groupsdk.consumer.metrics import CONSUMER_METRICS  # imports confluent-kafka

    return CONSUMER_METRICS.get(name, "")


def _of_broker(broker: Broker, labels: Labels) -> Iterator[Family]:
    return broker_families(broker.group_metrics(), labels)


@dataclass(frozen=True, slots=True)
class _Source:
    families: Callable[[Any, Labels], Iterable[Family]]
    reference: Callable[[], object | None]
    labels: Labels


class MetricsRegistry:
    """The members, workers and brokers of a process whose metrics are exported together.

    They are referenced weakly: a deleted one is missing from the next exposition.

    Threads: all methods may be called from any thread.
    """

    def __init__(self) -> None:
        self._lock = CallersLock()
        self._sources: list[_Source] = []

    def add_member(self, member: Member, **labels: str) -> None:
        """Export a member or consumer.

        Args:
            member: an `AbstractCoordinator`, `GroupMember`, `GroupConsumer` or their forms for asyncio.
            labels: labels of its samples, beside `group`. Two members of one group need labels that differ.

        Raises:
            ValueError: a member with the same labels is exported already, or a label's name is not letters, digits
                and underscores.
        """
        self._add(member_families, member, {"group": member.snapshot().group_id, **labels})

    def add_worker(self, worker: Worker, **labels: str) -> None:
        """Export a `ConnectWorker`; labels and errors as of `add_member`."""
        self._add(worker_families, worker, labels)

    def add_broker(self, broker: Broker, **labels: str) -> None:
        """Export an `EmbeddedBroker`; labels and errors as of `add_member`."""
        self._add(_of_broker, broker, labels)

    def remove(self, source: object) -> None:
        """Stop exporting a member, worker or broker; does nothing if it is not exported."""
        with self._lock:
            self._sources = [each for each in self._sources if each.reference() is not source]

    def families(self) -> list[Family]:
        """Return all metrics at this moment, each family once with the samples of all sources."""
        with self._lock:
            self._sources = [each for each in self._sources if each.reference() is not None]
            sources = tuple(self._sources)
        families: dict[str, Family] = {}
        for source in sources:
            alive = source.reference()
            if alive is None:
                continue
            for family in source.families(alive, source.labels):
                before = families.get(family.name)
                samples = family.samples if before is None else before.samples + family.samples
                families[family.name] = Family(family.name, family.kind, family.help, samples)
        return list(families.values())

    def openmetrics(self) -> str:
        """Return all metrics as OpenMetrics text."""
        return openmetrics(self.families())

    def exposition(self, accept: str = "") -> tuple[str, str]:
        """Return all metrics as text and its media type: OpenMetrics if `accept`, a request's header, names it, else Prometheus' format."""
        return exposition(self.families(), accept)

    def _add(
        self, families: Callable[[Any, Labels], Iterable[Family]], source: object, labels: Labels
    ) -> None:
        for label in labels:
            check_label(label)
        with self._lock:
            for each in self._sources:
                if (
                    each.families is families
                    and each.labels == labels
                    and each.reference() is not None
                ):
                    raise ValueError(
                        f"metrics with the labels {dict(labels)} are exported already:"
                        " give one of the two another label, such as name='second'"
                    )
            self._sources.append(_Source(families, weakref.ref(source), dict(labels)))
