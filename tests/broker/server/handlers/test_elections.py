"""Tests elections of leaders, which one replica never needs, with a real Kafka beside it."""

import pytest

from groupsdk.broker.embedded import EmbeddedBroker
from groupsdk.testing import LocalKafka
from groupsdk.wire.messages.create_acls import AclCreation, CreateAclsRequest
from groupsdk.wire.messages.create_topics import CreatableTopic, CreateTopicsRequest
from groupsdk.wire.messages.elect_leaders import (
    PREFERRED,
    UNCLEAN,
    ElectLeadersRequest,
    ElectLeadersResponse,
    TopicPartitions,
)
from tests.broker.clients import Client, connect
from tests.broker.server.handlers.test_acls import guarded as guarded, log_in


SOME = (TopicPartitions("t", (0, 2, 3, -1)), TopicPartitions("u", (0,)), TopicPartitions("t", ()))


def told(answer: ElectLeadersResponse) -> list[tuple[str, int, int]]:
    """Topic, partition and error code of each result."""
    return [
        (topic.topic, each.partition_id, each.error_code)
        for topic in answer.replica_election_results
        for each in topic.partition_result
    ]


def check_answers(client: Client) -> None:
    """Asks for elections of a topic `t` with three partitions."""
    for version, election_type in ((0, PREFERRED), (1, PREFERRED), (2, PREFERRED), (2, UNCLEAN)):
        answer = client.ask(ElectLeadersRequest(election_type, SOME), version)
        assert answer.error_code == 0
        assert told(answer) == [("t", 0, 84), ("t", 2, 84), ("t", 3, 3), ("t", -1, 3), ("u", 0, 3)]
        assert [
            each.error_message
            for topic in answer.replica_election_results
            for each in topic.partition_result
        ] == [
            *["Leader election not needed for topic partition."] * 2,
            *("No such partition as t-3", "No such partition as t--1", "No such topic as u"),
        ]
        everything = client.ask(ElectLeadersRequest(election_type, None), version)
        assert (everything.error_code, told(everything)) == (0, [])
        assert "t" in [topic.topic for topic in everything.replica_election_results]
    unknown = client.ask(ElectLeadersRequest(5, SOME[1:2]), 2)
    assert (unknown.error_code, told(unknown)) == (42, [("u", 0, 42)])


def test_no_election_is_needed(client: Client) -> None:
    check_answers(client)


def test_kafka_answers_the_same(kafka: LocalKafka) -> None:
    host, _, port = kafka.bootstrap_servers.rpartition(":")
    with Client((host, int(port))) as client:
        topic = CreatableTopic("t", 3, 1)
        assert client.ask(CreateTopicsRequest((topic,))).topics[0].error_code in {0, 36}
        check_answers(client)


@pytest.mark.parametrize(("election_type", "code"), [(PREFERRED, 80), (UNCLEAN, 83)])
def test_where_the_node_of_the_one_replica_is_down_nobody_can_lead(
    election_type: int, code: int
) -> None:
    with EmbeddedBroker(nodes=2, topics={"t": 3}) as broker:
        broker.stop_node(1)
        broker.stop_node(2)  # leads all of it by now
        broker.start_node(1)
        with connect(broker) as client:
            answer = client.ask(ElectLeadersRequest(election_type, SOME[:1]))
            assert told(answer)[:2] == [("t", 0, code), ("t", 2, code)]
            everything = client.ask(ElectLeadersRequest(election_type, None))
            assert told(everything) == [("t", each, code) for each in range(3)]


def test_it_takes_the_right_to_alter_the_cluster(guarded: EmbeddedBroker) -> None:
    with log_in(guarded, "app") as app, log_in(guarded, "root") as root:
        refused = app.ask(ElectLeadersRequest(topic_partitions=SOME[1:2]), 2)
        assert (refused.error_code, told(refused)) == (31, [("u", 0, 31)])
        everything = app.ask(ElectLeadersRequest(topic_partitions=None), 2)
        assert (everything.error_code, everything.replica_election_results) == (31, ())
        old = app.ask(ElectLeadersRequest(topic_partitions=SOME[1:2]), 0)
        assert told(old) == [("u", 0, 31)]
        creation = AclCreation(4, "kafka-cluster", 3, "User:app", "*", 7, 3)
        assert root.ask(CreateAclsRequest((creation,))).results[0].error_code == 0
        allowed = app.ask(ElectLeadersRequest(topic_partitions=SOME[1:2]), 2)
        assert (allowed.error_code, told(allowed)) == (0, [("u", 0, 84)])
