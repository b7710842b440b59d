"""Name what a partition's log refuses, and what can befall it."""

from typing import ClassVar, NamedTuple

from groupsdk.error_code import ErrorCode
from groupsdk.errors import GroupSdkError


class LogError(GroupSdkError):
    """Root of the errors of a log; `error_code` is what a client is answered with."""

    error_code: ClassVar[ErrorCode] = ErrorCode.UNKNOWN_SERVER_ERROR


class StorageError(LogError):
    """The disk failed or is full; the log is as it was before, and later appends may succeed."""

    error_code = ErrorCode.KAFKA_STORAGE_ERROR
    retriable = True


class CorruptLogError(LogError):
    """A stored batch is not as it was written; the text names file and position. It is never served."""

    error_code = ErrorCode.CORRUPT_MESSAGE


class CorruptMessageError(LogError):
    """A batch that is to be appended is damaged."""

    error_code = ErrorCode.CORRUPT_MESSAGE


class BadCompressionError(LogError):
    """The records of a batch that is to be appended cannot be decompressed; Kafka has no code of its own for it."""


class RecordProblem(NamedTuple):
    """Why one record has its batch refused (KIP-467)."""

    number: int
    """Which record of the batch, from 0 on."""
    text: str


class RecordsRefusedError(LogError):
    """Single records of a batch may not be appended, so none of it was."""

    def __init__(self, text: str, problems: tuple[RecordProblem, ...] = ()) -> None:
        super().__init__(text)
        self.problems = problems


class InvalidRecordError(RecordsRefusedError):
    """A batch that is to be appended says what no producer may say."""

    error_code = ErrorCode.INVALID_RECORD


class UnsupportedFormatError(LogError):
    """A batch that is to be appended has another message format than 2."""

    error_code = ErrorCode.UNSUPPORTED_FOR_MESSAGE_FORMAT


class InvalidTimestampError(RecordsRefusedError):
    """A timestamp is outside what message.timestamp.before.max.ms and .after.max.ms allow."""

    error_code = ErrorCode.INVALID_TIMESTAMP


class MessageTooLargeError(LogError):
    """A batch is larger than max.message.bytes, or has more records or uncompressed bytes than are taken."""

    error_code = ErrorCode.MESSAGE_TOO_LARGE


class RecordListTooLargeError(LogError):
    """The batches of one append are together larger than a segment (segment.bytes)."""

    error_code = ErrorCode.RECORD_LIST_TOO_LARGE


class OffsetOutOfRangeError(LogError):
    """No record can be at this offset: it is before the start of the log, or behind its end."""

    error_code = ErrorCode.OFFSET_OUT_OF_RANGE


class PolicyViolationError(LogError):
    """The topic's cleanup.policy does not allow this."""

    error_code = ErrorCode.POLICY_VIOLATION


class OutOfOrderSequenceError(LogError):
    """A batch of an idempotent producer does not follow the one before it."""

    error_code = ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER


class InvalidProducerEpochError(LogError):
    """A batch or a marker has an older epoch than the producer is known to have."""

    error_code = ErrorCode.INVALID_PRODUCER_EPOCH


class InvalidTxnStateError(LogError):
    """A producer with an open transaction wrote a batch that is not part of it."""

    error_code = ErrorCode.INVALID_TXN_STATE


class TransactionCoordinatorFencedError(LogError):
    """A marker comes from a coordinator that has been replaced."""

    error_code = ErrorCode.TRANSACTION_COORDINATOR_FENCED


class FencedLeaderEpochError(LogError):
    """An append comes from a leader that has been replaced."""

    error_code = ErrorCode.FENCED_LEADER_EPOCH


class InvalidLogConfigError(LogError, ValueError):
    """A topic's configuration has an unknown key, or a value that is not allowed."""

    error_code = ErrorCode.INVALID_CONFIG


class LogDirectoryError(LogError):
    """A data directory cannot be used as it is; the text says what is in the way."""

    error_code = ErrorCode.KAFKA_STORAGE_ERROR


class DirectoryLockedError(LogDirectoryError):
    """Another broker uses the data directory."""


def storage_error(action: str, path: str, error: OSError) -> StorageError:
    """Build the error for a failed call of the operating system.

    Args:
        action: what was tried, such as "appending 120 bytes".
        path: the file.
        error: what the system said.
    """
    reason = error.strerror or type(error).__name__
    return StorageError(f"{action} failed: {path}: {reason}")
