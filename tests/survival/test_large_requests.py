"""Tests that one request, however large, leaves others their turn."""

import socket
from typing import Any, Final

import pytest
from pytest_mock import MockerFixture

from groupsdk.broker.coordinator.consumer import topics as topics_module
from groupsdk.broker.coordinator.consumer.heartbeat import ConsumerHeartbeats
from groupsdk.broker.coordinator.runtime.coordinator_runtime import CoordinatorRuntime
from groupsdk.broker.coordinators import CatalogueImage
from groupsdk.broker.embedded import EmbeddedBroker
from groupsdk.broker.log.directory import LogDirectory
from groupsdk.broker.log.errors import StorageError
from groupsdk.broker.server.apis import APIS
from groupsdk.broker.server.call import Route
from groupsdk.broker.server.connection import Connection
from groupsdk.broker.server.handlers import metadata as metadata_handlers
from groupsdk.broker.server.pace import OPENING_COSTS
from groupsdk.broker.server.split_requests import InParts
from groupsdk.wire.consumer_protocol import (
    ConsumerProtocolDecoder,
    ConsumerProtocolEncoder,
    ConsumerProtocolSubscription,
)
from groupsdk.wire.messages.cluster import (
    Cursor,
    DescribableLogDirTopic,
    DescribeLogDirsRequest,
    DescribeTopicPartitionsRequest,
    TopicRequest,
)
from groupsdk.wire.messages.configs import (
    AlterConfigsRequest,
    AlterConfigsResource,
    DescribeConfigsRequest,
    DescribeConfigsResource,
)
from groupsdk.wire.messages.consumer_groups import ConsumerGroupHeartbeatRequest
from groupsdk.wire.messages.fetch import FetchPartition, FetchRequest, FetchResponse, FetchTopic
from groupsdk.wire.messages.group_admin import (
    ConsumerGroupDescribeRequest,
    ListGroupsRequest,
    OffsetDeleteRequest,
    OffsetDeleteRequestPartition,
    OffsetDeleteRequestTopic,
)
from groupsdk.wire.messages.groups import (
    DescribeGroupsRequest,
    HeartbeatRequest,
    LeaveGroupRequest,
    MemberIdentity,
    SyncGroupRequest,
    SyncGroupRequestAssignment,
)
from groupsdk.wire.messages.log_offsets import (
    DeleteRecordsPartition,
    DeleteRecordsRequest,
    DeleteRecordsTopic,
    ListOffsetsPartition,
    ListOffsetsRequest,
    ListOffsetsTopic,
    OffsetForLeaderEpochRequest,
    OffsetForLeaderPartition,
    OffsetForLeaderTopic,
)
from groupsdk.wire.messages.metadata import (
    FindCoordinatorRequest,
    MetadataRequest,
    MetadataRequestTopic,
)
from groupsdk.wire.messages.offsets import (
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
    OffsetFetchRequest,
    OffsetFetchRequestGroup,
    OffsetFetchRequestTopics,
)
from groupsdk.wire.messages.produce import PartitionProduceData, ProduceRequest, TopicProduceData
from groupsdk.wire.messages.security import (
    AclCreation,
    AlterUserScramCredentialsRequest,
    CreateAclsRequest,
    DeleteAclsFilter,
    DeleteAclsRequest,
    DescribeAclsRequest,
    DescribeUserScramCredentialsRequest,
    ScramCredentialDeletion,
    ScramCredentialUpsertion,
    UserName,
)
from groupsdk.wire.messages.topics import (
    CreatableTopic,
    CreatePartitionsRequest,
    CreatePartitionsTopic,
    CreateTopicsRequest,
    DeleteTopicsRequest,
    DeleteTopicState,
)
from groupsdk.wire.messages.transactions import (
    DescribeProducersRequest,
    DescribeTransactionsRequest,
    TopicRequest as ProducersOfTopic,
    WritableTxnMarker,
    WritableTxnMarkerTopic,
    WriteTxnMarkersRequest,
)
from groupsdk.wire.schema import Request
from tests.broker.clients import (
    Client,
    batch,
    connect,
    eventually,
    join_request,
    produce,
    produce_request,
)
from tests.broker.log.bad_batches import record, with_body


