"""Tests requests for a group of the other type, and for no group, with a real Kafka beside it."""

from groupsdk.assignment import Assignment, Subscription
from groupsdk.assignment.subscriptions import encode_assignments, encode_subscription
from groupsdk.broker.embedded import EmbeddedBroker
from groupsdk.testing import LocalKafka
from groupsdk.wire.messages.consumer_groups import ConsumerGroupHeartbeatRequest
from groupsdk.wire.messages.group_admin import ConsumerGroupDescribeRequest, DeleteGroupsRequest
from groupsdk.wire.messages.groups import (
    DescribeGroupsRequest,
    JoinGroupRequest,
    JoinGroupRequestProtocol,
    LeaveGroupRequest,
    MemberIdentity,
    SyncGroupRequest,
    SyncGroupRequestAssignment,
)
from groupsdk.wire.messages.offsets import (
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
)
from groupsdk.wire.messages.topics import CreatableTopic, CreateTopicsRequest
from tests.broker.clients import Client, connect, eventually


NOT_FOUND = 69
_CLASSIC, _SIMPLE, _CONSUMER, _NONE = "types-connect", "types-simple", "types-new", "types-none"

_OWN_ASSIGNOR = (
    "an unsupported custom assignor is in use. Please refer to the documentation or switch to a default assignor"
    " before re-attempting the upgrade"
)


def heartbeat(
    client: Client, group_id: str, epoch: int, instance_id: str | None = None
) -> tuple[int, str | None]:
    """Sends a heartbeat of a consumer; returns the error."""
    request = ConsumerGroupHeartbeatRequest(
        group_id=group_id,
        member_id="consumer",
        member_epoch=epoch,
        instance_id=instance_id,
        rebalance_timeout_ms=10_000,
        subscribed_topic_names=("types",),
        topic_partitions=() if epoch == 0 else None,
    )
    answer = client.ask(request, 1)
    return answer.error_code, answer.error_message


def described(client: Client, group_id: str) -> tuple[tuple[int, str | None], ...]:
    """Returns the errors of DescribeGroups and of ConsumerGroupDescribe."""
    (classic,) = client.ask(DescribeGroupsRequest((group_id,)), 6).groups
    (consumer,) = client.ask(ConsumerGroupDescribeRequest((group_id,)), 1).groups
    return (
        (classic.error_code, classic.error_message),
        (consumer.error_code, consumer.error_message),
    )


def not_upgraded(group_id: str, reason: str) -> tuple[int, str]:
    """Returns the error of a classic group that cannot become a consumer group."""
    return (
        NOT_FOUND,
        f"Cannot upgrade classic group {group_id} to consumer group because {reason}.",
    )


def commit(client: Client, group_id: str) -> int:
    """Commits without a member, which makes a simple group; returns the error."""
    topics = (OffsetCommitRequestTopic("types", partitions=(OffsetCommitRequestPartition(0, 1),)),)
    answer = client.ask(OffsetCommitRequest(group_id, topics=topics), 9)
    return answer.topics[0].partitions[0].error_code


def join(client: Client, group_id: str, kind: str, metadata: bytes, assignment: bytes) -> str:
    """Joins a group as its only member, which gets an assignment; returns the member's id."""
    protocols = (JoinGroupRequestProtocol("p", metadata),)
    request = JoinGroupRequest(group_id, 60_000, 60_000, "", None, kind, protocols)
    answer = client.ask(request, 3)
    assert answer.error_code == 0
    shares = (SyncGroupRequestAssignment(answer.member_id, assignment),)
    synced = SyncGroupRequest(group_id, answer.generation_id, answer.member_id, assignments=shares)
    assert client.ask(synced, 2).error_code == 0
    return answer.member_id


def leave(client: Client, group_id: str, member_id: str) -> None:
    """Leaves a group, and deletes it."""
    leaving = LeaveGroupRequest(group_id, members=(MemberIdentity(member_id),))
    assert client.ask(leaving, 5).error_code == 0
    assert client.ask(DeleteGroupsRequest((group_id,)), 2).results[0].error_code == 0


