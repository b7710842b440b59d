"""Tests which error each version is told."""

import pytest

from groupsdk.broker.coordinator.transactions.responses import (
    for_version,
    produce_error,
)
from groupsdk.error_code import ErrorCode as E
from groupsdk.wire.schema import ApiKey


@pytest.mark.parametrize(
    ("api", "first"),
    [
        (ApiKey.INIT_PRODUCER_ID, 4),
        (ApiKey.END_TXN, 2),
        (ApiKey.ADD_PARTITIONS_TO_TXN, 2),
        (ApiKey.ADD_OFFSETS_TO_TXN, 2),
    ],
)
def test_old_versions_do_not_know_that_they_are_fenced(api: ApiKey, first: int) -> None:
    for version in range(6):
        expected = E.PRODUCER_FENCED if version >= first else E.INVALID_PRODUCER_EPOCH
        assert for_version(api, version, E.PRODUCER_FENCED) is expected
        for other in E:
            if other is not E.PRODUCER_FENCED:
                assert for_version(api, version, other) is other


@pytest.mark.parametrize(
    ("error", "version", "answer"),
    [
        (E.NONE, 9, E.NONE),
        (E.PRODUCER_FENCED, 12, E.INVALID_PRODUCER_EPOCH),
        (E.TRANSACTION_ABORTABLE, 10, E.INVALID_TXN_STATE),
        (E.TRANSACTION_ABORTABLE, 11, E.TRANSACTION_ABORTABLE),
        (E.CONCURRENT_TRANSACTIONS, 11, E.NOT_ENOUGH_REPLICAS),
        (E.CONCURRENT_TRANSACTIONS, 12, E.CONCURRENT_TRANSACTIONS),
        (E.NETWORK_EXCEPTION, 12, E.NOT_ENOUGH_REPLICAS),
        (E.COORDINATOR_LOAD_IN_PROGRESS, 12, E.NOT_ENOUGH_REPLICAS),
        (E.COORDINATOR_NOT_AVAILABLE, 11, E.NOT_ENOUGH_REPLICAS),
        (E.NOT_COORDINATOR, 3, E.NOT_ENOUGH_REPLICAS),
        (E.INVALID_PRODUCER_ID_MAPPING, 12, E.INVALID_PRODUCER_ID_MAPPING),
    ],
)
def test_produce_answers_transaction_errors_by_version(error: E, version: int, answer: E) -> None:
    assert produce_error(error, version) is answer