_MANY: Final = 40_000
_NAMES: Final = tuple(f"{n:x}" for n in range(_MANY))
_STEPS: Final = _MANY // 1_024
"""In how many steps so many elements are answered at the least."""
_TOPICS: Final = (OffsetFetchRequestTopics("t", partition_indexes=tuple(range(_MANY))),)

LARGE: Final[dict[str, tuple[Request[Any], int]]] = {
    "DescribeGroups": (DescribeGroupsRequest(_NAMES), _MANY),
    "DescribeTransactions": (DescribeTransactionsRequest(_NAMES), _MANY),
    "FindCoordinator": (FindCoordinatorRequest(key_type=0, coordinator_keys=_NAMES), _MANY),
    "Metadata": (
        MetadataRequest(tuple(MetadataRequestTopic(name=name) for name in _NAMES), False),
        _MANY,
    ),
    "OffsetFetch of groups": (
        OffsetFetchRequest(groups=tuple(map(OffsetFetchRequestGroup, _NAMES))),
        _MANY,
    ),
    "OffsetFetch of partitions": (
        OffsetFetchRequest(groups=(OffsetFetchRequestGroup("g", topics=_TOPICS),)),
        1,
    ),
    "ListOffsets": (
        ListOffsetsRequest(
            topics=(
                ListOffsetsTopic("t", tuple(ListOffsetsPartition(0, -1, 5) for _ in range(2_000))),
            )
        ),
        1,
    ),
    "DescribeConfigs": (
        DescribeConfigsRequest(tuple(DescribeConfigsResource(2, name) for name in _NAMES)),
        _MANY,
    ),
    "DeleteTopics": (
        DeleteTopicsRequest(tuple(DeleteTopicState(f"no-{name}") for name in _NAMES)),
        _MANY,
    ),
    "CreateTopics": (
        CreateTopicsRequest(tuple(CreatableTopic(f"/{name}", 1, 1) for name in _NAMES)),
        _MANY,
    ),
    "LeaveGroup": (LeaveGroupRequest("g", members=tuple(map(MemberIdentity, _NAMES))), _MANY),
}


@pytest.mark.parametrize("name", LARGE)
def test_a_request_of_many_elements_leaves_others_their_turn(
    name: str, mocker: MockerFixture
) -> None:
    request, count = LARGE[name]
    with EmbeddedBroker(topics={"t": 1}) as broker, connect(broker) as client:
        produce(client, "t", batch(b"v", timestamp=5))
        version = min(APIS[request.api.key].max_version, request.api.client_version)
        answer = ask_beside_another(broker, client, request, version, mocker)
        assert max(len(each) for each in fields_of(answer) if isinstance(each, tuple)) == count


def ask_beside_another(
    broker: EmbeddedBroker,
    large: Client,
    request: Request[Any],
    version: int,
    mocker: MockerFixture,
) -> Any:
    """Ask something large while another client heartbeats: both are answered.

    Counted is how often the work pauses for others; a count of what others do would be a timing.
    """
    with connect(broker) as other:
        other.ask(HeartbeatRequest("g", 1, "m"), 4)
        spies = [
            mocker.spy(Connection, "_in_steps"),
            mocker.spy(Connection, "go_on_with"),
            mocker.spy(InParts, "go_on"),
        ]
        sent = large.send(request, version)
        large.socket.setblocking(False)
        while not large_answer_begins(large):
            other.ask(HeartbeatRequest("g", 1, "m"), 4)
        large.socket.settimeout(60)
        answer = large.answer(request, sent)
    assert sum(spy.call_count for spy in spies) > 10
    return answer


def large_answer_begins(client: Client) -> bool:
    """Says whether an answer is there; the connection must not have ended."""
    try:
        assert client.socket.recv(1, socket.MSG_PEEK)
    except BlockingIOError:
        return False
    return True


