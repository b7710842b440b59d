"""Administer the embedded broker with confluent-kafka: topics, configuration, groups, offsets, users, ACLs."""

from typing import Any

import confluent_kafka.admin
import pytest
from confluent_kafka import (
    ConsumerGroupTopicPartitions,
    ElectionType,
    IsolationLevel,
    KafkaError,
    KafkaException,
    Message,
    Producer,
    TopicCollection,
    TopicPartition,
)
from confluent_kafka.cimpl import NewPartitions, NewTopic

from groupsdk.broker.embedded import EmbeddedBroker
from tests.clients.confluent import TIMEOUT_S, consumer_of, producer_of
from tests.support.workers import eventually


# what is typed of it is wrong in places: filters without a name, say
api: Any = confluent_kafka.admin


@pytest.fixture(scope="module")
def admin(broker: EmbeddedBroker) -> Any:
    """An AdminClient of the broker."""
    return api.AdminClient({"bootstrap.servers": broker.bootstrap_servers})


def test_topics_and_their_configuration_are_administered(
    broker: EmbeddedBroker, admin: Any, group_id: str
) -> None:
    name = f"made-{group_id}"
    new = NewTopic(name, num_partitions=2, config={"retention.ms": "5000"})
    admin.create_topics([new])[name].result(TIMEOUT_S)
    with pytest.raises(KafkaException) as caught:
        admin.create_topics([new])[name].result(TIMEOUT_S)
    assert caught.value.args[0].code() == KafkaError.TOPIC_ALREADY_EXISTS
    with pytest.raises(KafkaException) as caught:
        admin.create_topics([NewTopic("no/slash", 1)])["no/slash"].result(TIMEOUT_S)
    assert caught.value.args[0].code() == KafkaError.TOPIC_EXCEPTION

    admin.create_partitions([NewPartitions(name, 5)])[name].result(TIMEOUT_S)
    with pytest.raises(KafkaException) as caught:
        admin.create_partitions([NewPartitions(name, 5)])[name].result(TIMEOUT_S)
    assert caught.value.args[0].code() == KafkaError.INVALID_PARTITIONS
    listed = admin.list_topics(name, TIMEOUT_S).topics[name]
    assert sorted(listed.partitions) == [0, 1, 2, 3, 4]
    assert {each.leader for each in listed.partitions.values()} == {1, 2, 3}

    resource = api.ConfigResource(api.ResourceType.TOPIC, name)
    found = admin.describe_configs([resource])[resource].result(TIMEOUT_S)
    assert found["retention.ms"].value == "5000"
    assert not found["retention.ms"].is_default
    change = api.ConfigResource(
        api.ResourceType.TOPIC,
        name,
        incremental_configs=[
            api.ConfigEntry(
                "retention.ms", "7000", incremental_operation=api.AlterConfigOpType.SET
            ),
            api.ConfigEntry(
                "cleanup.policy", "compact", incremental_operation=api.AlterConfigOpType.APPEND
            ),
        ],
    )
    admin.incremental_alter_configs([change])[change].result(TIMEOUT_S)
    found = admin.describe_configs([resource])[resource].result(TIMEOUT_S)
    assert found["retention.ms"].value == "7000"
    assert found["cleanup.policy"].value == "delete,compact"
    node = api.ConfigResource(api.ResourceType.BROKER, "2")
    assert "group.max.size" in admin.describe_configs([node])[node].result(TIMEOUT_S)

    admin.delete_topics([name])[name].result(TIMEOUT_S)
    assert name not in admin.list_topics(timeout=TIMEOUT_S).topics
    with pytest.raises(KafkaException) as caught:
        admin.delete_topics([name])[name].result(TIMEOUT_S)
    assert caught.value.args[0].code() == KafkaError.UNKNOWN_TOPIC_OR_PART


def test_the_cluster_and_topics_are_described(
    broker: EmbeddedBroker, admin: Any, topic: str
) -> None:
    cluster = admin.describe_cluster(include_authorized_operations=True).result(TIMEOUT_S)
    assert cluster.cluster_id == broker.cluster_id
    assert sorted(node.id for node in cluster.nodes) == [1, 2, 3]
    described = admin.describe_topics(TopicCollection([topic]))[topic].result(TIMEOUT_S)
    assert len(described.partitions) == 4
    assert not described.is_internal


