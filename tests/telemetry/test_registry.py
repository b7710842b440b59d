"""Holds the registry: several sources in one exposition, weakly referred to, read by prometheus-client."""

import asyncio
import gc

import pytest
from prometheus_client import CollectorRegistry, generate_latest
from prometheus_client.openmetrics.exposition import generate_latest as generate_openmetrics
from prometheus_client.openmetrics.parser import text_string_to_metric_families
from prometheus_client.parser import text_string_to_metric_families as old_format

from groupsdk.broker.embedded import EmbeddedBroker
from groupsdk.consumer import GroupConsumer
from groupsdk.telemetry.prometheus import MetricsCollector
from groupsdk.telemetry.registry import MetricsRegistry, finding_families
from groupsdk.verdict import Finding, GroupVerdict, KnownLog, Severity
from tests.connect.workers import standalone
from tests.support.plain_workers import AsyncPlainWorker, PlainWorker


def test_members_consumers_workers_and_brokers_in_one_exposition() -> None:
    registry = MetricsRegistry()
    with EmbeddedBroker(topics={"t": 1}) as broker, standalone() as worker:
        servers = broker.bootstrap_servers
        with (
            PlainWorker(bootstrap_servers=servers, group_id="a") as first,
            PlainWorker(bootstrap_servers=servers, group_id="b") as second,
            GroupConsumer({"bootstrap.servers": servers, "group.id": "c"}) as consumer,
        ):
            for member in (first, second):
                assert member.ensure_active_group(60)
                registry.add_member(member)
            registry.add_member(consumer, name="reader")
            registry.add_worker(worker)
            registry.add_broker(broker)
            families = list(text_string_to_metric_families(registry.openmetrics()))
            by_name = {each.name: each for each in families}
            assert len(by_name) == len(families)
            joins = by_name["groupsdk_coordinator_join"]
            assert joins.type == "counter"
            assert [(s.labels, s.value) for s in joins.samples] == [
                ({"group": "a"}, 1.0),
                ({"group": "b"}, 1.0),
            ]
            stable = by_name["groupsdk_member_stable"].samples
            assert [s.value for s in stable] == [1.0, 1.0, 0.0], "the consumer has not begun"
            assert by_name["groupsdk_broker_num_groups_stable"].samples[0].value == 2.0
            counts = by_name["groupsdk_broker_consumer_group_count"].samples
            assert {"state": "stable"} in [each.labels for each in counts]
            rebalances = by_name["groupsdk_broker_group_completed_rebalance"]
            assert (rebalances.type, rebalances.samples[0].value) == ("counter", 2.0)
            assert by_name["groupsdk_broker_num_members"].samples[0].value == 2.0
            assert "groupsdk_connect_worker_task_count" in by_name

            collectors = CollectorRegistry()
            collectors.register(MetricsCollector(registry))
            names = {each.name for each in families}
            new = generate_openmetrics(collectors).decode()
            assert {each.name for each in text_string_to_metric_families(new)} == names
            old = {
                s.name for f in old_format(generate_latest(collectors).decode()) for s in f.samples
            }
            assert "groupsdk_coordinator_join_total" in old
            assert collectors.get_sample_value("groupsdk_member_stable", {"group": "b"}) == 1.0


def test_two_members_of_a_group_need_labels_that_differ() -> None:
    registry = MetricsRegistry()
    members = [PlainWorker(bootstrap_servers="127.0.0.1:1", group_id="a") for _ in range(2)]
    registry.add_member(members[0])
    with pytest.raises(ValueError, match=r"labels \{'group': 'a'\} are exported already.*name="):
        registry.add_member(members[1])
    registry.add_member(members[1], name="second")
    with pytest.raises(ValueError, match="cannot name a label"):
        registry.add_member(members[1], **{"a-b": "x"})
    registry.remove(members[0])
    registry.add_member(members[0])
    for each in members:
        each.close()


def test_a_member_that_is_dropped_is_gone() -> None:
    registry = MetricsRegistry()
    member = PlainWorker(bootstrap_servers="127.0.0.1:1", group_id="a")
    registry.add_member(member)
    assert registry.families()
    member.close()
    del member
    gc.collect()
    assert registry.families() == []
    assert registry.openmetrics() == "# EOF\n"


async def read_in_asyncio(servers: str) -> float:
    registry = MetricsRegistry()
    async with AsyncPlainWorker(bootstrap_servers=servers, group_id="a") as member:
        assert await member.ensure_active_group(60)
        registry.add_member(member)
        (joins,) = [
            each for each in registry.families() if each.name == "groupsdk_coordinator_join"
        ]
    return joins.samples[0][1]


def test_a_member_of_asyncio_is_read_by_a_plain_call() -> None:
    with EmbeddedBroker() as broker:
        assert asyncio.run(read_in_asyncio(broker.bootstrap_servers)) == 1.0


def test_a_finding_is_exported_once_for_each_rule_and_no_more_than_are_bounded(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def finding(group: str, rule: str, severity: Severity) -> Finding:
        return Finding(rule, severity, group, "saw", "cost", "change", 0.8)

    monkeypatch.setattr("groupsdk.telemetry.registry.MAX_FINDINGS", 2)
    verdicts = [
        GroupVerdict("a", 0, (finding("a", "spare_members", Severity.NOTICE),)),
        GroupVerdict(
            "b",
            0,
            (
                finding("b", "missing_right", Severity.WARNING),
                finding("b", "missing_right", Severity.NOTICE),
            ),
        ),
        GroupVerdict("c", 0, (finding("c", "growing_lag", Severity.CRITICAL),)),
    ]

    [family, read] = finding_families(verdicts, KnownLog(is_begun=False))

    assert family.name == "groupsdk_group_finding"
    assert [labels for labels, value in family.samples if value == 1.0] == [
        {"group": "b", "rule": "missing_right", "severity": "warning"},
        {"group": "c", "rule": "growing_lag", "severity": "critical"},
    ]
    assert (read.name, read.samples) == ("groupsdk_group_log_read", (({}, 0.0),))
