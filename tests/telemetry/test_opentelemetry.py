"""Holds what OpenTelemetry's own SDK reads of a member: metrics, and a span for each rebalance."""

import math
import time
from datetime import UTC, datetime, timedelta

from opentelemetry.sdk.metrics import MeterProvider
from opentelemetry.sdk.metrics.export import InMemoryMetricReader, MetricsData
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter

from groupsdk.broker.embedded import EmbeddedBroker
from groupsdk.member.metrics import METRICS
from groupsdk.telemetry.opentelemetry import RebalanceTracer, export_metrics
from groupsdk.telemetry.registry import MetricsRegistry
from tests.support.plain_workers import PlainWorker


def test_metrics_are_observed_whenever_the_reader_collects() -> None:
    registry, reader = MetricsRegistry(), InMemoryMetricReader()
    with (
        EmbeddedBroker() as broker,
        PlainWorker(bootstrap_servers=broker.bootstrap_servers, group_id="a") as member,
    ):
        assert member.ensure_active_group(60)
        registry.add_member(member, name="one")
        export_metrics(registry, MeterProvider([reader]))
        found = reader.get_metrics_data()
        assert isinstance(found, MetricsData)
        (scope,) = found.resource_metrics[0].scope_metrics
        points = {each.name: each.data.data_points for each in scope.metrics}
        (joins,) = points["groupsdk.coordinator.join_total"]
        assert joins.value == 1.0  # type: ignore[union-attr]
        assert joins.attributes == {"messaging.consumer.group.name": "a", "name": "one"}
        assert points["groupsdk.member.stable"][0].value == 1.0  # type: ignore[union-attr]


def test_every_metric_of_a_member_is_exported_though_it_started_later() -> None:
    registry, reader = MetricsRegistry(), InMemoryMetricReader()
    export_metrics(registry, MeterProvider([reader]))
    with (
        EmbeddedBroker() as broker,
        PlainWorker(bootstrap_servers=broker.bootstrap_servers, group_id="a") as member,
    ):
        registry.add_member(member)
        assert member.ensure_active_group(60)
        measured = {
            each.name
            for each in registry.families()
            if any(not math.isnan(value) for _, value in each.samples)
        }
        found = reader.get_metrics_data()
    assert isinstance(found, MetricsData)
    (scope,) = found.resource_metrics[0].scope_metrics
    names = {each.name.replace(".", "_").removesuffix("_total") for each in scope.metrics}
    assert len(measured) > len(METRICS) / 2
    assert measured <= names


def test_a_rebalance_is_a_span_and_each_phase_its_child() -> None:
    spans = InMemorySpanExporter()
    provider = TracerProvider()
    provider.add_span_processor(SimpleSpanProcessor(spans))
    began_ns = time.time_ns()
    with (
        EmbeddedBroker() as broker,
        PlainWorker(bootstrap_servers=broker.bootstrap_servers, group_id="a") as member,
    ):
        with RebalanceTracer(member, provider, interval_s=60) as tracer:
            assert member.ensure_active_group(60)
            assert tracer.flush() == 1
            assert tracer.flush() == 0
            member.request_rejoin("again")
            while not (member.poll(0.05) and member.generation().generation_id == 2):
                pass
        last = member.events()[-1]
        now = datetime.now(UTC)
        assert last.ended_at is not None
        assert last.started_at <= last.ended_at
        assert timedelta(seconds=-1) < now - last.started_at < timedelta(minutes=5)
        *phases, rebalance = spans.get_finished_spans()
        assert rebalance.name == "rebalance a"
        assert rebalance.attributes is not None
        assert rebalance.attributes["groupsdk.generation.after"] == 2
        assert rebalance.attributes["groupsdk.rebalance.reason"] == "again"
        assert rebalance.attributes["groupsdk.rebalance.outcome"] == "completed"
        assert rebalance.start_time is not None
        assert rebalance.end_time is not None
        assert began_ns <= rebalance.start_time + 1_000_000
        assert rebalance.end_time <= time.time_ns() + 1_000_000
        mine = [
            each
            for each in phases
            if each.parent and each.parent.span_id == rebalance.context.span_id
        ]
        assert [each.name for each in mine] == ["prepare", "join", "assign", "sync", "complete"]
        assert mine[0].start_time == rebalance.start_time
