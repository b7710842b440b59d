"""Tests that any request can be answered with any error."""

from typing import Any

from groupsdk.broker.log.errors import StorageError
from groupsdk.broker.server.apis import APIS
from groupsdk.broker.server.error_responses import failure_code, refuse
from groupsdk.wire.api import request_class
from groupsdk.wire.compiler import encode
from groupsdk.wire.messages.fetch import FetchPartition, FetchRequest, FetchResponse, FetchTopic
from groupsdk.wire.messages.group_admin import DeleteGroupsRequest
from groupsdk.wire.messages.groups import DescribeGroupsRequest, JoinGroupRequest
from groupsdk.wire.messages.metadata import FindCoordinatorRequest
from groupsdk.wire.messages.offsets import (
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
    OffsetFetchRequest,
    OffsetFetchRequestGroup,
    OffsetFetchRequestTopic,
)
from groupsdk.wire.messages.transactions import AddPartitionsToTxnRequest, AddPartitionsToTxnTopic
from groupsdk.wire.schema import Request
from tests.broker.clients import produce_request
from tests.support.cases import each_case


@each_case("key", sorted(APIS))
def test_every_answer_that_has_room_for_an_error_can_be_written(key: int) -> None:
    message = request_class(key)
    served = APIS[key]
    for version in range(served.min_version, served.max_version + 1):
        response = refuse(message(), 42, version)
        assert response is not None, (message, version)
        assert encode(response, version)


def text(request: Request[Any], version: int) -> str:
    """Refuses with 16 and shows what a client would see."""
    response = refuse(request, 16, version)
    assert response is not None
    assert encode(response, version)
    return repr(response)


def test_an_error_stands_at_the_top_where_there_is_room() -> None:
    refused = text(JoinGroupRequest("g"), 9)
    assert "error_code=16" in refused
    assert "generation_id=-1" in refused


def test_an_error_is_repeated_for_each_partition() -> None:
    partitions = (OffsetCommitRequestPartition(3, 5), OffsetCommitRequestPartition(4, 5))
    asked = OffsetCommitRequest("g", topics=(OffsetCommitRequestTopic("t", partitions=partitions),))
    refused = text(asked, 8)
    assert "partition_index=3, error_code=16" in refused
    assert "partition_index=4, error_code=16" in refused
    assert "base_offset=-1" in text(produce_request("t", b""), 9)
    wanted = (FetchTopic("t", partitions=(FetchPartition(7),)),)
    assert "partition_index=7, error_code=16" in text(FetchRequest(topics=wanted), 4)
    assert "topic='t'" in text(FetchRequest(topics=wanted), 11)


def test_a_refused_fetch_has_records_of_no_bytes() -> None:
    # as Kafka's: librdkafka takes null for a damaged answer, and asks again at once
    wanted = (FetchTopic("t", partitions=(FetchPartition(7),)),)
    refused = refuse(FetchRequest(topics=wanted), 16, 11)
    assert isinstance(refused, FetchResponse)
    assert refused.responses[0].partitions[0].records == b""


def test_names_in_the_request_become_structs_in_the_answer() -> None:
    assert "group_id='a', error_code=16" in text(DeleteGroupsRequest(("a", "b")), 2)
    assert "error_code=16, error_message=" in text(DescribeGroupsRequest(("a",)), 6)
    found = text(FindCoordinatorRequest(coordinator_keys=("k",)), 4)
    assert "key='k', node_id=-1" in found
    assert "port=-1" in found
    assert "error_code=16" in text(FindCoordinatorRequest("k"), 3)


def test_offset_fetch_of_old_and_new_versions() -> None:
    old = OffsetFetchRequest("g", (OffsetFetchRequestTopic("t", (5,)),))
    assert "partition_index=5, committed_offset=-1" in text(old, 1)
    new = OffsetFetchRequest(groups=(OffsetFetchRequestGroup("g"),))
    assert "group_id='g'" in text(new, 8)


def test_old_add_partitions() -> None:
    topics = (AddPartitionsToTxnTopic("t", (1,)),)
    asked = AddPartitionsToTxnRequest(v3_and_below_topics=topics)
    assert "partition_index=1, partition_error_code=16" in text(asked, 3)


def test_exception_of_storage_becomes_its_error_code() -> None:
    assert failure_code(StorageError("full")) == 56
    assert failure_code(ValueError("a bug")) is None
