"""Tests the client of a cluster: leaders and coordinators that move, brokers that are away."""

import asyncio
from collections.abc import Awaitable, Callable, Iterator
from typing import Any, TypeVar

import pytest

from groupsdk.admin.cluster import EARLIEST, LATEST, ClusterClient
from groupsdk.admin.groups import commit_offsets, committed_offsets, describe_group, list_groups
from groupsdk.assignment import TopicPartition
from groupsdk.broker.embedded import EmbeddedBroker
from groupsdk.error_code import ErrorCode
from groupsdk.errors import BrokerError, ConfigError, NetworkError


T = TypeVar("T")


@pytest.fixture
def broker() -> Iterator[EmbeddedBroker]:
    """Two nodes of the test's own."""
    with EmbeddedBroker(nodes=2) as running:
        running.create_topic("t", 4)
        yield running


def asked(
    broker: EmbeddedBroker, work: Callable[[ClusterClient], Awaitable[T]], **settings: Any
) -> T:
    async def run() -> T:
        given = {"bootstrap.servers": broker.bootstrap_servers, **settings}
        async with ClusterClient(given, timeout_s=60) as client:
            return await work(client)

    return asyncio.run(run())


def test_moved_coordinator_or_leader_is_found_again(broker: EmbeddedBroker) -> None:
    async def work(client: ClusterClient) -> None:
        offsets = {TopicPartition("t", each): each for each in range(4)}
        for node in (1, 2, 1):
            broker.move_coordinator("g", node)
            for each in range(4):
                broker.move_leader("t", each, node)
            await commit_offsets(client, "g", offsets)
            found = await committed_offsets(client, "g")
            assert {each: at.offset for each, at in found.items()} == offsets
            assert await client.list_offsets(dict.fromkeys(offsets, LATEST)) == dict.fromkeys(
                offsets, 0
            )
            assert [each.group_id for each in await list_groups(client)] == ["g"]
            assert (await describe_group(client, "g")).coordinator == node

    asked(broker, work)


def test_offsets_of_an_unknown_partition_are_an_error(broker: EmbeddedBroker) -> None:
    async def work(client: ClusterClient) -> None:
        with pytest.raises(BrokerError) as error:
            await client.list_offsets({TopicPartition("t", 9): EARLIEST})
        assert error.value.error_code is ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
        assert await committed_offsets(client, "nobody") == {}
        group = await describe_group(client, "nobody")
        assert (group.state, group.members) == ("Dead", ())

    asked(broker, work)


def test_a_cluster_that_is_away_is_an_error() -> None:
    async def work() -> None:
        async with ClusterClient({"bootstrap.servers": "127.0.0.1:1"}, timeout_s=0.1) as client:
            await client.metadata()

    with pytest.raises(NetworkError, match=r"127\.0\.0\.1:1"):
        asyncio.run(work())
    with pytest.raises(ConfigError, match=r"bootstrap\.servers is missing"):
        ClusterClient({})


def test_a_connection_that_broke_is_opened_again(broker: EmbeddedBroker) -> None:
    async def work(client: ClusterClient) -> None:
        await client.metadata(["t"])
        connection = await client.connection(client.config.servers[0])
        connection.close()
        assert (await client.metadata(["t"])).brokers

    asked(broker, work)
