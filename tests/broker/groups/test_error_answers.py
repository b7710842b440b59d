from typing import Any

import pytest

from groupsdk.broker.groups.error_answers import append_error, error_answer
from groupsdk.error_code import ErrorCode
from groupsdk.wire.compiler import decode, encode
from groupsdk.wire.messages.api_versions import ApiVersionsRequest
from groupsdk.wire.messages.delete_groups import DeleteGroupsRequest
from groupsdk.wire.messages.describe_groups import DescribeGroupsRequest
from groupsdk.wire.messages.heartbeat import HeartbeatRequest
from groupsdk.wire.messages.join_group import JoinGroupRequest
from groupsdk.wire.messages.leave_group import LeaveGroupRequest, MemberIdentity
from groupsdk.wire.messages.list_groups import ListGroupsRequest
from groupsdk.wire.messages.offset_commit import (
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
)
from groupsdk.wire.messages.offset_delete import OffsetDeleteRequest
from groupsdk.wire.messages.offset_fetch import (
    OffsetFetchRequest,
    OffsetFetchRequestGroup,
    OffsetFetchRequestTopic,
)
from groupsdk.wire.messages.sync_group import SyncGroupRequest
from groupsdk.wire.messages.txn_offset_commit import (
    TxnOffsetCommitRequest,
    TxnOffsetCommitRequestPartition,
    TxnOffsetCommitRequestTopic,
)
from groupsdk.wire.schema import Request


ERROR = ErrorCode.NOT_COORDINATOR
COMMIT_TOPIC = OffsetCommitRequestTopic("t", (OffsetCommitRequestPartition(0),))
TXN_TOPIC = TxnOffsetCommitRequestTopic("t", partitions=(TxnOffsetCommitRequestPartition(0),))
REQUESTS: list[Request[Any]] = [
    JoinGroupRequest("g"),
    SyncGroupRequest("g"),
    HeartbeatRequest("g"),
    LeaveGroupRequest("g", members=(MemberIdentity("m"),)),
    OffsetCommitRequest("g", topics=(COMMIT_TOPIC,)),
    TxnOffsetCommitRequest("x", "g", topics=(TXN_TOPIC,)),
    OffsetFetchRequest(
        "g",
        (OffsetFetchRequestTopic("t", (0,)),),
        groups=(OffsetFetchRequestGroup("g"),),
    ),
    DescribeGroupsRequest(("g",)),
    ListGroupsRequest(),
    DeleteGroupsRequest(("g", "g")),
    OffsetDeleteRequest("g"),
]


def codes(value: Any) -> set[int]:
    """All error codes in an answer."""
    if isinstance(value, tuple):
        return {code for each in value for code in codes(each)}
    if not hasattr(value, "__dataclass_fields__"):
        return set()
    found = {value.error_code} if hasattr(value, "error_code") else set()
    return found | {
        code for name in value.__dataclass_fields__ for code in codes(getattr(value, name))
    }


@pytest.mark.parametrize("request_", REQUESTS, ids=lambda each: type(each).__name__)
def test_every_version_of_every_request_can_be_refused(request_: Request[Any]) -> None:
    for version in range(request_.api.min_version, request_.api.max_version + 1):
        answer = error_answer(request_, ERROR, version)
        again = decode(type(answer), version, encode(answer, version))

        assert ERROR in codes(again)
        assert codes(again) <= {ErrorCode.NONE, ERROR}
        assert type(answer) is request_.response_class


def test_heartbeats_are_fine_while_the_coordinator_loads() -> None:
    loading = ErrorCode.COORDINATOR_LOAD_IN_PROGRESS

    assert codes(error_answer(HeartbeatRequest("g"), loading, 4)) == {ErrorCode.NONE}
    assert codes(error_answer(SyncGroupRequest("g"), loading, 4)) == {loading}


def test_a_request_to_somebody_else_is_a_fault_of_the_caller() -> None:
    with pytest.raises(TypeError, match="ApiVersionsRequest is not asked of a group coordinator"):
        error_answer(ApiVersionsRequest(), ERROR, 0)


@pytest.mark.parametrize(
    ("failure", "told"),
    [(3, 15), (19, 15), (7, 15), (6, 16), (56, 16), (10, -1), (18, -1), (4, -1)],
)
def test_failures_of_the_log_are_told_as_kafka_tells_them(failure: int, told: int) -> None:
    assert append_error(ErrorCode.of(failure)) == told


def test_any_other_failure_is_told_as_it_is() -> None:
    assert append_error(ErrorCode.NOT_ENOUGH_REPLICAS_AFTER_APPEND) == 20