STEPPED: Final[dict[str, Request[Any]]] = {
    "Fetch of partitions": FetchRequest(
        topics=(FetchTopic("t", partitions=tuple(FetchPartition(n) for n in range(_MANY))),)
    ),
    "Fetch of topics": FetchRequest(
        topics=tuple(
            FetchTopic(name, partitions=(FetchPartition(0),)) for name in _NAMES[: _MANY // 2]
        )
    ),
    "AlterUserScramCredentials, deletions": AlterUserScramCredentialsRequest(
        tuple(ScramCredentialDeletion(name, 1) for name in _NAMES)
    ),
    "AlterUserScramCredentials, wrong": AlterUserScramCredentialsRequest(
        (), tuple(ScramCredentialUpsertion(name, 1, 1, b"s", b"p") for name in _NAMES)
    ),
    "DescribeUserScramCredentials": DescribeUserScramCredentialsRequest(
        tuple(map(UserName, _NAMES))
    ),
    "Produce": ProduceRequest(
        None,
        -1,
        1_000,
        (
            TopicProduceData(
                "t", partition_data=tuple(PartitionProduceData(n, b"") for n in range(_MANY))
            ),
        ),
    ),
    "AlterConfigs": AlterConfigsRequest(
        tuple(AlterConfigsResource(2, name) for name in _NAMES[:4_000])
    ),
    "CreatePartitions": CreatePartitionsRequest(
        tuple(CreatePartitionsTopic(name, 2, None) for name in _NAMES)
    ),
    "DescribeTopicPartitions": DescribeTopicPartitionsRequest(tuple(map(TopicRequest, _NAMES))),
}
"""Requests that are answered as a whole, in steps."""


@pytest.mark.parametrize("name", STEPPED)
def test_a_request_that_is_answered_as_a_whole_is_answered_in_steps(
    name: str, mocker: MockerFixture
) -> None:
    request = STEPPED[name]
    steps = mocker.spy(Connection, "go_on_with")
    with EmbeddedBroker(topics={"t": 1}) as broker, connect(broker) as client:
        answer = client.ask(request, min(APIS[request.api.key].max_version, 12))
    assert any(isinstance(each, tuple) and each for each in fields_of(answer))
    assert steps.call_count > _STEPS


def test_a_question_for_everything_is_answered_in_steps(mocker: MockerFixture) -> None:
    topics = {f"topic-{n}": 1 for n in range(1_100)} | {"wide": 3_000}
    steps = mocker.spy(Connection, "go_on_with")
    encoded = mocker.spy(Route, "encode_in_steps")
    with EmbeddedBroker(topics=topics) as broker, connect(broker) as client:
        for n in range(1_100):
            commit = OffsetCommitRequest(
                f"g-{n}",
                topics=(
                    OffsetCommitRequestTopic(
                        "wide", partitions=(OffsetCommitRequestPartition(0, 5),)
                    ),
                ),
            )
            client.send(commit, 8)
        for _ in range(1_100):
            client.frame()

        def ask(request: Request[Any], version: int, least: int) -> Any:
            steps.reset_mock()
            encoded.reset_mock()
            answer = client.ask(request, version)
            assert (steps.call_count > least, encoded.call_count) == (True, 1), request
            return answer

        found = ask(MetadataRequest(None), 12, 4_100 // 512)
        assert sum(len(each.partitions) for each in found.topics if not each.is_internal) == 4_100
        for asked in (
            None,
            tuple(DescribableLogDirTopic(t, tuple(range(n))) for t, n in topics.items()),
        ):
            (found,) = ask(DescribeLogDirsRequest(asked), 4, 4_100 // 512).results
            assert sum(len(each.partitions) for each in found.topics) >= 4_100
        found = ask(ListGroupsRequest(), 5, 1_100 // 512)
        assert len(found.groups) == 1_100


def test_an_answer_that_is_larger_than_its_request_is_written_in_steps(
    mocker: MockerFixture,
) -> None:
    partitions = tuple(FetchPartition(n) for n in range(1, 3_001))
    with EmbeddedBroker(topics={"t": 1}) as broker, connect(broker) as client:
        asked = FetchRequest(session_epoch=0, topics=(FetchTopic("t", partitions=partitions),))
        session_id = client.ask(asked, 12).session_id
        assert session_id > 0
        steps = mocker.spy(Connection, "go_on_with")
        encoded = mocker.spy(Route, "encode_in_steps")
        answer = client.ask(FetchRequest(session_id=session_id, session_epoch=1), 12)
        assert len(answer.responses[0].partitions) == 3_000
        assert steps.call_count > 3_000 // 512
        assert encoded.call_count == 1


def test_a_fetch_session_gets_no_more_partitions_than_a_request_may_name() -> None:
    with EmbeddedBroker(topics={"t": 1}) as broker, connect(broker) as client:

        def fetch(session_id: int, epoch: int, first: int) -> FetchResponse:
            parts = tuple(FetchPartition(n) for n in range(first, first + 30_000))
            topics = (FetchTopic("t", partitions=parts),)
            return client.ask(
                FetchRequest(session_id=session_id, session_epoch=epoch, topics=topics), 12
            )

        session_id = fetch(0, 0, 0).session_id
        assert fetch(session_id, 1, 30_000).error_code == 70
        assert fetch(session_id, 2, 0).error_code == 70


def test_cost_of_scram_credentials_does_not_grow_with_their_number() -> None:
    # looking at all users for each one would take minutes
    names = _NAMES[:20_000]
    with EmbeddedBroker(topics={"t": 1}) as broker, connect(broker) as client:
        made = tuple(ScramCredentialUpsertion(name, 1, 4096, b"s", b"p") for name in names)
        answer = client.ask(AlterUserScramCredentialsRequest((), made), 0)
        assert {each.error_code for each in answer.results} == {0}
        found = client.ask(DescribeUserScramCredentialsRequest(None), 0).results
        assert [each.user for each in found] == sorted(names)
        twice = (*map(UserName, names), UserName(names[0]))
        found = client.ask(DescribeUserScramCredentialsRequest(twice), 0).results
        assert [each.error_code for each in found] == [92] + [0] * (len(names) - 1)
        removed = tuple(ScramCredentialDeletion(name, 1) for name in names)
        answer = client.ask(AlterUserScramCredentialsRequest(removed), 0)
        assert {each.error_code for each in answer.results} == {0}


def test_a_page_of_a_topic_costs_what_it_tells(mocker: MockerFixture) -> None:
    built = mocker.spy(metadata_handlers, "MetadataResponsePartition")
    with EmbeddedBroker(topics={"t": 500}) as broker, connect(broker) as client:
        asked = DescribeTopicPartitionsRequest((TopicRequest("t"),), 2, Cursor("t", 300))
        (topic,) = client.ask(asked, 0).topics
    assert [each.partition_index for each in topic.partitions] == [300, 301]
    assert built.call_count == 2


def test_an_assignment_for_very_many_members_leaves_others_their_turn(
    mocker: MockerFixture,
) -> None:
    given = tuple(SyncGroupRequestAssignment(name, b"") for name in _NAMES)
    with EmbeddedBroker(topics={"t": 1}) as broker, connect(broker) as client:
        first = client.ask(join_request("g"), 9)
        joined = client.ask(join_request("g", first.member_id), 9)
        assert joined.leader == joined.member_id
        request = SyncGroupRequest(
            "g",
            joined.generation_id,
            joined.member_id,
            protocol_type="consumer",
            protocol_name="range",
            assignments=(*given, SyncGroupRequestAssignment(joined.member_id, b"mine")),
        )
        answer = ask_beside_another(broker, client, request, 5, mocker)
        assert (answer.error_code, answer.assignment) == (0, b"mine")


def test_all_offsets_of_a_large_group_are_read_in_steps(mocker: MockerFixture) -> None:
    topics = {f"t-{n}": 1 for n in range(3_000)}
    offsets = tuple(
        OffsetCommitRequestTopic(name, partitions=(OffsetCommitRequestPartition(0, 7),))
        for name in topics
    )
    steps = mocker.spy(CoordinatorRuntime, "_go_on")
    encoded = mocker.spy(Route, "encode_in_steps")
    with EmbeddedBroker(topics=topics) as broker, connect(broker) as client:
        client.ask(OffsetCommitRequest("g", topics=offsets), 8)
        group = OffsetFetchRequestGroup("g", topics=None)
        asked = {7: OffsetFetchRequest("g", None), 8: OffsetFetchRequest(groups=(group,))}
        for version, request in asked.items():
            steps.reset_mock()
            encoded.reset_mock()
            answer = client.ask(request, version)
            found = answer.topics if version == 7 else answer.groups[0].topics
            assert len(found) == 3_000
            assert (steps.call_count > 3, encoded.call_count) == (True, 1)


def consumer_joining(member_id: str, topics: tuple[str, ...]) -> ConsumerGroupHeartbeatRequest:
    return ConsumerGroupHeartbeatRequest(
        "g",
        member_id,
        0,
        rebalance_timeout_ms=60_000,
        subscribed_topic_names=topics,
        topic_partitions=(),
    )


def test_a_subscription_to_very_many_topics_is_looked_up_in_steps(mocker: MockerFixture) -> None:
    steps = mocker.spy(Connection, "go_on_with")
    with EmbeddedBroker(topics={"t": 1}) as broker, connect(broker) as client:
        request = consumer_joining("m", ("t", *_NAMES))
        answer = client.ask(request, 1)
    assert answer.error_code == 0
    assert steps.call_count > _STEPS


def test_a_decision_about_a_large_subscription_looks_no_topic_up(mocker: MockerFixture) -> None:
    topics = {f"t-{n}": 1 for n in range(2_000)}
    found = mocker.spy(CatalogueImage, "topic")
    hashed = mocker.spy(topics_module, "topic_hash")
    decided: list[int] = []
    handle = ConsumerHeartbeats.handle

    def handled(*arguments: Any) -> Any:
        before = found.call_count + hashed.call_count
        try:
            return handle(*arguments)
        finally:
            decided.append(found.call_count + hashed.call_count - before)

    mocker.patch.object(ConsumerHeartbeats, "handle", handled)
    with EmbeddedBroker(topics=topics) as broker, connect(broker) as client:
        for member, names in (("a", tuple(topics)), ("b", tuple(topics)[:-1])):
            request = consumer_joining(member, names)
            assert client.ask(request, 1).error_code == 0
    # all topics of the subscription are hashed once more as one
    assert len(decided) == 2
    assert max(decided) < 512


def test_joins_of_very_many_topics_are_not_decoded_on_the_way(mocker: MockerFixture) -> None:
    decoded = mocker.spy(ConsumerProtocolDecoder, "subscription")
    data = ConsumerProtocolEncoder().subscription(ConsumerProtocolSubscription(_NAMES[:4_000]), 3)
    with EmbeddedBroker(topics={"t": 1}) as broker, connect(broker) as client:
        first = client.ask(join_request("g", metadata=data), 9)
        joined = client.ask(join_request("g", first.member_id, metadata=data), 9)
        assert (joined.error_code, decoded.call_count) == (0, 0)
        sync = SyncGroupRequest(
            "g",
            joined.generation_id,
            joined.member_id,
            assignments=(SyncGroupRequestAssignment(joined.member_id, b""),),
        )
        assert client.ask(sync, 4).error_code == 0
        deleted = OffsetDeleteRequest(
            "g",
            tuple(
                OffsetDeleteRequestTopic(name, (OffsetDeleteRequestPartition(0),)) for name in "t1"
            ),
        )
        answer = client.ask(deleted, 0)
        codes = {each.name: each.partitions[0].error_code for each in answer.topics}
        # "1" is one of the names, but does not exist
        assert codes == {"t": 0, "1": 3}
        assert decoded.call_count == 1


@pytest.mark.parametrize(
    "request_",
    [
        ListOffsetsRequest(
            topics=(ListOffsetsTopic("t", tuple(ListOffsetsPartition(n) for n in range(200))),)
        ),
        OffsetForLeaderEpochRequest(
            topics=(
                OffsetForLeaderTopic("t", tuple(OffsetForLeaderPartition(n) for n in range(200))),
            )
        ),
        DeleteRecordsRequest(
            (DeleteRecordsTopic("t", tuple(DeleteRecordsPartition(n, 0) for n in range(200))),)
        ),
        DescribeProducersRequest((ProducersOfTopic("t", tuple(range(200))),)),
        FetchRequest(
            topics=(FetchTopic(topic="t", partitions=tuple(FetchPartition(n) for n in range(200))),)
        ),
        ProduceRequest(
            None,
            -1,
            1_000,
            (
                TopicProduceData(
                    "t",
                    partition_data=tuple(PartitionProduceData(n, batch(b"v")) for n in range(200)),
                ),
            ),
        ),
        WriteTxnMarkersRequest(
            (WritableTxnMarker(1, 0, True, (WritableTxnMarkerTopic("t", tuple(range(200))),)),)
        ),
    ],
    ids=lambda each: type(each).__name__,
)
def test_logs_that_a_request_opens_are_opened_in_steps(
    request_: Request[Any], mocker: MockerFixture
) -> None:
    """After a restart none is open, and each takes a millisecond or more."""
    steps = mocker.spy(Connection, "go_on_with")
    with EmbeddedBroker(topics={"t": 200}) as broker, connect(broker) as client:
        client.ask(request_, {1: 12, 0: 11}.get(request_.api.key))
    assert steps.call_count >= 200 * OPENING_COSTS // 1_024


def test_rules_of_a_large_cluster_are_made_listed_and_removed_in_steps(
    mocker: MockerFixture,
) -> None:
    settings = {"authorizer.class.name": "standard", "super.users": "User:ANONYMOUS"}
    made = tuple(AclCreation(2, name, 3, "User:x", "*", 3, 3) for name in _NAMES[:4_000])
    steps = mocker.spy(Connection, "go_on_with")
    with EmbeddedBroker(settings) as broker, connect(broker) as client:
        client.ask(CreateAclsRequest(made))
        assert steps.call_count >= 4_000 // 512
        steps.reset_mock()
        found = client.ask(DescribeAclsRequest(1, None, 1, None, None, 1, 1)).resources
        # they are found, collected by resource, and described in steps
        assert (len(found), steps.call_count >= 3 * (4_000 // 512)) == (4_000, True)
        steps.reset_mock()
        removed = client.ask(DeleteAclsRequest((DeleteAclsFilter(1, None, 1, None, None, 1, 1),)))
        assert len(removed.filter_results[0].matching_acls) == 4_000
        assert steps.call_count >= 2 * 4_000 // 512


def test_a_response_of_parts_that_are_large_is_encoded_and_sent_in_pieces(
    mocker: MockerFixture,
) -> None:
    encoded = mocker.spy(Route, "encode_in_steps")
    sent = mocker.spy(Connection, "_flush")
    with EmbeddedBroker() as broker, connect(broker) as client:
        asked = tuple(DescribeConfigsResource(32, str(n), None) for n in range(300))
        answer = client.ask(DescribeConfigsRequest(asked, True, True), 4)
    assert len(answer.results) == 300
    assert encoded.call_count == 1
    assert sent.call_count > 4


def test_a_group_that_reads_very_many_topics_is_described_in_steps(mocker: MockerFixture) -> None:
    topics = {f"t-{n}": 1 for n in range(2_000)}
    with EmbeddedBroker(topics=topics) as broker, connect(broker) as client:
        joining = consumer_joining("m", tuple(topics))
        client.ask(joining, 1)
        eventually(lambda: targets_of(broker, "g"), [2_000])
        decided = mocker.spy(CoordinatorRuntime, "_go_on")
        built = mocker.spy(Connection, "go_on_with")
        encoded = mocker.spy(Route, "encode_in_steps")
        answer = client.ask(ConsumerGroupDescribeRequest(("g", "h")), 1)
    group, other = answer.groups
    assert other.error_code == 69
    assert len(group.members[0].target_assignment.topic_partitions) == 2_000
    assert decided.call_count > 2_000 // 256
    assert built.call_count > 2_000 // 512
    assert encoded.call_count == 1


def targets_of(broker: EmbeddedBroker, group_id: str) -> list[int]:
    """Says how many topics the target of each member has."""
    group = broker.consumer_group(group_id)
    assert group is not None
    return [len(each.target) for each in group.members.values()]


def test_settings_of_many_topics_are_described_in_short_steps(mocker: MockerFixture) -> None:
    topics = {f"t-{n}": 1 for n in range(300)}
    steps = mocker.spy(Connection, "go_on_with")
    asked = tuple(DescribeConfigsResource(2, name, None) for name in topics)
    with EmbeddedBroker(topics=topics) as broker, connect(broker) as client:
        answer = client.ask(DescribeConfigsRequest(asked), 4)
    assert [each.resource_name for each in answer.results] == list(topics)
    assert steps.call_count >= 150


def test_the_deletion_of_many_topics_writes_few_checkpoints(mocker: MockerFixture) -> None:
    topics = {f"t-{n}": 1 for n in range(64)}
    with EmbeddedBroker(topics=topics) as broker, connect(broker) as client:
        for name in topics:
            produce(client, name, batch(b"v"))
        checkpoints = mocker.spy(LogDirectory, "checkpoint")
        asked = tuple(DeleteTopicState(name) for name in topics)
        answer = client.ask(DeleteTopicsRequest(asked), 6)
        assert {each.error_code for each in answer.responses} == {0}
        assert checkpoints.call_count == 1
        assert client.ask(MetadataRequest(None), 12).topics == ()


def test_the_deletion_of_records_of_many_partitions_writes_few_checkpoints(
    mocker: MockerFixture,
) -> None:
    data = tuple(PartitionProduceData(n, batch(b"v")) for n in range(128))
    kept = tuple(DeleteRecordsPartition(n, -1) for n in range(128))
    with EmbeddedBroker(topics={"t": 128}) as broker, connect(broker) as client:
        client.ask(
            ProduceRequest(None, -1, 1_000, (TopicProduceData("t", partition_data=data),)), 11
        )
        checkpoints = mocker.spy(LogDirectory, "checkpoint")
        answer = client.ask(DeleteRecordsRequest((DeleteRecordsTopic("t", kept),)))
        assert {each.low_watermark for each in answer.topics[0].partitions} == {1}
        assert 0 < checkpoints.call_count <= 128 // 16 + 1
        checkpoints.side_effect = StorageError("the disk is full")
        client.ask(
            ProduceRequest(None, -1, 1_000, (TopicProduceData("t", partition_data=data),)), 11
        )
        answer = client.ask(DeleteRecordsRequest((DeleteRecordsTopic("t", kept),)))
        found = {(each.low_watermark, each.error_code) for each in answer.topics[0].partitions}
        assert found == {(-1, 56)}
        checkpoints.side_effect = None


def fields_of(answer: Any) -> list[Any]:
    return [getattr(answer, name) for name in answer.__dataclass_fields__]


def test_oversized_request_is_refused_at_once() -> None:
    with EmbeddedBroker(topics={"t": 1}) as broker, connect(broker) as client:
        states = ListGroupsRequest(states_filter=_NAMES)
        assert client.ask(states).error_code == 42
        partitions = tuple(OffsetCommitRequestPartition(n, 5) for n in range(_MANY))
        commit = OffsetCommitRequest(
            "g", topics=(OffsetCommitRequestTopic("t", partitions=partitions),)
        )
        answer = client.ask(commit, 8).topics[0].partitions
        assert {each.error_code for each in answer} == {28}
        assert len(answer) == _MANY


def test_a_batch_of_very_many_records_leaves_others_their_turn(
    mocker: MockerFixture,
) -> None:
    count = 300_000
    body = b"".join(record(n, key=None, value=None) for n in range(count))
    data = with_body(body, count, 1_000, 4)
    with EmbeddedBroker(topics={"t": 1}) as broker, connect(broker) as client:
        answer = ask_beside_another(broker, client, produce_request("t", data), 11, mocker)
        assert answer.responses[0].partition_responses[0].error_code == 0
