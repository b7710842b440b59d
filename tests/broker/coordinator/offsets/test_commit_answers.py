from collections.abc import Iterable

import pytest

from groupsdk.broker.coordinator.offsets.commit_validation import txn_offset_commit_error
from groupsdk.broker.coordinator.offsets.offset_metadata_manager import (
    commit_answer,
    commit_error,
    transaction_answer,
)
from groupsdk.error_code import ErrorCode
from groupsdk.wire.messages.offsets import (
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
    OffsetCommitResponse,
)
from groupsdk.wire.messages.transactions import (
    TxnOffsetCommitRequestPartition,
    TxnOffsetCommitRequestTopic,
)


OK = ErrorCode.NONE
TOO_LARGE = ErrorCode.OFFSET_METADATA_TOO_LARGE


def told(answer: OffsetCommitResponse) -> list[tuple[str, list[tuple[int, int]]]]:
    return [
        (topic.name, [(each.partition_index, each.error_code) for each in topic.partitions])
        for topic in answer.topics
    ]


def requested(name: str, indexes: Iterable[int]) -> OffsetCommitRequestTopic:
    partitions = tuple(OffsetCommitRequestPartition(index) for index in indexes)
    return OffsetCommitRequestTopic(name, partitions=partitions)


@pytest.mark.parametrize(
    "topics",
    [
        [],
        [("t", [(3, OK)])],
        [("t", [(3, TOO_LARGE)])],
        [("t", [(0, OK), (1, TOO_LARGE)]), ("u", [(0, OK)])],
        [("t", [(index, TOO_LARGE if index % 3 else OK) for index in range(300)])],
    ],
)
def test_each_partition_has_its_error(
    topics: list[tuple[str, list[tuple[int, ErrorCode]]]],
) -> None:
    asked = [
        (requested(name, [index for index, _ in partitions]), tuple(code for _, code in partitions))
        for name, partitions in topics
    ]
    assert told(commit_answer(asked)) == topics


@pytest.mark.parametrize("count", [1, 3, 300])
def test_without_errors_all_partitions_are_accepted(count: int) -> None:
    answer = commit_answer([(requested("t", range(count)), ())])
    assert told(answer) == [("t", [(index, 0) for index in range(count)])]


def test_an_error_of_the_group_is_repeated() -> None:
    topics = (requested("t", (4, 2)), OffsetCommitRequestTopic("none"))

    answer = commit_error(OffsetCommitRequest("g", topics=topics), ErrorCode.NOT_COORDINATOR)

    assert told(answer) == [("t", [(4, 16), (2, 16)])]


@pytest.mark.parametrize(
    ("error", "version", "answer"),
    [
        (ErrorCode.NONE, 5, ErrorCode.NONE),
        (ErrorCode.PRODUCER_FENCED, 5, ErrorCode.INVALID_PRODUCER_EPOCH),
        (ErrorCode.NETWORK_EXCEPTION, 5, ErrorCode.COORDINATOR_LOAD_IN_PROGRESS),
        (ErrorCode.NETWORK_EXCEPTION, 1, ErrorCode.COORDINATOR_NOT_AVAILABLE),
        (ErrorCode.COORDINATOR_LOAD_IN_PROGRESS, 2, ErrorCode.COORDINATOR_LOAD_IN_PROGRESS),
        (ErrorCode.COORDINATOR_LOAD_IN_PROGRESS, 1, ErrorCode.COORDINATOR_NOT_AVAILABLE),
        (ErrorCode.TRANSACTION_ABORTABLE, 3, ErrorCode.INVALID_TXN_STATE),
        (ErrorCode.TRANSACTION_ABORTABLE, 4, ErrorCode.TRANSACTION_ABORTABLE),
        (ErrorCode.CONCURRENT_TRANSACTIONS, 4, ErrorCode.CONCURRENT_TRANSACTIONS),
    ],
)
def test_txn_offset_commit_answers_transaction_errors_by_version(
    error: ErrorCode, version: int, answer: ErrorCode
) -> None:
    assert txn_offset_commit_error(error, version) is answer


def test_a_transactions_topics_keep_name_and_id() -> None:
    topic = TxnOffsetCommitRequestTopic("t", partitions=(TxnOffsetCommitRequestPartition(1),))

    (answered,) = transaction_answer([(topic, (TOO_LARGE,))]).topics

    assert (answered.name, answered.topic_id) == ("t", topic.topic_id)
    assert [(e.partition_index, e.error_code) for e in answered.partitions] == [(1, TOO_LARGE)]
