"""Learn from stored batches what a partition knows of its producers (Kafka: UnifiedLog.rebuildProducerState)."""

from groupsdk.broker.log.producer_state import Origin, ProducerState, Update
from groupsdk.broker.log.scan import Stored, corrupt
from groupsdk.broker.log.txn_index import AbortedTxn
from groupsdk.errors import DecodeError
from groupsdk.wire.records.control import Marker, read_marker


def replay(state: ProducerState, stored: Stored, path: str) -> list[AbortedTxn]:
    """Apply one batch of the log; returns the transactions that it aborts.

    Args:
        state: what was known up to this batch.
        stored: the batch.
        path: the file it is in, for errors.

    Raises:
        CorruptLogError: a control batch cannot be read.
    """
    header = stored.header
    if header.producer_id < 0:
        return []
    update = Update(state, Origin.REPLAY)
    if not header.is_control:
        update.add(header, header.base_offset)
        return state.commit(update)
    try:
        marker = read_marker(stored.data, stored.at)
    except DecodeError as error:
        raise corrupt(path, stored.position, error) from error
    if marker is None:
        if header.records_count:
            return []
        # compaction left the header alone, which still tells of the producer's epoch
        known = state.entries.get(header.producer_id)
        marker = Marker(
            *(header.base_offset, header.producer_id, header.producer_epoch),
            committed=True,
            coordinator_epoch=-1 if known is None else known.coordinator_epoch,
            timestamp=header.max_timestamp,
        )
    update.end(marker, header.base_offset)
    return state.commit(update)
