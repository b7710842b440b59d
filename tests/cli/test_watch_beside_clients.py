"""Watches groups of librdkafka, of both protocols, on the embedded broker and a real Kafka: who caused each rebalance."""

import asyncio
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial

import pytest
from confluent_kafka import Consumer

from groupsdk.admin.cluster import ClusterClient
from groupsdk.admin.watching import ClusterView, watch_cluster
from groupsdk.broker.embedded import EmbeddedBroker
from groupsdk.testing import LocalKafka
from tests.support.topics import create_topic
from tests.support.workers import eventually


pytestmark = pytest.mark.timeout(300)


@contextmanager
def watched(servers: str, group_id: str) -> Iterator[list[ClusterView]]:
    """Watches a group on a thread; the list holds the newest view."""
    views: list[ClusterView] = []
    stop = threading.Event()

    async def watch() -> None:
        async with ClusterClient({"bootstrap.servers": servers}) as client:
            async for view in watch_cluster(client, [group_id], interval_s=0.1):
                views[:] = [view]
                if stop.is_set():
                    return

    thread = threading.Thread(target=asyncio.run, args=(watch(),))
    thread.start()
    try:
        eventually(lambda: views)
        yield views
    finally:
        stop.set()
        thread.join()


def tell_who_comes_and_goes(servers: str, group_id: str, protocol: str) -> None:
    """Has a member join a group, and another, which leaves again; looks at what is told of it."""
    topic = f"t-{group_id}"
    create_topic(servers, topic, 4)
    consumers: list[Consumer] = []

    def come(name: str) -> None:
        consumer = Consumer(
            {
                "bootstrap.servers": servers,
                "group.id": group_id,
                "client.id": name,
                "group.protocol": protocol,
            }
        )
        consumer.subscribe([topic])
        consumers.append(consumer)

    def told(kind: str, name: str) -> bool:
        for consumer in consumers:
            consumer.poll(0.02)
        (view,) = views
        return any(
            (cause.kind, cause.client_id) == (kind, name)
            for each in view.rebalances
            if each.ended_ms is not None
            for cause in each.causes
        )

    with watched(servers, group_id) as views:
        try:
            for name in ("first", "second"):
                come(name)
                eventually(partial(told, "joined", name), lambda: views)
            eventually(
                lambda: (
                    [told("", "")]
                    and [
                        sorted(each.assignment.size or 0 for each in group.description.members)
                        for group in views[0].groups
                    ]
                    == [[2, 2]]
                ),
                lambda: views,
            )
            consumers.pop().close()
            eventually(lambda: told("left", "second"), lambda: views)
            # a look that takes too long is an error, too, until the next one
            eventually(lambda: views[0].error is None, lambda: views)
        finally:
            for consumer in consumers:
                consumer.close()


@pytest.mark.parametrize("protocol", ["classic", "consumer"])
def test_on_the_embedded_broker(broker: EmbeddedBroker, group_id: str, protocol: str) -> None:
    tell_who_comes_and_goes(broker.bootstrap_servers, group_id, protocol)


@pytest.mark.parametrize("protocol", ["classic", "consumer"])
def test_on_a_real_kafka(kafka: LocalKafka, group_id: str, protocol: str) -> None:
    tell_who_comes_and_goes(kafka.bootstrap_servers, group_id, protocol)
