"""Declare the records of `__transaction_state`, and read them."""

from dataclasses import dataclass
from typing import Annotated, Any, ClassVar, Final

from groupsdk.wire.coordinator_records import declaration
from groupsdk.wire.coordinator_records.declaration import (
    CoordinatorKey,
    CoordinatorValue,
    KeyClasses,
    RecordVersions,
)
from groupsdk.wire.schema import Int8, Int16, Int32, Int64, Struct, nullable, since, tagged


TAGGED_VERSION: Final = 1
"""The version to write from the feature transaction.version 1 on; 0 before."""


@dataclass(frozen=True, slots=True)
class PartitionsSchema(Struct):
    """The partitions of one topic that a transaction has written to, by number in `partition_ids`."""

    topic: str = ""
    partition_ids: tuple[Int32, ...] = ()


@dataclass(frozen=True, slots=True)
class TransactionLogValue(CoordinatorValue):
    """The state of one transactional id. Timestamps are in milliseconds since 1970, -1 for none.

    Kafka 4.1.0 reads `previous_producer_id` and `next_producer_id`, and writes neither them nor `next_producer_epoch`.
    `client_transaction_version` is the feature level that the client uses: 2 with KIP-890, otherwise 0 or 1.
    """

    api: ClassVar[Any] = RecordVersions(1, first_flexible=1, written=TAGGED_VERSION)

    producer_id: Int64 = 0
    previous_producer_id: Annotated[Int64, since(1), tagged(0)] = -1
    next_producer_id: Annotated[Int64, since(1), tagged(1)] = -1
    producer_epoch: Int16 = 0
    next_producer_epoch: Annotated[Int16, since(1), tagged(3)] = -1
    transaction_timeout_ms: Int32 = 0
    transaction_status: Int8 = 0
    """0 Empty, 1 Ongoing, 2 PrepareCommit, 3 PrepareAbort, 4 CompleteCommit, 5 CompleteAbort."""
    transaction_partitions: Annotated[tuple[PartitionsSchema, ...] | None, nullable()] = ()
    """None in the state Empty."""
    transaction_last_update_timestamp_ms: Int64 = 0
    transaction_start_timestamp_ms: Int64 = 0
    client_transaction_version: Annotated[Int16, since(1), tagged(2)] = 0


@dataclass(frozen=True, slots=True)
class TransactionLogKey(CoordinatorKey):
    """The key of a transactional id's state."""

    record_type: ClassVar[int] = 0
    value_class: ClassVar[type[CoordinatorValue]] = TransactionLogValue

    transactional_id: str = ""


KEYS: Final[KeyClasses] = {TransactionLogKey.record_type: TransactionLogKey}
"""The keys of `__transaction_state` by their record type."""


def read_key(data: bytes) -> TransactionLogKey | None:
    """Decode the bytes of a key of `__transaction_state`. Return None if its record type is unknown: skip it.

    Raises DecodeError if `data` is not a key.
    """
    key = declaration.read_key(KEYS, data)
    return key if isinstance(key, TransactionLogKey) else None


def read_value(key: TransactionLogKey, data: bytes | None) -> TransactionLogValue | None:
    """Decode the value of a record of `__transaction_state` with this `key`. Return None for a tombstone.

    Raises DecodeError if `data` is not such a value, or its version is unknown.
    """
    value = declaration.read_value(key, data)
    return value if isinstance(value, TransactionLogValue) else None


write = declaration.write
