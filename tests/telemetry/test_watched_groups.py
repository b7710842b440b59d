"""Holds the metrics of watched groups to what is seen of them, and to prometheus-client's parser."""

import re
import signal
import subprocess
import sys
import urllib.request
from typing import Any

from confluent_kafka import TopicPartition
from prometheus_client.openmetrics.parser import text_string_to_metric_families

from groupsdk.admin.descriptions import GroupDescription, GroupType, Member, PartitionLag
from groupsdk.admin.watching import ClusterView, GroupTracker, WatchedGroup
from groupsdk.broker.embedded import EmbeddedBroker
from groupsdk.telemetry.openmetrics import CONTENT_TYPE, openmetrics
from groupsdk.telemetry.registry import watched_families
from tests.cli.peers import librdkafka, produce
from tests.support.workers import eventually


def parsed(text: str) -> dict[str, list[tuple[dict[str, str], float]]]:
    """Reads an exposition: labels and values by the name of the sample."""
    return {
        each.samples[0].name: [(sample.labels, sample.value) for sample in each.samples]
        for each in text_string_to_metric_families(text)
        if each.samples
    }


def group(name: str, state: str, *members: Member) -> GroupDescription:
    """A classic group."""
    return GroupDescription(name, GroupType.CLASSIC, state, "consumer", "range", 1, members)


def test_the_groups_of_a_view() -> None:
    lags = (
        PartitionLag("t", 0, 3, 10),
        PartitionLag("t", 1, None, 5),  # nothing is committed
        PartitionLag("u", 0, 4, None),  # the topic is gone
    )
    watched = (
        WatchedGroup(group('a"b', "Stable", Member("m", "c", "/h")), 0, lags),
        WatchedGroup(group("e", "Empty"), 0),
    )
    view = ClusterView(1, watched, (), None, {'a"b': 2, "e": 0})
    found = parsed(openmetrics(watched_families(view)))
    partition = {"group": 'a"b', "topic": "t", "partition": "0"}
    assert found == {
        "groupsdk_group_info": [
            ({"group": 'a"b', "type": "classic", "state": "Stable"}, 1),
            ({"group": "e", "type": "classic", "state": "Empty"}, 1),
        ],
        "groupsdk_group_members": [({"group": 'a"b'}, 1), ({"group": "e"}, 0)],
        "groupsdk_group_committed_offset": [
            (partition, 3),
            ({"group": 'a"b', "topic": "u", "partition": "0"}, 4),
        ],
        "groupsdk_group_lag": [(partition, 7)],
        "groupsdk_group_rebalances_total": [({"group": 'a"b'}, 2), ({"group": "e"}, 0)],
        "groupsdk_cluster_reached": [({}, 1)],
    }
    out_of_reach = openmetrics(watched_families(ClusterView(1, error="no broker answers")))
    assert parsed(out_of_reach) == {"groupsdk_cluster_reached": [({}, 0)]}


def test_figures_say_how_old_they_are_while_a_broker_is_silent() -> None:
    view = ClusterView(9_000, seen_ms=5_000, asking_since_ms=6_000)
    found = parsed(openmetrics(watched_families(view, 9_500)))
    assert found == {
        "groupsdk_cluster_reached": [({}, 0)],
        "groupsdk_cluster_age_seconds": [({}, 4.5)],
    }


def test_rebalances_are_counted_for_as_long_as_the_group_is_there() -> None:
    tracker = GroupTracker()
    one, two = Member("m", "c", "/h"), Member("n", "c", "/h")
    tracker.observe(0, [group("g", "Stable", one)])
    assert tracker.ended == {"g": 0}
    tracker.observe(1, [group("g", "Stable", one, two)])
    tracker.observe(2, [group("g", "PreparingRebalance", one)])
    tracker.observe(3, [group("g", "Stable", one)])
    assert tracker.ended == {"g": 2}
    tracker.observe(4, [])
    assert tracker.ended == {}


def test_watch_serves_lag_to_prometheus() -> None:
    with EmbeddedBroker(topics={"t": 2}) as broker:
        produce(broker.bootstrap_servers, "t", {0: 5, 1: 2})
        command = [sys.executable, "-m", "groupsdk", "watch", "--web", "127.0.0.1:0"]
        words = ["--interval", "0.1", "--bootstrap-servers", broker.bootstrap_servers]
        with (
            librdkafka(broker.bootstrap_servers, "g", "t") as consumer,
            subprocess.Popen([*command, *words], stderr=subprocess.PIPE, text=True) as process,
        ):
            try:
                assert process.stderr is not None
                lines = iter(process.stderr.readline, "")
                found = (re.search(r"http://\S+", line) for line in lines)
                url = next(each[0] for each in found if each)

                def lag() -> Any:
                    asked = urllib.request.Request(
                        f"{url}metrics", headers={"Accept": CONTENT_TYPE}
                    )
                    with urllib.request.urlopen(asked, timeout=60) as answer:
                        shown = parsed(answer.read().decode())
                    return [value for _, value in shown.get("groupsdk_group_lag", [])]

                offsets = [TopicPartition("t", 0, 1), TopicPartition("t", 1, 2)]
                consumer.commit(offsets=offsets, asynchronous=False)
                eventually(lambda: lag() == [4, 0])
                process.send_signal(signal.SIGTERM)
                assert process.wait(60) == 0
            finally:
                process.kill()
