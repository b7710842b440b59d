"""A partition's log against a simple model of it, whatever is done to it in whatever order."""

from dataclasses import dataclass, field

import pytest
from hypothesis import given, settings, strategies as st

from groupsdk.broker.log.errors import (
    FencedLeaderEpochError,
    InvalidProducerEpochError,
    InvalidRecordError,
    InvalidTxnStateError,
    LogError,
    MessageTooLargeError,
    OffsetOutOfRangeError,
    OutOfOrderSequenceError,
    PolicyViolationError,
    TransactionCoordinatorFencedError,
)
from groupsdk.broker.log.files import MemoryFiles
from groupsdk.broker.log.partition_log import PartitionLog
from groupsdk.broker.log_manager import enforce_retention
from groupsdk.broker.settings.topic import LogConfig
from groupsdk.error_code import ErrorCode
from groupsdk.wire.records.batch import batches
from groupsdk.wire.records.record import read_records
from tests.broker.log.logs import (
    COMPACT,
    NOW_MS,
    SMALL,
    batch,
    open_log,
    pairs,
    read_all,
    reopen_clean,
)
from tests.support.steps import finished


PRODUCERS = (1, 2, 3)


@dataclass
class Model:
    """What a log should hold, said in the plainest way."""

    start: int = 0
    end: int = 0
    records: list[tuple[int, bytes, int, int]] = field(
        default_factory=list
    )  # offset, value, ms, pid
    open: dict[int, int] = field(default_factory=dict)  # producer id to first offset
    aborted: list[tuple[int, int, int]] = field(default_factory=list)  # pid, first, marker
    sequences: dict[int, int] = field(default_factory=dict)
    transactional: set[int] = field(default_factory=set)  # offsets

    @property
    def stable(self) -> int:
        return max(min(self.open.values(), default=self.end), self.start)

    def visible(self) -> list[tuple[int, bytes]]:
        return [(offset, value) for offset, value, _, _ in self.records if offset >= self.start]

    def committed(self) -> list[tuple[int, bytes]]:
        return [
            (offset, value)
            for offset, value, _, pid in self.records
            if self.start <= offset < self.stable
            and not (
                offset in self.transactional
                and any(p == pid and first <= offset < last for p, first, last in self.aborted)
            )
        ]


OPERATIONS = st.lists(
    st.one_of(
        st.tuples(st.just("append"), st.integers(1, 4), st.integers(0, 50)),
        st.tuples(st.just("produce"), st.sampled_from(PRODUCERS), st.integers(1, 3)),
        st.tuples(st.just("coordinate"), st.integers(1, 3), st.just(0)),
        st.tuples(st.just("transact"), st.sampled_from(PRODUCERS), st.integers(1, 3)),
        st.tuples(st.just("marker"), st.sampled_from(PRODUCERS), st.integers(0, 1)),
        st.tuples(st.just("delete"), st.integers(0, 10), st.just(0)),
        st.tuples(st.just("retain"), st.integers(0, 2000), st.just(0)),
        st.tuples(st.just("reopen"), st.just(0), st.just(0)),
        st.tuples(st.just("kill"), st.just(0), st.just(0)),
        st.tuples(st.just("epoch"), st.just(0), st.just(0)),
    ),
    max_size=30,
)


class Run:
    """Does to a log and to its model the same."""

    def __init__(self) -> None:
        self.log = open_log()
        self.model = Model()
        self.epoch = 0
        self.count = 0

    def values(self, count: int) -> list[bytes]:
        self.count += count
        return [b"v%d" % number for number in range(self.count - count, self.count)]

    def note(self, values: list[bytes], timestamp: int, pid: int, transactional: bool) -> None:
        for value in values:
            self.model.records.append((self.model.end, value, timestamp, pid))
            if transactional:
                self.model.transactional.add(self.model.end)
            self.model.end += 1

    def produce(self, pid: int, count: int, *, transactional: bool) -> None:
        if not transactional and pid in self.model.open:
            return
        values = self.values(count)
        sequence = self.model.sequences.get(pid, 0)
        self.model.sequences[pid] = sequence + count
        if transactional:
            self.model.open.setdefault(pid, self.model.end)
        data = batch(*values, producer=(pid, 0), sequence=sequence, transactional=transactional)
        for duplicate in (False, True):
            info = self.log.append(data, now_ms=NOW_MS, leader_epoch=self.epoch)
            assert info.duplicate is duplicate
            assert info.base_offset == self.model.end
        self.note(values, NOW_MS, pid, transactional)

    def marker(self, pid: int, committed: bool) -> None:
        self.log.append_marker(
            pid,
            0,
            committed=committed,
            coordinator_epoch=0,
            now_ms=NOW_MS,
            leader_epoch=self.epoch,
        )
        first = self.model.open.pop(pid, None)
        if first is not None and not committed:
            self.model.aborted.append((pid, first, self.model.end))
        self.model.end += 1

    def do(self, name: str, first: int, second: int) -> None:
        log, model = self.log, self.model
        match name:
            case "append":
                values = self.values(first)
                timestamp = NOW_MS - 100 + second
                log.append(
                    batch(*values, timestamp=timestamp), now_ms=NOW_MS, leader_epoch=self.epoch
                )
                self.note(values, timestamp, -1, False)
            case "coordinate":
                values = self.values(first)
                log.append_records(
                    [(b"k", value) for value in values], NOW_MS, leader_epoch=self.epoch
                )
                self.note(values, NOW_MS, -1, False)
            case "produce" | "transact":
                self.produce(first, second, transactional=name == "transact")
            case "marker":
                self.marker(first, bool(second))
            case "delete":
                model.start = min(model.start + first, model.end)
                assert log.delete_records(model.start) == model.start
            case "retain":
                log.config = LogConfig(
                    segment_bytes=600, index_interval_bytes=100, retention_bytes=first
                )
                enforce_retention(log, NOW_MS)
                assert log.size - log.segments[0].size < first or len(log.segments) == 1
                model.start = max(model.start, log.log_start_offset)
            case "reopen":
                self.log = reopen_clean(log)
            case "kill":
                self.log = open_log(log.files, log.config, log_start_offset=log.log_start_offset)
            case "epoch":
                self.epoch += 1
            case _:
                raise AssertionError(name)

    def check(self) -> None:
        log, model = self.log, self.model
        assert (log.log_start_offset, log.log_end_offset) == (model.start, model.end)
        assert log.last_stable_offset == model.stable
        assert pairs(read_all(log)) == model.visible()
        assert pairs(read_all(log, committed=True)) == model.committed()
        assert list(log.bases) == sorted(log.bases)
        assert log.size == sum(log.files.size(each.path) for each in log.segments if each.size)


