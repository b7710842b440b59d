"""Write a transactional id into a record of `__transaction_state`, and read it back."""

from collections import defaultdict
from collections.abc import Iterable, Iterator
from typing import Final

from groupsdk.broker.runtime.contract import CoordinatorRecord
from groupsdk.broker.transactions.metadata import TransactionMetadata
from groupsdk.broker.transactions.state import STORED, TransactionState
from groupsdk.errors import DecodeError
from groupsdk.wire.coordinator_records.transaction_log import (
    TAGGED_VERSION,
    PartitionsSchema,
    TransactionLogKey,
    TransactionLogValue,
    read_key,
    read_value,
    write,
)


_STATES: Final = {int(state): state for state in STORED}


def write_metadata(metadata: TransactionMetadata, transaction_version: int) -> CoordinatorRecord:
    """Encode what is known of a transactional id.

    As in Kafka 4.1 the last epoch and the previous and next producer ids are left out.

    Args:
        metadata: what is known.
        transaction_version: the coordinator's feature; below 1 no flexible value is written.
    """
    empty = metadata.state is TransactionState.EMPTY
    flexible = transaction_version >= TAGGED_VERSION
    value = TransactionLogValue(
        producer_id=metadata.producer_id,
        producer_epoch=metadata.producer_epoch,
        transaction_timeout_ms=metadata.timeout_ms,
        transaction_status=int(metadata.state),
        transaction_partitions=None if empty else tuple(_topics(metadata.partitions)),
        transaction_last_update_timestamp_ms=metadata.last_update_ms,
        transaction_start_timestamp_ms=metadata.start_ms,
        client_transaction_version=metadata.client_transaction_version if flexible else 0,
    )
    version = TAGGED_VERSION if flexible else 0
    return CoordinatorRecord(*write(TransactionLogKey(metadata.transactional_id), value, version))


def write_tombstone(transactional_id: str) -> CoordinatorRecord:
    """Encode that a transactional id is forgotten."""
    return CoordinatorRecord(*write(TransactionLogKey(transactional_id), None))


def read_transactional_id(record: CoordinatorRecord) -> str | None:
    """Decode whose record it is; None: a record type of a newer broker, to be skipped.

    Raises:
        DecodeError: the key cannot be read.
    """
    key = read_key(record.key)
    return None if key is None else key.transactional_id


def read_metadata(record: CoordinatorRecord) -> TransactionMetadata | None:
    """Decode what is known of a transactional id; None for a tombstone.

    Raises:
        DecodeError: the record cannot be read, or its state is none that is stored.
    """
    key = read_key(record.key)
    if key is None:
        raise DecodeError("the record is not one of a transactional id")
    value = read_value(key, record.value)
    if value is None:
        return None
    state = _STATES.get(value.transaction_status)
    if state is None:
        raise DecodeError(
            f"the record of transactional id {key.transactional_id!r} has the status"
            f" {value.transaction_status}; 0 to 5 are stored"
        )
    return TransactionMetadata(
        transactional_id=key.transactional_id,
        producer_id=value.producer_id,
        producer_epoch=value.producer_epoch,
        timeout_ms=value.transaction_timeout_ms,
        state=state,
        last_update_ms=value.transaction_last_update_timestamp_ms,
        partitions=frozenset(
            (topic.topic, partition)
            for topic in value.transaction_partitions or ()
            for partition in topic.partition_ids
        ),
        start_ms=value.transaction_start_timestamp_ms,
        client_transaction_version=value.client_transaction_version,
        previous_producer_id=value.previous_producer_id,
        next_producer_id=value.next_producer_id,
    )


def by_topic(partitions: Iterable[tuple[str, int]]) -> Iterator[tuple[str, tuple[int, ...]]]:
    """Group partitions by their topic, both sorted."""
    topics: defaultdict[str, list[int]] = defaultdict(list)
    for topic, partition in partitions:
        topics[topic].append(partition)
    for topic in sorted(topics):
        yield topic, tuple(sorted(topics[topic]))


def _topics(partitions: frozenset[tuple[str, int]]) -> Iterator[PartitionsSchema]:
    for topic, partition_ids in by_topic(partitions):
        yield PartitionsSchema(topic, partition_ids)
