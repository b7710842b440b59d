"""Hold what an upgraded group is assigned, in the midst of a cooperative rebalance, beside a real Kafka."""

from confluent_kafka.admin import AdminClient
from confluent_kafka.cimpl import NewTopic

from groupsdk.assignment import Assignment, Subscription
from groupsdk.assignment.subscriptions import encode_assignments, encode_subscription
from groupsdk.broker.embedded import EmbeddedBroker
from groupsdk.testing import LocalKafka
from groupsdk.wire.messages.groups import (
    JoinGroupRequest,
    JoinGroupRequestProtocol,
    SyncGroupRequest,
    SyncGroupRequestAssignment,
)
from tests.broker.coordinator.consumer.members import Served, WireMember, connected
from tests.support.workers import eventually


_PROTOCOL = "cooperative-sticky"


def classic_member(broker: Served, group_id: str, topic: str, instance_id: str) -> None:
    """Joins a static member, and leaves it with one of four partitions, as between two rebalances."""
    client = connected(broker)
    metadata = encode_subscription(Subscription(topics=(topic,)))
    join = JoinGroupRequest(
        group_id=group_id,
        session_timeout_ms=45_000,
        rebalance_timeout_ms=60_000,
        member_id="",
        group_instance_id=instance_id,
        protocol_type="consumer",
        protocols=(JoinGroupRequestProtocol(_PROTOCOL, metadata),),
    )
    answers = []

    def is_let_in() -> bool:
        answers.append(client.ask(join))
        return answers[-1].error_code == 0

    eventually(is_let_in, "not let in", 60.0)
    joined = answers[-1]
    shares = encode_assignments({joined.member_id: Assignment({topic: (0,)})})
    synced = client.ask(
        SyncGroupRequest(
            group_id=group_id,
            generation_id=joined.generation_id,
            member_id=joined.member_id,
            group_instance_id=instance_id,
            protocol_type="consumer",
            protocol_name=_PROTOCOL,
            assignments=(SyncGroupRequestAssignment(joined.member_id, shares[joined.member_id]),),
        )
    )
    assert synced.error_code == 0
    client.socket.close()


def course(broker: Served, group_id: str) -> list[tuple[int, int]]:
    """Returns epoch and number of partitions: of a member in its place, and of both once a second one has come."""
    topic = f"t-{group_id}"[:200]
    admin = AdminClient({"bootstrap.servers": broker.bootstrap_servers})
    admin.create_topics([NewTopic(topic, 4, 1)])[topic].result(60)
    topics = {"subscribed_topic_names": (topic,)}
    with WireMember(broker, f"{group_id}-first", "p", **topics) as probe:
        probe.until(4)  # the coordinator has heard of the topic
        probe.heartbeat(-1)
    classic_member(broker, group_id, topic, "i")
    found = []
    with WireMember(broker, group_id, "m", instance_id="i", **topics) as first:
        eventually(lambda: first.heartbeat().error_code == 0, "not let in", 60.0)
        for _ in range(3):
            assert first.heartbeat().error_code == 0
        found.append((first.epoch, first.size))
        with WireMember(broker, group_id, "n", **topics) as second:

            def settled() -> bool:
                for each in (first, second):
                    assert each.heartbeat().error_code == 0
                return first.size + second.size == 4

            eventually(settled, "not all is assigned", 60.0)
            found += [(first.epoch, first.size), (second.epoch, second.size)]
            second.heartbeat(-1)
        first.heartbeat(-1)
    return found


def test_an_upgrade_by_a_returning_member_assigns_nothing_more(
    kafka: LocalKafka, group_id: str
) -> None:
    with EmbeddedBroker() as embedded:
        ours, theirs = (course(each, group_id) for each in (embedded, kafka))
    assert ours == theirs
    assert ours[0] == (1, 1)
