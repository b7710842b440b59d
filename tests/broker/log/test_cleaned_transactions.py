"""Which batches and markers compaction may drop, transaction by transaction."""

from groupsdk.broker.log.cleaner import CleanedTransactions
from groupsdk.broker.log.indexes import AbortedTxn
from groupsdk.wire.records.batch import BatchHeader, place, read_header
from groupsdk.wire.records.control import Marker, build_marker, read_marker
from groupsdk.wire.records.record import build_empty
from tests.broker.log.logs import batch


def data(pid: int, offset: int, *, transactional: bool = True) -> BatchHeader:
    made = bytearray(batch(b"v", producer=(pid, 0), sequence=0, transactional=transactional))
    place(made, offset, 0)
    return read_header(made)


def end(pid: int, offset: int, *, committed: bool) -> tuple[BatchHeader, Marker | None]:
    made = build_marker(
        pid, 0, committed=committed, coordinator_epoch=0, timestamp_ms=0, base_offset=offset
    )
    return read_header(made), read_marker(made)


def test_data_of_aborted_transactions_goes_and_their_markers_stay_with_it() -> None:
    seen = CleanedTransactions()
    aborted = AbortedTxn(1, 0, 4, 5)
    seen.add_aborted([aborted])
    assert seen.discard_data(data(1, 0))
    assert not seen.discard_data(data(2, 1))
    assert not seen.discard_data(data(1, 2, transactional=False))
    assert seen.discard_data(data(1, 3))
    assert not seen.discard_marker(*end(1, 4, committed=False))
    assert not seen.discard_marker(*end(2, 5, committed=True))
    assert seen.kept == [aborted]
    # the producer's next transaction is another one
    assert not seen.discard_data(data(1, 6))
    assert not seen.discard_marker(*end(1, 7, committed=True))


def test_markers_without_data_may_go() -> None:
    seen = CleanedTransactions()
    seen.add_aborted([AbortedTxn(1, 0, 4, 5)])
    assert seen.discard_marker(*end(1, 4, committed=False))
    assert seen.discard_marker(*end(1, 5, committed=False))
    assert seen.discard_marker(*end(2, 6, committed=True))
    assert seen.kept == []
    header, _ = end(3, 7, committed=True)
    assert seen.discard_marker(read_header(build_empty(header)), None)
    assert not seen.discard_marker(header, None)  # of a kind that we do not know
