"""Answer any request to a group coordinator with an error, as each version of it has it."""

from collections.abc import Callable
from typing import Any

from groupsdk.broker.groups.answers import heartbeat_answer, join_error, leave_answer, sync_error
from groupsdk.broker.groups.commit_answers import commit_error, transaction_error
from groupsdk.error_code import ErrorCode
from groupsdk.wire.messages.delete_groups import (
    DeletableGroupResult,
    DeleteGroupsRequest,
    DeleteGroupsResponse,
)
from groupsdk.wire.messages.describe_groups import (
    DescribedGroup,
    DescribeGroupsRequest,
    DescribeGroupsResponse,
)
from groupsdk.wire.messages.heartbeat import HeartbeatRequest
from groupsdk.wire.messages.join_group import JoinGroupRequest
from groupsdk.wire.messages.leave_group import LeaveGroupRequest
from groupsdk.wire.messages.list_groups import ListGroupsRequest, ListGroupsResponse
from groupsdk.wire.messages.offset_commit import OffsetCommitRequest
from groupsdk.wire.messages.offset_delete import OffsetDeleteRequest, OffsetDeleteResponse
from groupsdk.wire.messages.offset_fetch import (
    OffsetFetchRequest,
    OffsetFetchResponse,
    OffsetFetchResponseGroup,
    OffsetFetchResponsePartition,
    OffsetFetchResponseTopic,
)
from groupsdk.wire.messages.sync_group import SyncGroupRequest
from groupsdk.wire.messages.txn_offset_commit import TxnOffsetCommitRequest
from groupsdk.wire.schema import Request, Response


_GROUPS_FROM = 8
_TOP_LEVEL_FROM = 2

_Answer = Callable[[Any, ErrorCode, int], Response]


def error_answer(request: Request[Any], error: ErrorCode, api_version: int) -> Response:
    """Refuse a whole request: the coordinator is elsewhere, or loads, or the group is forbidden.

    While it loads, a heartbeat is answered as if all were well: clients would leave for the error.

    Raises:
        TypeError: it is no request to a group coordinator.
    """
    answer = _ANSWERS.get(type(request))
    if answer is None:
        raise TypeError(f"{type(request).__name__} is not asked of a group coordinator")
    return answer(request, error, api_version)


def append_error(error: ErrorCode) -> ErrorCode:
    """Return what a member is told when a write to the log failed with this error."""
    return _APPEND_ERRORS.get(error, error)


def _heartbeat(request: HeartbeatRequest, error: ErrorCode, api_version: int) -> Response:
    del request, api_version
    loading = error is ErrorCode.COORDINATOR_LOAD_IN_PROGRESS
    return heartbeat_answer(ErrorCode.NONE if loading else error)


def _join(request: JoinGroupRequest, error: ErrorCode, api_version: int) -> Response:
    del request
    return join_error(error, "", api_version)


def _sync(request: SyncGroupRequest, error: ErrorCode, api_version: int) -> Response:
    del request, api_version
    return sync_error(error)


def _leave(request: LeaveGroupRequest, error: ErrorCode, api_version: int) -> Response:
    del request
    return leave_answer(error, (), api_version)


def _commit(request: OffsetCommitRequest, error: ErrorCode, api_version: int) -> Response:
    del api_version
    return commit_error(request, error)


def _fetch(request: OffsetFetchRequest, error: ErrorCode, api_version: int) -> Response:
    if api_version >= _GROUPS_FROM:
        return OffsetFetchResponse(
            groups=tuple(
                OffsetFetchResponseGroup(group_id=each.group_id, error_code=error)
                for each in request.groups
            )
        )
    if api_version >= _TOP_LEVEL_FROM:
        return OffsetFetchResponse(error_code=error)
    return OffsetFetchResponse(
        topics=tuple(
            OffsetFetchResponseTopic(
                topic.name,
                tuple(
                    OffsetFetchResponsePartition(index, -1, -1, "", error)
                    for index in topic.partition_indexes
                ),
            )
            for topic in request.topics or ()
        )
    )


def _describe(request: DescribeGroupsRequest, error: ErrorCode, api_version: int) -> Response:
    del api_version
    return DescribeGroupsResponse(
        groups=tuple(DescribedGroup(error_code=error, group_id=each) for each in request.groups)
    )


def _list(request: ListGroupsRequest, error: ErrorCode, api_version: int) -> Response:
    del request, api_version
    return ListGroupsResponse(error_code=error)


def _delete(request: DeleteGroupsRequest, error: ErrorCode, api_version: int) -> Response:
    del api_version
    names = dict.fromkeys(request.groups_names)
    return DeleteGroupsResponse(results=tuple(DeletableGroupResult(each, error) for each in names))


def _delete_offsets(request: OffsetDeleteRequest, error: ErrorCode, api_version: int) -> Response:
    del request, api_version
    return OffsetDeleteResponse(error_code=error)


_ANSWERS: dict[type[Request[Any]], _Answer] = {
    HeartbeatRequest: _heartbeat,
    JoinGroupRequest: _join,
    SyncGroupRequest: _sync,
    LeaveGroupRequest: _leave,
    OffsetCommitRequest: _commit,
    TxnOffsetCommitRequest: transaction_error,
    OffsetFetchRequest: _fetch,
    DescribeGroupsRequest: _describe,
    ListGroupsRequest: _list,
    DeleteGroupsRequest: _delete,
    OffsetDeleteRequest: _delete_offsets,
}

_APPEND_ERRORS = {
    ErrorCode.UNKNOWN_TOPIC_OR_PARTITION: ErrorCode.COORDINATOR_NOT_AVAILABLE,
    ErrorCode.NOT_ENOUGH_REPLICAS: ErrorCode.COORDINATOR_NOT_AVAILABLE,
    ErrorCode.REQUEST_TIMED_OUT: ErrorCode.COORDINATOR_NOT_AVAILABLE,
    ErrorCode.NOT_LEADER_OR_FOLLOWER: ErrorCode.NOT_COORDINATOR,
    ErrorCode.KAFKA_STORAGE_ERROR: ErrorCode.NOT_COORDINATOR,
    ErrorCode.MESSAGE_TOO_LARGE: ErrorCode.UNKNOWN_SERVER_ERROR,
    ErrorCode.RECORD_LIST_TOO_LARGE: ErrorCode.UNKNOWN_SERVER_ERROR,
    ErrorCode.INVALID_FETCH_SIZE: ErrorCode.UNKNOWN_SERVER_ERROR,
}
