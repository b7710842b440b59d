"""Learn from stored batches what a partition knows of its producers (Kafka: UnifiedLog.rebuildProducerState)."""

from groupsdk.broker.log.producer_state import Origin, ProducerState, Update
from groupsdk.broker.log.scan import Stored, corrupt
from groupsdk.broker.log.txn_index import AbortedTxn
from groupsdk.errors import DecodeError
from groupsdk.wire.records.control import read_marker


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
        return []
    update.end(marker, header.base_offset)
    return state.commit(update)