def check_types(client: Client) -> None:
    """Sends requests to groups of other types; ends as it began but for a topic."""
    creating = CreateTopicsRequest((CreatableTopic("types", 1, 1),), timeout_ms=30_000)
    assert client.ask(creating).topics[0].error_code in {0, 36}
    eventually(lambda: commit(client, _SIMPLE), 0)
    eventually(lambda: heartbeat(client, _CONSUMER, 0)[0], 0)
    member_id = join(client, _CLASSIC, "connect", b"metadata", b"assignment")

    for group_id in (_CLASSIC, _SIMPLE):
        other = (NOT_FOUND, f"Group {group_id} is not a consumer group.")
        assert described(client, group_id) == ((0, None), other)
        for epoch in (3, -1):
            assert heartbeat(client, group_id, epoch) == other
        assert heartbeat(client, group_id, -2, "instance") == other
    reason = "the group does not use the consumer embedded protocol"
    for instance_id in (None, "instance"):
        assert heartbeat(client, _CLASSIC, 0, instance_id) == not_upgraded(_CLASSIC, reason)

    other = (NOT_FOUND, f"Group {_CONSUMER} is not a classic group.")
    assert described(client, _CONSUMER) == (other, (0, None))

    missing = (NOT_FOUND, f"Group {_NONE} not found.")
    assert described(client, _NONE) == (missing, missing)
    assert heartbeat(client, _NONE, 3) == (NOT_FOUND, f"Consumer group {_NONE} not found.")
    assert heartbeat(client, _NONE, -1) == missing
    assert heartbeat(client, _NONE, -2, "instance") == missing

    leave(client, _CLASSIC, member_id)
    assert heartbeat(client, _CONSUMER, -1)[0] == 0
    deleted = client.ask(DeleteGroupsRequest((_SIMPLE, _CONSUMER)), 2)
    assert [each.error_code for each in deleted.results] == [0, 0]


def check_upgrades(client: Client) -> None:
    """Joins as a new member next to classic consumers that cannot be taken over; ends as it began but for a topic."""
    creating = CreateTopicsRequest((CreatableTopic("types", 1, 1),), timeout_ms=30_000)
    assert client.ask(creating).topics[0].error_code in {0, 36}
    eventually(lambda: commit(client, _CONSUMER), 0)
    assert client.ask(DeleteGroupsRequest((_CONSUMER,)), 2).results[0].error_code == 0
    subscription = encode_subscription(Subscription(topics=("types",)))
    mine = Assignment({"types": (0,)}, b"of my assignor")
    for metadata, assignment, reason in (
        (
            b"\xff",
            encode_assignments({"m": Assignment({})})["m"],
            "the embedded consumer protocol is malformed",
        ),
        (
            subscription,
            encode_assignments({"m": mine})["m"],
            _OWN_ASSIGNOR,
        ),
    ):
        member_id = join(client, _CONSUMER, "consumer", metadata, assignment)
        assert heartbeat(client, _CONSUMER, 0) == not_upgraded(_CONSUMER, reason)
        leave(client, _CONSUMER, member_id)


def test_groups_of_another_type(client: Client) -> None:
    check_types(client)
    check_upgrades(client)


def test_the_migration_policy_is_the_reason() -> None:
    settings = {"group.consumer.migration.policy": "disabled"}
    with EmbeddedBroker(settings, topics=["types"]) as broker, connect(broker) as client:
        subscription = encode_subscription(Subscription(topics=("types",)))
        join(client, _CONSUMER, "consumer", subscription, b"")
        found = heartbeat(client, _CONSUMER, 0)
        assert found == not_upgraded(_CONSUMER, "online upgrade is disabled")


def test_kafka_says_the_same_of_groups_of_another_type(kafka: LocalKafka) -> None:
    host, _, port = kafka.bootstrap_servers.rpartition(":")
    with Client((host, int(port))) as client:
        check_types(client)
        check_upgrades(client)
