"""Tests the answers to producers, in each version."""

import pytest
from typing_extensions import override

from groupsdk.broker.coordinator.transactions import responses
from groupsdk.broker.coordinator.transactions.producer_ids import (
    MAX_PRODUCER_ID,
    BlockStoreError,
    ProducerIdAllocator,
)
from groupsdk.error_code import ErrorCode as E
from groupsdk.wire.messages.groups import HeartbeatRequest
from groupsdk.wire.messages.transactions import (
    AddOffsetsToTxnRequest,
    AddOffsetsToTxnResponse,
    AddPartitionsToTxnRequest,
    AddPartitionsToTxnResponse,
    AddPartitionsToTxnResult,
    AddPartitionsToTxnTopic,
    AddPartitionsToTxnTransaction,
    DescribeTransactionsRequest,
    DescribeTransactionsResponse,
    EndTxnRequest,
    EndTxnResponse,
    InitProducerIdRequest,
    InitProducerIdResponse,
    ListTransactionsRequest,
    ListTransactionsResponse,
)
from tests.broker.coordinator.transactions.driving import MemoryBlockStore, metadata


TOPICS = (AddPartitionsToTxnTopic("t", (2, 0)), AddPartitionsToTxnTopic("u", (5,)))
OLD = AddPartitionsToTxnRequest((), "x", 7, 3, TOPICS)
ONE = AddPartitionsToTxnTransaction("x", 7, 3, topics=TOPICS)
NEW = AddPartitionsToTxnRequest((ONE, AddPartitionsToTxnTransaction("y", 8, 4, True, TOPICS)))


def codes(result: AddPartitionsToTxnResult) -> dict[tuple[str, int], int]:
    return {
        (topic.name, each.partition_index): each.partition_error_code
        for topic in result.topic_results
        for each in topic.results_by_partition
    }


def test_idempotent_producers_get_an_id_and_epoch_zero() -> None:
    ids = ProducerIdAllocator(MemoryBlockStore(50))
    assert responses.idempotent_producer(ids) == InitProducerIdResponse(0, 0, 50, 0)
    assert responses.idempotent_producer(ids).producer_id == 51
    exhausted = ProducerIdAllocator(MemoryBlockStore(MAX_PRODUCER_ID))
    assert responses.idempotent_producer(exhausted) == InitProducerIdResponse(0, -1, -1, -1)


def test_a_store_that_fails_is_asked_again_later() -> None:
    class Failing(MemoryBlockStore):
        @override
        def next_start(self) -> int:
            raise BlockStoreError("gone")

    answer = responses.idempotent_producer(ProducerIdAllocator(Failing()))
    assert answer.error_code == E.COORDINATOR_LOAD_IN_PROGRESS


def test_the_old_form_is_one_transaction() -> None:
    assert responses.transactions_of(OLD, 3) == (ONE,)
    assert responses.transactions_of(NEW, 4) == NEW.transactions
    assert responses.partitions_of(TOPICS) == {("t", 2), ("t", 0), ("u", 5)}


def test_one_outcome_for_all_or_one_for_each() -> None:
    every = responses.partitions_added(ONE, E.PRODUCER_FENCED, 2)
    assert codes(every) == {("t", 2): 90, ("t", 0): 90, ("u", 5): 90}
    older = responses.partitions_added(ONE, E.PRODUCER_FENCED, 1)
    assert set(codes(older).values()) == {47}
    each = responses.partitions_added(
        ONE, {("t", 2): E.of(0), ("t", 0): E.of(120), ("u", 5): E.of(0)}, 4
    )
    assert codes(each) == {("t", 2): 0, ("t", 0): 120, ("u", 5): 0}
    assert responses.all_partitions_added((each,), 3) == AddPartitionsToTxnResponse(
        results_by_topic_v3_and_below=each.topic_results
    )
    assert responses.all_partitions_added((each, every), 4) == AddPartitionsToTxnResponse(
        results_by_transaction=(each, every)
    )


def test_every_request_can_be_refused() -> None:
    def refused(request: object, version: int = 0) -> object:
        return responses.refused(request, E.NOT_COORDINATOR, version)  # type: ignore[arg-type]

    assert refused(InitProducerIdRequest("x")) == InitProducerIdResponse(0, 16, -1, -1)
    assert refused(EndTxnRequest("x"), 5) == EndTxnResponse(0, 16, -1, -1)
    assert refused(AddOffsetsToTxnRequest("x")) == AddOffsetsToTxnResponse(0, 16)
    assert refused(ListTransactionsRequest()) == ListTransactionsResponse(0, 16)
    described = refused(DescribeTransactionsRequest(("x", "y")))
    assert isinstance(described, DescribeTransactionsResponse)
    assert [(e.transactional_id, e.error_code) for e in described.transaction_states] == [
        *(("x", 16), ("y", 16)),
    ]
    for request, version, count in ((OLD, 3, 1), (NEW, 4, 2)):
        added = refused(request, version)
        assert isinstance(added, AddPartitionsToTxnResponse)
        results = added.results_by_transaction or (
            AddPartitionsToTxnResult("x", added.results_by_topic_v3_and_below),
        )
        assert len(results) == count
        assert {code for each in results for code in codes(each).values()} == {16}
    with pytest.raises(
        TypeError, match="HeartbeatRequest is not a request for a transaction coordinator"
    ):
        refused(HeartbeatRequest())


def test_promises_are_taken_back() -> None:
    failed = responses.failed
    known = metadata()
    assert failed(responses.initialized(known), E.of(15)) == InitProducerIdResponse(0, 15, -1, -1)
    again = responses.not_initialized(E.CONCURRENT_TRANSACTIONS, 5)
    assert failed(again, E.of(16)) == InitProducerIdResponse(0, 16, -1, -1)
    assert failed(responses.ended(known), E.of(15)) == EndTxnResponse(0, 15, -1, -1)
    assert failed(responses.offsets_added(E.NONE, 3), E.of(15)) == AddOffsetsToTxnResponse(0, 15)
    for version in (3, 4):
        mixed = {("t", 2): E.of(0), ("t", 0): E.of(120), ("u", 5): E.of(0)}
        response = responses.all_partitions_added(
            (responses.partitions_added(ONE, mixed, version),), version
        )
        taken_back = failed(response, E.of(15))
        assert isinstance(taken_back, AddPartitionsToTxnResponse)
        topics = taken_back.results_by_topic_v3_and_below or (
            taken_back.results_by_transaction[0].topic_results
        )
        assert codes(AddPartitionsToTxnResult("x", topics)) == {
            ("t", 2): 15,
            ("t", 0): 120,
            ("u", 5): 15,
        }
    nothing = ListTransactionsResponse()
    assert failed(nothing, E.of(15)) is nothing
