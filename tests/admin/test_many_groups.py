"""Holds the description of many groups to what asking for each alone says."""

import asyncio
from collections.abc import Awaitable, Callable
from typing import TypeVar

from groupsdk.admin.cluster import ClusterClient
from groupsdk.admin.descriptions import GroupListing, GroupType
from groupsdk.admin.groups import describe_group, group_lag, list_groups, of_streams_group
from groupsdk.admin.many_groups import describe_listed, lags_of
from groupsdk.broker.embedded import EmbeddedBroker
from groupsdk.testing import LocalKafka
from groupsdk.wire.messages.consumer_groups import ShareGroupHeartbeatRequest
from groupsdk.wire.messages.streams_groups import (
    Assignment,
    DescribedGroup,
    Member,
    Subtopology,
    TaskIds,
    Topology,
)
from tests.broker.clients import commit_request, connect
from tests.cli.peers import librdkafka, own_protocol, produce
from tests.support.topics import create_topic
from tests.support.workers import eventually


T = TypeVar("T")


def ask(servers: str, question: Callable[[ClusterClient], Awaitable[T]]) -> T:
    async def asked() -> T:
        async with ClusterClient({"bootstrap.servers": servers}) as client:
            return await question(client)

    return asyncio.run(asked())


def test_many_groups_are_described_as_each_alone() -> None:
    async def both(client: ClusterClient) -> None:
        listed = await list_groups(client)
        assert len(listed) == 122
        groups = await describe_listed(client, listed)
        assert sorted(each.group_id for each in groups) == [each.group_id for each in listed]
        lags = await lags_of(client, groups)
        for group in groups:
            assert group == await describe_group(client, group.group_id)
            assert list(lags[group.group_id]) == await group_lag(client, group)
        assert sum(each.lag or 0 for each in lags["commits-007"]) == 3

    with EmbeddedBroker(topics={"t": 4}) as broker:
        servers = broker.bootstrap_servers
        produce(servers, "t", {0: 10})
        with connect(broker) as committing:
            for number in range(120):
                asked = commit_request(f"commits-{number:03d}", number % 10)
                assert committing.ask(asked, 9).topics[0].partitions[0].error_code == 0
        with (
            own_protocol(servers, "own"),
            librdkafka(servers, "modern", "t", group_protocol="consumer"),
        ):
            ask(servers, both)


def test_groups_that_are_elsewhere_by_now_or_gone_are_asked_for_alone() -> None:
    async def as_listed_wrongly(client: ClusterClient) -> dict[str, tuple[GroupType, str]]:
        (modern,) = await list_groups(client)
        wrong = [
            GroupListing("modern", GroupType.CLASSIC, "Stable", "consumer", modern.coordinator),
            GroupListing("gone", GroupType.CONSUMER, "Stable", "consumer", modern.coordinator),
        ]
        found = await describe_listed(client, wrong)
        return {each.group_id: (each.type, each.state) for each in found}

    with EmbeddedBroker(topics={"t": 1}) as broker:
        servers = broker.bootstrap_servers
        with librdkafka(servers, "modern", "t", group_protocol="consumer"):
            found = ask(servers, as_listed_wrongly)
    assert found == {
        "modern": (GroupType.CONSUMER, "Stable"),
        "gone": (GroupType.CLASSIC, "Dead"),
    }


def test_a_type_that_the_brokers_cannot_describe_is_shown_without_members() -> None:
    async def described(client: ClusterClient) -> list[tuple[str, GroupType, int]]:
        node_id = await client.coordinator("s")
        listed = [GroupListing("s", each, "Stable", "", node_id) for each in GroupType]
        found = await describe_listed(
            client, [each for each in listed if each.type.value in ("streams", "unknown")]
        )
        return [(each.state, each.type, len(each.members)) for each in found]

    with EmbeddedBroker() as broker:
        found = ask(broker.bootstrap_servers, described)
    assert found == [("Stable", GroupType.STREAMS, 0), ("Stable", GroupType.UNKNOWN, 0)]


def test_tasks_of_a_streams_group_have_their_names_in_kafka_streams() -> None:
    member = Member(
        member_id="m",
        client_id="c",
        client_host="/h",
        member_epoch=3,
        assignment=Assignment((TaskIds("1", (2, 0)), TaskIds("0", (5,))), (TaskIds("2", (7,)),)),
        target_assignment=Assignment((TaskIds("0", (5,)),)),
    )
    topology = Topology(subtopologies=(Subtopology("0", ("in",)), Subtopology("1", ("b", "a"))))
    described = DescribedGroup(
        group_id="s", group_state="Stable", group_epoch=4, topology=topology, members=(member,)
    )
    group = of_streams_group(described, 1)
    (read,) = group.members
    assert (group.type, group.epoch, read.epoch) == (GroupType.STREAMS, 4, 3)
    assert read.subscription.topics == ("a", "b", "in")
    assert read.assignment.tasks == ("0_5", "1_0", "1_2")
    assert read.assignment.standbys == ("2_7",)
    assert read.target is not None
    assert read.target.tasks == ("0_5",)


def test_a_share_group_of_kafka_is_described_with_its_members(kafka: LocalKafka) -> None:
    topic = "shared"
    create_topic(kafka.bootstrap_servers, topic, 2)

    async def members(client: ClusterClient) -> list[tuple[str, int]]:
        node_id = await client.persist(lambda: client.coordinator("sharing"))
        joining = ShareGroupHeartbeatRequest(
            "sharing", "AAAAAAAAAAAAAAAAAAAAAA", 0, subscribed_topic_names=(topic,)
        )
        await client.persist(lambda: client.ask(node_id, joining))
        listed = [each for each in await list_groups(client) if each.type is GroupType.SHARE]
        found = await describe_listed(client, listed)
        for each in found:
            assert each == await describe_group(client, each.group_id)
        return [
            (member.subscription.topics[0], len(member.assignment.partitions))
            for group in found
            for member in group.members
        ]

    eventually(lambda: ask(kafka.bootstrap_servers, members) == [(topic, 2)])
