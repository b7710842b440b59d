"""Tests what administrators are told."""

import pytest

from groupsdk.broker.coordinator.transactions.metadata import TransactionState as S
from groupsdk.broker.coordinator.transactions.responses import describe, list_transactions
from groupsdk.error_code import ErrorCode
from groupsdk.wire.messages.transactions import (
    ListTransactionsRequest,
    TopicData,
    TransactionState,
)
from tests.broker.coordinator.transactions.driving import metadata


KNOWN = [
    metadata(S.EMPTY, transactional_id="empty", producer_id=1),
    metadata(S.ONGOING, transactional_id="young", producer_id=2, start_ms=9_000),
    metadata(S.ONGOING, transactional_id="old", producer_id=3, start_ms=1_000),
    metadata(S.COMPLETE_COMMIT, transactional_id="done", producer_id=4, start_ms=8_500),
]


@pytest.mark.parametrize(
    ("request_", "found"),
    [
        (ListTransactionsRequest(), ["empty", "young", "old", "done"]),
        (ListTransactionsRequest(("Ongoing",)), ["young", "old"]),
        (ListTransactionsRequest(("Ongoing", "Empty")), ["empty", "young", "old"]),
        (ListTransactionsRequest(("Dead",)), []),
        (ListTransactionsRequest((), (4, 2)), ["young", "done"]),
        (ListTransactionsRequest(("Empty",), (4, 2)), []),
        (ListTransactionsRequest(duration_filter=-1), ["empty", "young", "old", "done"]),
        (ListTransactionsRequest(duration_filter=1_000), ["empty", "old", "done"]),
        (ListTransactionsRequest(duration_filter=1_500), ["empty", "old"]),
        (ListTransactionsRequest(("Ongoing",), (), 9_000), []),
        (ListTransactionsRequest(("Ongoing",), (), 8_999), ["old"]),
        (ListTransactionsRequest(transactional_id_pattern=""), ["empty", "young", "old", "done"]),
        (ListTransactionsRequest(transactional_id_pattern="o.*|do.*"), ["old", "done"]),
        (ListTransactionsRequest(transactional_id_pattern="o"), []),
        (
            ListTransactionsRequest(("Ongoing",), transactional_id_pattern=".*[dy].*"),
            ["young", "old"],
        ),
    ],
)
def test_list_transactions_filters_by_state_producer_and_duration(
    request_: ListTransactionsRequest, found: list[str]
) -> None:
    response = list_transactions(request_, KNOWN, 10_000)
    assert response.error_code == ErrorCode.NONE
    assert [each.transactional_id for each in response.transaction_states] == found
    assert response.unknown_state_filters == ()


def test_states_that_do_not_exist_are_named_and_match_nothing() -> None:
    request = ListTransactionsRequest(("ongoing", "Ongoing", "Nonsense"))
    response = list_transactions(request, KNOWN, 10_000)
    assert response.unknown_state_filters == ("ongoing", "Nonsense")
    assert [each.transactional_id for each in response.transaction_states] == ["young", "old"]
    only = list_transactions(ListTransactionsRequest(("Nonsense",)), KNOWN, 10_000)
    assert only.transaction_states == ()


def test_transaction_is_listed_with_its_state() -> None:
    (first, *_) = list_transactions(ListTransactionsRequest(), KNOWN, 0).transaction_states
    assert (first.transactional_id, first.producer_id, first.transaction_state) == (
        *("empty", 1, "Empty"),
    )


def test_a_pattern_that_is_not_valid_is_refused() -> None:
    request = ListTransactionsRequest(transactional_id_pattern="(")
    response = list_transactions(request, KNOWN, 0)
    assert response.error_code == ErrorCode.INVALID_REGULAR_EXPRESSION
    assert response.transaction_states == ()


def test_transaction_is_described_with_its_partitions() -> None:
    known = metadata(partitions=frozenset({("u", 1), ("t", 10), ("t", 2)}))
    assert describe("x", known) == TransactionState(
        error_code=0,
        transactional_id="x",
        transaction_state="Ongoing",
        transaction_timeout_ms=60_000,
        transaction_start_time_ms=900,
        producer_id=7,
        producer_epoch=3,
        topics=(TopicData("t", (2, 10)), TopicData("u", (1,))),
    )
    assert describe("x", None).error_code == ErrorCode.TRANSACTIONAL_ID_NOT_FOUND
    assert describe("", None).error_code == ErrorCode.INVALID_REQUEST
