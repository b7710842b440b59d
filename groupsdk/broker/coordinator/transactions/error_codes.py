"""Map error codes to those that a client's API version knows, or that make an old client react correctly."""

from typing import Final

from groupsdk.error_code import ErrorCode
from groupsdk.wire.schema import ApiKey


_FENCED_SINCE: Final = {
    ApiKey.INIT_PRODUCER_ID: 4,
    ApiKey.END_TXN: 2,
    ApiKey.ADD_PARTITIONS_TO_TXN: 2,
    ApiKey.ADD_OFFSETS_TO_TXN: 2,
}
"""The first version of each API whose clients know PRODUCER_FENCED."""

_APPEND: Final = {
    ErrorCode.UNKNOWN_TOPIC_OR_PARTITION: ErrorCode.COORDINATOR_NOT_AVAILABLE,
    ErrorCode.NOT_ENOUGH_REPLICAS: ErrorCode.COORDINATOR_NOT_AVAILABLE,
    ErrorCode.NOT_ENOUGH_REPLICAS_AFTER_APPEND: ErrorCode.COORDINATOR_NOT_AVAILABLE,
    ErrorCode.REQUEST_TIMED_OUT: ErrorCode.COORDINATOR_NOT_AVAILABLE,
    ErrorCode.NOT_LEADER_OR_FOLLOWER: ErrorCode.NOT_COORDINATOR,
    ErrorCode.KAFKA_STORAGE_ERROR: ErrorCode.NOT_COORDINATOR,
    ErrorCode.MESSAGE_TOO_LARGE: ErrorCode.UNKNOWN_SERVER_ERROR,
    ErrorCode.RECORD_LIST_TOO_LARGE: ErrorCode.UNKNOWN_SERVER_ERROR,
}

_UNREACHABLE: Final = frozenset(
    {
        ErrorCode.NETWORK_EXCEPTION,
        ErrorCode.COORDINATOR_LOAD_IN_PROGRESS,
        ErrorCode.COORDINATOR_NOT_AVAILABLE,
        ErrorCode.NOT_COORDINATOR,
    }
)
"""Why a transaction could not be looked at, where nothing is wrong with it."""

LAST_PRODUCE_WITHOUT_ABORTABLE: Final = 10
LAST_PRODUCE_WITHOUT_BUMP: Final = 11
LAST_OFFSET_COMMIT_WITHOUT_ABORTABLE: Final = 3


def for_version(api: ApiKey, version: int, error: ErrorCode) -> ErrorCode:
    """Map PRODUCER_FENCED to INVALID_PRODUCER_EPOCH for versions that lack it; return other errors unchanged."""
    if error is ErrorCode.PRODUCER_FENCED and version < _FENCED_SINCE.get(api, 0):
        return ErrorCode.INVALID_PRODUCER_EPOCH
    return error


def append_error(error: ErrorCode) -> ErrorCode:
    """Map the error of an append to `__transaction_state` to the one sent to clients."""
    return _APPEND.get(error, error)


def produce_error(error: ErrorCode, version: int) -> ErrorCode:
    """Map the coordinator's error for a partition to the one sent in response to a Produce of this version."""
    if error is ErrorCode.PRODUCER_FENCED:
        return ErrorCode.INVALID_PRODUCER_EPOCH
    if error is ErrorCode.TRANSACTION_ABORTABLE and version <= LAST_PRODUCE_WITHOUT_ABORTABLE:
        return ErrorCode.INVALID_TXN_STATE
    adds = version > LAST_PRODUCE_WITHOUT_BUMP
    if error in _UNREACHABLE or (error is ErrorCode.CONCURRENT_TRANSACTIONS and not adds):
        # Old producers treat this one as retriable.
        return ErrorCode.NOT_ENOUGH_REPLICAS
    return error


def txn_offset_commit_error(error: ErrorCode, version: int) -> ErrorCode:
    """Map the coordinator's error for a partition to the one sent in response to a TxnOffsetCommit of this version."""
    if error is ErrorCode.PRODUCER_FENCED:
        return ErrorCode.INVALID_PRODUCER_EPOCH
    if error is ErrorCode.NETWORK_EXCEPTION:
        return for_txn_offset_commit(ErrorCode.COORDINATOR_LOAD_IN_PROGRESS, version)
    if error is ErrorCode.TRANSACTION_ABORTABLE and version <= LAST_OFFSET_COMMIT_WITHOUT_ABORTABLE:
        return ErrorCode.INVALID_TXN_STATE
    return for_txn_offset_commit(error, version)


def for_txn_offset_commit(error: ErrorCode, version: int) -> ErrorCode:
    """Map COORDINATOR_LOAD_IN_PROGRESS to COORDINATOR_NOT_AVAILABLE for TxnOffsetCommit versions 0 and 1."""
    if error is ErrorCode.COORDINATOR_LOAD_IN_PROGRESS and version < 2:
        return ErrorCode.COORDINATOR_NOT_AVAILABLE
    return error
