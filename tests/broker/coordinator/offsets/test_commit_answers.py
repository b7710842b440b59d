import pytest

from groupsdk.broker.coordinator.offsets.offset_metadata_manager import (
    commit_answer,
    commit_error,
    transaction_answer,
    transaction_error,
)
from groupsdk.error_code import ErrorCode
from groupsdk.wire.messages.offsets import (
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
    OffsetCommitResponse,
)
from groupsdk.wire.messages.transactions import (
    TxnOffsetCommitRequest,
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


@pytest.mark.parametrize(
    "topics",
    [
        [],
        [("t", [(3, OK)])],
        [("t", [(3, TOO_LARGE)])],
        [("t", [(0, OK), (1, TOO_LARGE)]), ("u", [(0, OK)])],
    ],
)
def test_each_partition_has_its_error(
    topics: list[tuple[str, list[tuple[int, ErrorCode]]]],
) -> None:
    asked = [(OffsetCommitRequestTopic(name), partitions) for name, partitions in topics]
    assert told(commit_answer(asked)) == topics


def test_an_error_of_the_group_is_repeated() -> None:
    partitions = tuple(OffsetCommitRequestPartition(index) for index in (4, 2))
    topics = (
        OffsetCommitRequestTopic("t", partitions=partitions),
        OffsetCommitRequestTopic("none"),
    )

    answer = commit_error(OffsetCommitRequest("g", topics=topics), ErrorCode.NOT_COORDINATOR)

    assert told(answer) == [("t", [(4, 16), (2, 16)])]


@pytest.mark.parametrize(
    ("error", "version", "code"),
    [
        (ErrorCode.NETWORK_EXCEPTION, 0, 14),
        (ErrorCode.PRODUCER_FENCED, 5, 47),
        (ErrorCode.TRANSACTION_ABORTABLE, 3, 48),
        (ErrorCode.TRANSACTION_ABORTABLE, 4, 120),
        (ErrorCode.ILLEGAL_GENERATION, 3, 22),
    ],
)
def test_producers_are_told_what_they_know(error: ErrorCode, version: int, code: int) -> None:
    topic = TxnOffsetCommitRequestTopic("t", partitions=(TxnOffsetCommitRequestPartition(7),))

    answer = transaction_error(TxnOffsetCommitRequest("x", "g", topics=(topic,)), error, version)

    assert [(e.partition_index, e.error_code) for e in answer.topics[0].partitions] == [(7, code)]


def test_a_transactions_topics_keep_name_and_id() -> None:
    topic = TxnOffsetCommitRequestTopic("t")

    (answered,) = transaction_answer([(topic, [(1, OK)])]).topics

    assert (answered.name, answered.topic_id) == ("t", topic.topic_id)