@settings(max_examples=100, deadline=None)
@given(OPERATIONS)
def test_a_log_does_what_the_model_does(operations: list[tuple[str, int, int]]) -> None:
    # Invariants 17 and 21, and the reads, on one replica.
    run = Run()
    for operation in operations:
        run.do(*operation)
        run.check()
    for timestamp in range(NOW_MS - 110, NOW_MS + 2, 7):
        found = finished(run.log.offset_for_timestamp(timestamp))
        expected = next(
            (
                offset
                for offset, _, ms, _ in run.model.records
                if ms >= timestamp and offset >= run.model.start
            ),
            None,
        )
        if found is None or expected is None:
            # markers have timestamps, too, and are found where no record is
            assert expected is None
        else:
            assert found.offset <= expected


def test_offsets_and_epochs_are_written_into_the_batches() -> None:
    log = open_log()
    log.append(batch(b"a", b"b"), now_ms=NOW_MS, leader_epoch=3)
    info = log.append(batch(b"c"), now_ms=NOW_MS, leader_epoch=4)

    read = log.read(0, 10_000)
    headers = [header for header, _ in batches(read.data)]
    assert [(h.base_offset, h.partition_leader_epoch) for h in headers] == [(0, 3), (2, 4)]
    assert info == (2, 2, -1, 0, False)
    assert (read.high_watermark, read.last_stable_offset, read.log_start_offset) == (3, 3, 0)
    assert log.end_offset_for_epoch(3, 4) == (3, 2)
    assert log.end_offset_for_epoch(4, 4) == (4, 3)
    assert log.end_offset_for_epoch(9, 4) == (-1, -1)
    assert log.leader_epoch == 4


def test_a_leader_that_was_replaced_may_not_append() -> None:
    log = open_log()
    log.append(batch(b"a"), now_ms=NOW_MS, leader_epoch=2)
    with pytest.raises(
        FencedLeaderEpochError, match="leader epoch 1 of an append is older than the current one, 2"
    ):
        log.append(batch(b"b"), now_ms=NOW_MS, leader_epoch=1)
    assert log.log_end_offset == 1


def test_several_batches_of_one_append_are_there_as_a_whole_or_not_at_all() -> None:
    log = open_log()
    first = batch(b"a", producer=(7, 0), sequence=0)
    with pytest.raises(OutOfOrderSequenceError):
        log.append(first + batch(b"b", producer=(7, 0), sequence=5), now_ms=NOW_MS)
    assert log.log_end_offset == 0
    assert not log.producers.entries

    log.append(first + batch(b"b", b"c", producer=(7, 0), sequence=1), now_ms=NOW_MS)
    assert pairs(read_all(log)) == [(0, b"a"), (1, b"b"), (2, b"c")]


def test_the_time_of_the_log_goes_into_every_record() -> None:
    config = LogConfig(message_timestamp_type="LogAppendTime")
    log = open_log(config=config)
    info = log.append(batch(b"a", b"b", timestamp=5), now_ms=NOW_MS)

    assert info.log_append_time_ms == NOW_MS
    assert [record.timestamp for record in read_all(log)] == [NOW_MS, NOW_MS]


