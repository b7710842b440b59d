"""Tests a whole broker on the event loop of its caller."""

import asyncio

import pytest

from groupsdk.broker.server.broker import Broker, Memory
from groupsdk.broker.settings.table import BrokerConfig
from groupsdk.errors import ConfigError


async def test_broker_runs_on_the_event_loop_of_its_caller() -> None:
    broker = Broker(BrokerConfig())
    broker.open({"t": 2})
    await broker.serve()
    host, port = broker.nodes[1].endpoint("PLAINTEXT")
    reader, writer = await asyncio.open_connection(host, port)
    # ApiVersions 0
    writer.write(b"\0\0\0\x0a\0\x12\0\0\0\0\0\x07\xff\xff")
    assert (await reader.readexactly(8))[4:] == b"\0\0\0\x07"
    broker.close()
    assert await reader.read(100_000) != b"nothing"
    writer.close()
    for _ in range(5):
        await asyncio.sleep(0)


def test_a_broker_that_cannot_open_gives_everything_back() -> None:
    memory = Memory()
    first = Broker(BrokerConfig(), memory=memory)
    first.open()
    port = first.nodes[1].endpoint("PLAINTEXT")[1]
    second = Broker(BrokerConfig.of(listeners=f"PLAINTEXT://127.0.0.1:{port}"))
    with pytest.raises(ConfigError, match="in use"):
        second.open()
    first.close()
    third = Broker(BrokerConfig(), memory=memory)
    third.open()
    third.close()


def test_topics_of_nodes_that_are_gone_are_led_by_those_that_are_there() -> None:
    memory = Memory()

    async def run(nodes: int) -> list[int]:
        broker = Broker(BrokerConfig(), nodes=nodes, memory=memory)
        broker.open({"t": 4})
        await broker.serve()
        found = [each.leader for each in broker.cluster.catalogue.topics["t"].partitions]
        broker.close()
        return found

    assert asyncio.run(run(2)) == [1, 2, 1, 2]
    assert asyncio.run(run(1)) == [1, 1, 1, 1]


def test_wrong_nodes_are_named() -> None:
    with pytest.raises(ConfigError, match="nodes must be at least 1"):
        Broker(BrokerConfig(), nodes=0)
    broker = Broker(BrokerConfig())
    broker.open()
    with pytest.raises(ConfigError, match="no node 3; the nodes are 1"):
        broker.stop_node(3)
    broker.close()
