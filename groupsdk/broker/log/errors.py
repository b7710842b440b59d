"""The errors of a partition's log."""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import ClassVar, NamedTuple

from groupsdk.error_code import ErrorCode
from groupsdk.errors import GroupSdkError


class LogError(GroupSdkError):
    """Base class of the errors of a log; `error_code` is the code sent to clients."""

    error_code: ClassVar[ErrorCode] = ErrorCode.UNKNOWN_SERVER_ERROR


class StorageError(LogError):
    """The disk failed or is full; the log is unchanged, and a later append may succeed."""

    error_code = ErrorCode.KAFKA_STORAGE_ERROR
    retriable = True


class CorruptLogError(LogError):
    """A stored batch is corrupt; the message names the file and the position. Such a batch is never served."""

    error_code = ErrorCode.CORRUPT_MESSAGE


class CorruptMessageError(LogError):
    """A batch to append is corrupt."""

    error_code = ErrorCode.CORRUPT_MESSAGE


class BadCompressionError(LogError):
    """The records of a batch to append cannot be decompressed; Kafka has no error code for this."""


class RecordProblem(NamedTuple):
    """The error of one record because of which its batch was rejected (KIP-467)."""

    number: int
    """The index of the record within its batch, from 0."""
    text: str
    """The message for the client."""


class RecordsRefusedError(LogError):
    """Some records of a batch, or the batch as such, are invalid, so it was rejected; names at most 100 problems."""

    def __init__(self, text: str, problems: tuple[RecordProblem, ...] = ()) -> None:
        super().__init__(text)
        self.problems = problems


class InvalidRecordError(RecordsRefusedError):
    """A batch to append has content that its origin may not write, or no records."""

    error_code = ErrorCode.INVALID_RECORD


class UnsupportedFormatError(LogError):
    """A batch to append does not have message format 2."""

    error_code = ErrorCode.UNSUPPORTED_FOR_MESSAGE_FORMAT


class InvalidTimestampError(RecordsRefusedError):
    """A timestamp is outside the range of message.timestamp.before.max.ms and .after.max.ms."""

    error_code = ErrorCode.INVALID_TIMESTAMP


class MessageTooLargeError(LogError):
    """A batch is larger than max.message.bytes, or has too many records or uncompressed bytes."""

    error_code = ErrorCode.MESSAGE_TOO_LARGE


class RecordListTooLargeError(LogError):
    """The batches of one append are together larger than a segment (segment.bytes)."""

    error_code = ErrorCode.RECORD_LIST_TOO_LARGE


class OffsetOutOfRangeError(LogError):
    """The offset is before the start of the log, or after its end."""

    error_code = ErrorCode.OFFSET_OUT_OF_RANGE


class PolicyViolationError(LogError):
    """The topic's cleanup.policy does not allow this."""

    error_code = ErrorCode.POLICY_VIOLATION


class OutOfOrderSequenceError(LogError):
    """A batch of an idempotent producer does not follow the one before it."""

    error_code = ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER


class InvalidProducerEpochError(LogError):
    """A batch or a marker has an older epoch than its producer's current one."""

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


class LogDirectoryError(LogError):
    """A data directory cannot be used; the message says why."""

    error_code = ErrorCode.KAFKA_STORAGE_ERROR


class DirectoryLockedError(LogDirectoryError):
    """Another broker uses the data directory."""


def storage_error(action: str, path: str, error: OSError) -> StorageError:
    """Build the error for a failed call of the operating system."""
    reason = error.strerror or type(error).__name__
    return StorageError(f"{action} failed: {path}: {reason}")


@contextmanager
def storage_errors(action: str, path: str) -> Iterator[None]:
    """Raise a StorageError for a call of the operating system that fails within the `with` block."""
    try:
        yield
    except OSError as error:
        raise storage_error(action, path, error) from error
