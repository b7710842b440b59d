"""Tests that a stopped node can be unregistered, with a real Kafka beside it."""

from groupsdk.broker.embedded import EmbeddedBroker
from groupsdk.error_code import ErrorCode
from groupsdk.testing import LocalKafka
from groupsdk.wire.messages.create_acls import AclCreation, CreateAclsRequest
from groupsdk.wire.messages.describe_cluster import DescribeClusterRequest
from groupsdk.wire.messages.unregister_broker import (
    UnregisterBrokerRequest,
    UnregisterBrokerResponse,
)
from tests.broker.clients import Client, connect, eventually
from tests.broker.server.handlers.test_acls import guarded as guarded, log_in


def unknown(node_id: int) -> UnregisterBrokerResponse:
    """Builds the answer for a broker that is not registered."""
    text = f"Broker ID {node_id} is not currently registered"
    return UnregisterBrokerResponse(
        error_code=ErrorCode.BROKER_ID_NOT_REGISTERED, error_message=text
    )


def nodes(client: Client, *, fenced: bool = True) -> list[tuple[int, bool]]:
    """Returns the id of each broker and whether it is fenced."""
    asked = DescribeClusterRequest(include_fenced_brokers=fenced)
    return [(each.broker_id, each.is_fenced) for each in client.ask(asked, 2).brokers]


def check_a_stopped_node(client: Client, gone: int) -> None:
    """Unregisters the node `gone` of three, which is stopped; ends without it."""
    others = [(each, False) for each in (1, 2, 3) if each != gone]
    eventually(lambda: nodes(client), sorted([*others, (gone, True)]))
    assert nodes(client, fenced=False) == others
    for node_id in (99, -1):
        assert client.ask(UnregisterBrokerRequest(node_id)) == unknown(node_id)
    assert client.ask(UnregisterBrokerRequest(gone)).error_code == 0
    eventually(lambda: nodes(client), others)
    assert client.ask(UnregisterBrokerRequest(gone)) == unknown(gone)


def test_a_stopped_node_is_forgotten_until_it_starts() -> None:
    with EmbeddedBroker(nodes=3) as broker, connect(broker) as client:
        broker.stop_node(2)
        check_a_stopped_node(client, 2)
        broker.start_node(2)
        assert nodes(client) == [(1, False), (2, False), (3, False)]
        broker.stop_node(2)
        assert nodes(client) == [(1, False), (2, True), (3, False)]


def test_kafka_forgets_a_stopped_node_too(kafka_cluster: LocalKafka) -> None:
    kafka_cluster.nodes[1].kill()
    host, _, port = kafka_cluster.bootstrap_servers.split(",")[0].rpartition(":")
    with Client((host, int(port))) as client:
        check_a_stopped_node(client, 2)


def test_a_running_node_stays() -> None:
    with EmbeddedBroker(nodes=2) as broker, connect(broker) as client:
        for node_id in (1, 2):
            answer = client.ask(UnregisterBrokerRequest(node_id))
            assert answer.error_code == ErrorCode.INVALID_REQUEST
            assert answer.error_message == (
                f"broker {node_id} is running: only a stopped broker can be unregistered here"
            )
        assert nodes(client) == [(1, False), (2, False)]


def test_it_takes_the_right_to_alter_the_cluster(guarded: EmbeddedBroker) -> None:
    with log_in(guarded, "app") as app, log_in(guarded, "root") as root:
        code = ErrorCode.CLUSTER_AUTHORIZATION_FAILED
        assert app.ask(UnregisterBrokerRequest(7)).error_code == code
        creation = AclCreation(4, "kafka-cluster", 3, "User:app", "*", 7, 3)
        assert root.ask(CreateAclsRequest((creation,))).results[0].error_code == 0
        assert app.ask(UnregisterBrokerRequest(7)) == unknown(7)
