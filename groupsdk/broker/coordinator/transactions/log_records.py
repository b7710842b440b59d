"""Encode and decode the records of transactional ids in `__transaction_state`."""

import logging
from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
from typing import Final, NamedTuple

from groupsdk.broker.coordinator.transactions.metadata import (
    EPOCH_BUMP_VERSION,
    NO_PRODUCER_EPOCH,
    NO_PRODUCER_ID,
    STORED,
    TransactionMetadata,
    TransactionState,
)
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
from groupsdk.wire.records.pairs import Pair
from groupsdk.wire.twin import maker


logger = logging.getLogger(__name__)

_new_partitions = maker(PartitionsSchema)
_STATES: Final = {int(state): state for state in STORED}


class TransactionRecord(NamedTuple):
    """The record of a transactional id."""

    transactional_id: str
    metadata: TransactionMetadata | None
    """Its state, without fields that no record has; None: the id is removed."""
    transaction_version: int = EPOCH_BUMP_VERSION
    """The coordinator's feature; below 1 the value has no flexible fields."""

    def encoded(self) -> Sequence[Pair]:
        """Return its key and value in the format of the log.

        As in Kafka 4.1 the last epoch and the previous and next producer ids are left out.
        """
        key, metadata = TransactionLogKey(self.transactional_id), self.metadata
        if metadata is None:
            return (write(key, None),)
        empty = metadata.state is TransactionState.EMPTY
        value = TransactionLogValue(
            producer_id=metadata.producer_id,
            producer_epoch=metadata.producer_epoch,
            transaction_timeout_ms=metadata.timeout_ms,
            transaction_status=int(metadata.state),
            transaction_partitions=None if empty else tuple(_topics(metadata.partitions)),
            transaction_last_update_timestamp_ms=metadata.last_update_ms,
            transaction_start_timestamp_ms=metadata.start_ms,
            client_transaction_version=metadata.client_transaction_version,
        )
        flexible = self.transaction_version >= TAGGED_VERSION
        return (write(key, value, TAGGED_VERSION if flexible else 0),)


def transaction_record(
    metadata: TransactionMetadata, transaction_version: int
) -> TransactionRecord:
    """Return the record of a transactional id, with only the fields that the log has."""
    flexible = transaction_version >= TAGGED_VERSION
    logged = replace(
        metadata,
        client_transaction_version=metadata.client_transaction_version if flexible else 0,
        last_producer_epoch=NO_PRODUCER_EPOCH,
        previous_producer_id=NO_PRODUCER_ID,
        next_producer_id=NO_PRODUCER_ID,
    )
    return TransactionRecord(metadata.transactional_id, logged, transaction_version)


def decode(records: Iterable[Pair]) -> Iterator[TransactionRecord]:
    """Decode keys and values of `__transaction_state`; unknown record types are skipped, with a warning."""
    for key_data, value_data in records:
        key = read_key(key_data)
        if key is None:
            logger.warning("skipping a record of unknown type: its key is %s", key_data[:16].hex())
            continue
        value = read_value(key, value_data)
        metadata = None if value is None else _metadata(key.transactional_id, value)
        yield TransactionRecord(key.transactional_id, metadata)


def _metadata(transactional_id: str, value: TransactionLogValue) -> TransactionMetadata:
    state = _STATES.get(value.transaction_status)
    if state is None:
        raise DecodeError(
            f"the record of transactional id {transactional_id!r} has the status"
            f" {value.transaction_status}; it must be from 0 to 5"
        )
    return TransactionMetadata(
        transactional_id=transactional_id,
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
    """Yield each topic with its partitions, both sorted."""
    topics: defaultdict[str, list[int]] = defaultdict(list)
    for topic, partition in sorted(partitions):
        topics[topic].append(partition)
    for topic, found in topics.items():
        yield topic, tuple(found)


def _topics(partitions: frozenset[tuple[str, int]]) -> Iterator[PartitionsSchema]:
    for topic, partition_ids in by_topic(partitions):
        yield _new_partitions(topic, partition_ids)