def test_elections_are_not_served(admin: Any, topic: str) -> None:
    with pytest.raises(KafkaException) as caught:
        admin.elect_leaders(ElectionType.PREFERRED, [TopicPartition(topic, 1)]).result(TIMEOUT_S)
    assert caught.value.args[0].code() == KafkaError._UNSUPPORTED_FEATURE


def test_offsets_of_partitions_are_listed_and_records_deleted(
    broker: EmbeddedBroker, admin: Any, topic: str
) -> None:
    producer = producer_of(broker)
    for number in range(10):
        producer.produce(topic, b"%d" % number, partition=0, timestamp=1_000 + number)
    producer.flush(TIMEOUT_S)
    partition = TopicPartition(topic, 0)

    def offset(spec: api.OffsetSpec) -> int:
        found = admin.list_offsets(
            {partition: spec}, isolation_level=IsolationLevel.READ_COMMITTED
        )[partition]
        return int(found.result(TIMEOUT_S).offset)

    assert offset(api.OffsetSpec.earliest()) == 0
    assert offset(api.OffsetSpec.latest()) == 10
    assert offset(api.OffsetSpec.max_timestamp()) == 9
    assert offset(api.OffsetSpec.for_timestamp(1_004)) == 4
    before = TopicPartition(topic, 0, 7)
    deleted = admin.delete_records([before])[before].result(TIMEOUT_S)
    assert deleted.low_watermark == 7
    assert offset(api.OffsetSpec.earliest()) == 7
    beyond = TopicPartition(topic, 0, 70)
    with pytest.raises(KafkaException) as caught:
        admin.delete_records([beyond])[beyond].result(TIMEOUT_S)
    assert caught.value.args[0].code() == KafkaError.OFFSET_OUT_OF_RANGE


def test_groups_and_their_offsets_are_administered(
    broker: EmbeddedBroker, admin: Any, topic: str, group_id: str
) -> None:
    partition = TopicPartition(topic, 0, 3)
    with consumer_of(broker, group_id, client_id="me") as consumer:
        consumer.subscribe([topic])

        def has_all() -> bool:
            consumer.poll(0.05)
            return len(consumer.assignment()) == 4

        eventually(has_all)
        consumer.commit(offsets=[partition], asynchronous=False)
        listed = admin.list_consumer_groups().result(TIMEOUT_S)
        assert not listed.errors
        (mine,) = [group for group in listed.valid if group.group_id == group_id]
        assert mine.state.name == "STABLE"
        described = admin.describe_consumer_groups([group_id])[group_id].result(TIMEOUT_S)
        (member,) = described.members
        assert member.client_id == "me"
        assert len(member.assignment.topic_partitions) == 4
        assert described.partition_assignor == "range"
        assert described.coordinator.id == broker.coordinator(group_id)
        with pytest.raises(KafkaException) as caught:
            admin.delete_consumer_groups([group_id])[group_id].result(TIMEOUT_S)
        assert caught.value.args[0].code() == KafkaError.NON_EMPTY_GROUP
        asked = ConsumerGroupTopicPartitions(group_id, [partition])
        refused = admin.alter_consumer_group_offsets([asked])[group_id].result(TIMEOUT_S)
        assert refused.topic_partitions[0].error.code() == KafkaError.UNKNOWN_MEMBER_ID

    def committed() -> list[tuple[int, int]]:
        asked = ConsumerGroupTopicPartitions(group_id)
        found = admin.list_consumer_group_offsets([asked])[group_id].result(TIMEOUT_S)
        return [(each.partition, each.offset) for each in found.topic_partitions]

    assert committed() == [(0, 3)]
    changed = ConsumerGroupTopicPartitions(
        group_id, [TopicPartition(topic, 0, 1), TopicPartition(topic, 2, 5)]
    )
    admin.alter_consumer_group_offsets([changed])[group_id].result(TIMEOUT_S)
    assert sorted(committed()) == [(0, 1), (2, 5)]
    admin.delete_consumer_groups([group_id])[group_id].result(TIMEOUT_S)
    with pytest.raises(KafkaException) as caught:
        admin.delete_consumer_groups([group_id])[group_id].result(TIMEOUT_S)
    assert caught.value.args[0].code() == KafkaError.GROUP_ID_NOT_FOUND
    assert committed() == []