def test_reads_are_bounded_but_give_one_batch() -> None:
    log = open_log(config=LogConfig())
    for value in (b"a" * 500, b"b" * 500):
        log.append(batch(value), now_ms=NOW_MS)

    (size,) = {header.size_in_bytes for header, _ in batches(log.read(0, 5000).data)}
    assert len(log.read(0, 10).data) == size
    assert log.read(0, 10, min_one=False).data == b""
    assert len(log.read(0, size + 10).data) == size + 10  # cut, as Kafka does
    assert log.read(2, 10).data == b""
    for offset in (-1, 3):
        with pytest.raises(OffsetOutOfRangeError, match="the log has offsets 0 to 2"):
            log.read(offset, 10)


def test_a_committed_read_stops_at_the_open_transaction() -> None:
    log = open_log()
    log.append(batch(b"a"), now_ms=NOW_MS)
    log.append(batch(b"b", producer=(5, 1), sequence=0, transactional=True), now_ms=NOW_MS)
    log.append(batch(b"c"), now_ms=NOW_MS)

    assert log.last_stable_offset == 1
    assert log.latest(0, committed=True).offset == 1
    assert pairs(read_all(log, committed=True)) == [(0, b"a")]
    assert log.read(1, 1000, committed=True).data == b""

    log.append_marker(5, 1, committed=False, coordinator_epoch=2, now_ms=NOW_MS)
    assert log.last_stable_offset == 4
    assert pairs(read_all(log, committed=True)) == [(0, b"a"), (2, b"c")]
    (aborted,) = log.read(0, 1000, committed=True).aborted
    assert aborted == (5, 1, 3, 4)
    assert log.read(0, 1000).aborted == ()


def test_markers_are_fenced_by_epoch_and_coordinator() -> None:
    log = open_log()
    log.append_records([(b"k", b"v")], NOW_MS, producer_id=5, producer_epoch=3)
    with pytest.raises(InvalidProducerEpochError):
        log.append_marker(5, 2, committed=True, coordinator_epoch=0, now_ms=NOW_MS)
    log.append_marker(5, 3, committed=True, coordinator_epoch=4, now_ms=NOW_MS)
    with pytest.raises(TransactionCoordinatorFencedError):
        log.append_marker(5, 3, committed=True, coordinator_epoch=3, now_ms=NOW_MS)
    assert log.log_end_offset == 2


def test_a_record_outside_the_open_transaction_is_refused() -> None:
    log = open_log()
    log.append(batch(b"a", producer=(5, 0), sequence=0, transactional=True), now_ms=NOW_MS)
    with pytest.raises(InvalidTxnStateError):
        log.append(batch(b"b", producer=(5, 0), sequence=1), now_ms=NOW_MS)


def test_errors_carry_the_code_for_the_client() -> None:
    log = open_log(config=COMPACT)
    with pytest.raises(LogError) as raised:
        log.append(b"nonsense", now_ms=NOW_MS)
    assert raised.value.error_code is ErrorCode.CORRUPT_MESSAGE
    with pytest.raises(InvalidRecordError, match="no records to append"):
        log.append_records([], NOW_MS)
    log.config = LogConfig(max_message_bytes=50)
    with pytest.raises(MessageTooLargeError, match=r"max\.message\.bytes=50"):
        log.append_records([(b"k", b"v")], NOW_MS)
    assert log.log_end_offset == 0


def test_records_are_deleted_up_to_an_offset() -> None:
    log = open_log()
    for number in range(20):
        log.append(batch(b"%d" % number), now_ms=NOW_MS)
    segments = len(log.segments)

    assert log.delete_records(13) == 13
    assert log.delete_records(5) == 13
    assert len(log.segments) < segments
    assert [offset for offset, _ in pairs(read_all(log))] == list(range(13, 20))
    with pytest.raises(OffsetOutOfRangeError):
        log.read(12, 100)
    for wrong in (21, -2):
        with pytest.raises(OffsetOutOfRangeError):
            log.delete_records(wrong)
    assert log.delete_records(-1) == 20
    assert log.earliest(0).offset == 20

    with pytest.raises(PolicyViolationError, match="compact"):
        open_log(config=COMPACT).delete_records(0)


def test_the_sequence_numbers_of_a_producer_are_checked() -> None:
    log = open_log()
    log.append(batch(b"a", producer=(1, 0), sequence=5), now_ms=NOW_MS)
    with pytest.raises(OutOfOrderSequenceError):
        log.append(batch(b"b", producer=(1, 0), sequence=9), now_ms=NOW_MS)
    with pytest.raises(OutOfOrderSequenceError, match="must have the sequence number 0, not 1"):
        log.append(
            batch(b"c", producer=(2, 0), sequence=1), now_ms=NOW_MS, first_sequence_zero=True
        )


def test_nothing_is_made_on_disk_before_the_first_append() -> None:
    files = MemoryFiles()
    log: PartitionLog = open_log(files, SMALL)
    assert files.names("data") == []
    assert read_all(log) == []
    log.close()
    assert files.names("data") == []
    log.append_records([(b"k", None)], NOW_MS)
    (record,) = read_records(log.read(0, 1000).data)
    assert (record.key, record.value) == (b"k", None)
