"""Stored batches tell what their producers did."""

import pytest

from groupsdk.broker.log.errors import CorruptLogError
from groupsdk.broker.log.producer_state import ProducerState
from groupsdk.broker.log.recovery import replay
from groupsdk.broker.log.scan import Stored
from groupsdk.wire.records.batch import read_header
from groupsdk.wire.records.control import build_marker
from groupsdk.wire.records.record import Record, build_batch, build_empty
from tests.broker.log.logs import batch, open_log


def control(key: bytes) -> bytes:
    """Builds a control batch of a producer."""
    return build_batch(
        [Record(0, 0, key, b"")],
        producer_id=5,
        producer_epoch=0,
        transactional=True,
        control=True,
    )


def stored(data: bytes) -> Stored:
    return Stored(read_header(data), 0, data, 0)


def test_replay_gives_the_state_that_the_appends_gave() -> None:
    # Invariant 17.
    log = open_log()
    for number in range(6):
        log.append_records([(b"k", b"v")], 5, producer_id=number % 3, producer_epoch=number // 3)
        if number % 2:
            log.append_marker(
                number % 3, number // 3, committed=False, coordinator_epoch=number, now_ms=5
            )
    state = ProducerState()
    aborted = [
        entry
        for segment in log.segments
        for each in segment.scan()
        for entry in replay(state, each, segment.path)
    ]
    assert aborted == log.aborted_transactions(0, 100)
    assert state._open == log.producers._open
    for producer_id, entry in log.producers.entries.items():
        found = state.entries[producer_id]
        assert (found.epoch, found.batches) == (entry.epoch, entry.batches)
        assert found.coordinator_epoch == entry.coordinator_epoch


def test_batch_without_producer_or_end_changes_no_producer_state() -> None:
    state = ProducerState()
    # a control record of a kind that is not known
    other = control(b"\0\0\0\7")
    for data in (batch(b"a"), other):
        assert replay(state, stored(data), "f") == []
    assert not state.entries


def test_compacted_marker_still_tells_the_epoch() -> None:
    state = ProducerState()
    marker = build_marker(5, 7, committed=False, coordinator_epoch=3, timestamp_ms=0)
    assert replay(state, stored(build_empty(read_header(marker))), "f") == []
    assert (state.entries[5].epoch, state.entries[5].coordinator_epoch) == (7, -1)
    replay(state, stored(marker), "f")
    replay(state, stored(build_empty(read_header(marker))), "f")
    assert state.entries[5].coordinator_epoch == 3


def test_a_control_record_that_cannot_be_read_is_damage() -> None:
    bad = control(b"\0")
    with pytest.raises(CorruptLogError, match="f: at byte 0"):
        replay(ProducerState(), stored(bad), "f")