def test_users_and_what_they_may_do_are_administered() -> None:
    # Kafka's authorizer: who is no super user may do what an ACL allows, and nothing besides
    with EmbeddedBroker(
        {
            "listeners": "SASL_PLAINTEXT://127.0.0.1:0",
            "listener.security.protocol.map": "SASL_PLAINTEXT:SASL_PLAINTEXT",
            "sasl.enabled.mechanisms": "PLAIN,SCRAM-SHA-256,SCRAM-SHA-512",
            "authorizer.class.name": "org.apache.kafka.metadata.authorizer.StandardAuthorizer",
            "super.users": "User:admin",
        },
        users={"admin": "admin-secret"},
        topics={"open": 1, "closed": 1},
    ) as broker:

        def login(user: str, secret: str, mechanism: str) -> dict[str, str]:
            return {
                "bootstrap.servers": broker.bootstrap_servers,
                "security.protocol": "SASL_PLAINTEXT",
                "sasl.mechanism": mechanism,
                "sasl.username": user,
                "sasl.password": secret,
            }

        admin: Any = api.AdminClient(login("admin", "admin-secret", "PLAIN"))
        upserts = [
            api.UserScramCredentialUpsertion(
                "alice", api.ScramCredentialInfo(mechanism, 4096), b"wonder"
            )
            for mechanism in (api.ScramMechanism.SCRAM_SHA_256, api.ScramMechanism.SCRAM_SHA_512)
        ]
        for upsert in upserts:
            admin.alter_user_scram_credentials([upsert])["alice"].result(TIMEOUT_S)
        described = admin.describe_user_scram_credentials(["alice"])["alice"].result(TIMEOUT_S)
        assert {each.mechanism for each in described.scram_credential_infos} == {
            api.ScramMechanism.SCRAM_SHA_256,
            api.ScramMechanism.SCRAM_SHA_512,
        }
        binding = api.AclBinding(
            api.ResourceType.TOPIC,
            "open",
            api.ResourcePatternType.LITERAL,
            "User:alice",
            "*",
            api.AclOperation.WRITE,
            api.AclPermissionType.ALLOW,
        )
        admin.create_acls([binding])[binding].result(TIMEOUT_S)
        any_topic = api.AclBindingFilter(
            api.ResourceType.TOPIC,
            None,
            api.ResourcePatternType.ANY,
            None,
            None,
            api.AclOperation.ANY,
            api.AclPermissionType.ANY,
        )
        assert admin.describe_acls(any_topic).result(TIMEOUT_S) == [binding]

        outcomes: dict[str, int | None] = {}

        def on_delivery(error: KafkaError | None, message: Message) -> None:
            outcomes[message.topic() or ""] = None if error is None else error.code()

        for mechanism in ("SCRAM-SHA-256", "SCRAM-SHA-512"):
            outcomes.clear()
            producer = Producer(login("alice", "wonder", mechanism))
            for name in ("open", "closed"):
                producer.produce(name, b"v", on_delivery=on_delivery)
            assert producer.flush(TIMEOUT_S) == 0
            assert outcomes == {"open": None, "closed": KafkaError.TOPIC_AUTHORIZATION_FAILED}

        assert admin.delete_acls([any_topic])[any_topic].result(TIMEOUT_S) == [binding]
        assert admin.describe_acls(any_topic).result(TIMEOUT_S) == []
        removal = api.UserScramCredentialDeletion("alice", api.ScramMechanism.SCRAM_SHA_512)
        admin.alter_user_scram_credentials([removal])["alice"].result(TIMEOUT_S)
        described = admin.describe_user_scram_credentials(["alice"])["alice"].result(TIMEOUT_S)
        (left,) = described.scram_credential_infos
        assert left.mechanism is api.ScramMechanism.SCRAM_SHA_256
