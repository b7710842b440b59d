"""Compaction: a reader who starts at the beginning ends up with the same table, at every point of it."""

import pytest
from hypothesis import given, settings, strategies as st

from groupsdk.broker.log.cleaner import CleanedTransactions, Cleaner, cleanable_range, is_due
from groupsdk.broker.log.errors import CorruptLogError, StorageError
from groupsdk.broker.log.files import MemoryFiles
from groupsdk.broker.log.indexes import AbortedTxn
from groupsdk.broker.log.partition_log import PartitionLog
from groupsdk.broker.settings.topic import LogConfig
from groupsdk.wire.records.batch import BatchHeader, batches, place, read_header
from groupsdk.wire.records.control import Marker, build_marker, read_marker
from groupsdk.wire.records.record import Record, build_batch, build_empty
from tests.broker.log.logs import (
    COMPACT,
    DIRECTORY,
    NOW_MS,
    Countdown,
    PowerLossError,
    batch,
    open_log,
    read_all,
    reopen_clean,
    replayed,
)


KEYS = (b"a", b"b", b"c" * 40)
OPERATIONS = st.lists(
    st.one_of(
        st.tuples(st.just("put"), st.sampled_from(KEYS), st.integers(0, 9)),
        st.tuples(st.just("many"), st.sampled_from(KEYS), st.integers(1, 5)),
        st.tuples(st.just("tombstone"), st.sampled_from(KEYS), st.just(0)),
        st.tuples(st.just("begin"), st.sampled_from(KEYS), st.integers(1, 2)),
        st.tuples(st.just("commit"), st.just(b""), st.integers(1, 2)),
        st.tuples(st.just("abort"), st.just(b""), st.integers(1, 2)),
        st.tuples(st.just("compact"), st.just(b""), st.integers(0, 3)),
        st.tuples(st.just("roll"), st.just(b""), st.just(0)),
        st.tuples(st.just("reopen"), st.just(b""), st.integers(0, 1)),
    ),
    max_size=40,
)


def headers(log: PartitionLog) -> list[BatchHeader]:
    return [stored.header for segment in log.segments for stored in segment.scan()]


class Run:
    """Does to a log that is compacted, and to one that is not, the same."""

    def __init__(self) -> None:
        self.log = open_log(config=COMPACT)
        self.plain = open_log(config=COMPACT)
        self.now_ms = NOW_MS
        self.value = 0

    def both(self, data: bytes) -> None:
        for log in (self.log, self.plain):
            log.append(data, now_ms=self.now_ms)

    def do(self, name: str, key: bytes, number: int) -> None:
        self.value += 1
        value = b"%d" % self.value
        now_ms = self.now_ms
        match name:
            case "put":
                self.both(batch(value, key=key, timestamp=now_ms - number))
            case "many":
                self.both(batch(*[value] * number, key=key, timestamp=now_ms, compression=1))
            case "tombstone":
                self.both(batch(None, key=key, timestamp=now_ms))
            case "begin":
                for log in (self.log, self.plain):
                    log.append_records([(key, value)], now_ms, producer_id=number, producer_epoch=0)
            case "commit" | "abort":
                for log in (self.log, self.plain):
                    log.append_marker(
                        *(number, 0),
                        committed=name == "commit",
                        coordinator_epoch=0,
                        now_ms=now_ms,
                    )
            case "compact":
                self.now_ms += 700 * number
                self.log.compact(self.now_ms)
            case "roll":
                self.log.roll(now_ms)
            case _:
                log = self.log
                self.log = reopen_clean(log) if number else open_log(log.files, COMPACT)

    def check(self) -> None:
        log, plain = self.log, self.plain
        assert log.log_end_offset == plain.log_end_offset
        assert log.last_stable_offset == plain.last_stable_offset
        assert log.log_start_offset == 0
        compacted, whole = read_all(log, committed=True), read_all(plain, committed=True)
        assert replayed(compacted) == replayed(whole)
        assert set(compacted) <= set(whole)
        # a reader who stopped anywhere and goes on later sees the end of every key
        half = log.log_end_offset // 2
        seen = [record for record in whole if record.offset < half]
        rest = [record for record in compacted if record.offset >= half]
        if self.now_ms == NOW_MS:  # within delete.retention.ms
            assert replayed([*seen, *rest]) == replayed(whole)
        for producer_id, entry in plain.producers.entries.items():
            assert log.producers.entries[producer_id].epoch == entry.epoch


@settings(max_examples=100, deadline=None)
@given(OPERATIONS)
def test_replay_of_the_compacted_log_is_replay_of_the_whole(
    operations: list[tuple[str, bytes, int]],
) -> None:
    # Invariant 18.
    run = Run()
    for operation in operations:
        run.do(*operation)
        run.check()
    run.log.roll(run.now_ms)
    run.log.compact(run.now_ms)
    run.check()
    for _ in range(2):
        run.now_ms += 2_000
        run.log.roll(run.now_ms)
        run.log.append(batch(b"last", key=b"z", timestamp=run.now_ms), now_ms=run.now_ms)
        run.plain.append(batch(b"last", key=b"z", timestamp=run.now_ms), now_ms=run.now_ms)
        run.log.roll(run.now_ms)
        run.log.compact(run.now_ms)
        run.check()


def filled(files: MemoryFiles | None = None, config: LogConfig = COMPACT) -> PartitionLog:
    """Makes a log of three keys, each written ten times, and an empty last segment."""
    log = open_log(files, config)
    for number in range(30):
        log.append(batch(b"%d" % number, key=KEYS[number % 3]), now_ms=NOW_MS)
    log.roll(NOW_MS)
    return log


def test_one_value_of_each_key_is_left_at_its_offset() -> None:
    log = filled()
    size = log.size
    log.compact(NOW_MS)
    assert [(each.offset, each.key) for each in read_all(log)] == [
        (27, KEYS[0]),
        (28, KEYS[1]),
        (29, KEYS[2]),
    ]
    assert log.size < size // 5
    assert log.cleaned_offset == 30
    assert (log.log_start_offset, log.log_end_offset) == (0, 30)
    assert not is_due(log, NOW_MS)


def test_tombstones_stay_for_a_while() -> None:
    log = open_log(config=COMPACT)
    log.append(batch(b"1", key=b"a"), now_ms=NOW_MS)
    log.append(batch(None, key=b"a"), now_ms=NOW_MS)
    log.append(batch(b"2", key=b"b"), now_ms=NOW_MS)

    def compact(now_ms: int) -> list[tuple[bytes | None, bytes | None]]:
        log.roll(now_ms)
        log.compact(now_ms)
        log.append(batch(b"x", key=b"z", timestamp=now_ms), now_ms=now_ms)
        return [(each.key, each.value) for each in read_all(log) if each.key != b"z"]

    assert compact(NOW_MS) == [(b"a", None), (b"b", b"2")]
    (horizon,) = [each.base_timestamp for each in headers(log) if each.has_delete_horizon]
    assert horizon == NOW_MS + COMPACT.delete_retention_ms
    assert compact(horizon - 1) == [(b"a", None), (b"b", b"2")]
    assert compact(horizon) == [(b"b", b"2")]
    assert read_all(log)[0].timestamp == NOW_MS


def test_a_horizon_stays_when_its_batch_is_written_again() -> None:
    log = open_log(config=COMPACT)
    both = build_batch([Record(0, NOW_MS, b"a", None), Record(1, NOW_MS, b"b", None)])
    log.append(both, now_ms=NOW_MS)
    log.roll(NOW_MS)
    log.compact(NOW_MS)
    (horizon,) = [each.base_timestamp for each in headers(log) if each.has_delete_horizon]
    log.append(batch(b"2", key=b"b"), now_ms=NOW_MS)

    def compact(now_ms: int) -> list[bytes | None]:
        log.roll(now_ms)
        log.compact(now_ms)
        log.append(batch(b"x", key=b"z"), now_ms=now_ms)
        return [each.key for each in read_all(log) if each.key != b"z"]

    # one of the two tombstones is replaced, and its batch written anew without it
    for now_ms in (NOW_MS + 1, horizon - 1):
        assert compact(now_ms) == [b"a", b"b"]
        kept = [each for each in headers(log) if each.has_delete_horizon]
        assert [(each.base_timestamp, each.records_count) for each in kept] == [(horizon, 1)]
    assert compact(horizon) == [b"b"]


def test_a_marker_goes_at_its_horizon_and_not_before() -> None:
    log = open_log(config=COMPACT)
    log.append_records([(b"k", b"v")], NOW_MS, producer_id=1, producer_epoch=0)
    log.append_marker(1, 0, committed=False, coordinator_epoch=0, now_ms=NOW_MS)
    # so that it is not its producer's last batch, which keeps a header
    log.append_records([(b"k", b"w")], NOW_MS, producer_id=1, producer_epoch=0)
    log.append_marker(1, 0, committed=True, coordinator_epoch=0, now_ms=NOW_MS)

    def markers(now_ms: int) -> list[tuple[int, int]]:
        log.append(batch(b"x", key=b"z"), now_ms=now_ms)
        log.roll(now_ms)
        log.compact(now_ms)
        return [(each.base_offset, each.records_count) for each in headers(log) if each.is_control]

    # the first time its data goes, the next time it is noted that none is left
    assert markers(NOW_MS) == [(1, 1), (3, 1)]
    assert markers(NOW_MS) == [(1, 1), (3, 1)]
    noted = [each for each in headers(log) if each.is_control and each.has_delete_horizon]
    assert [each.base_timestamp for each in noted] == [NOW_MS + COMPACT.delete_retention_ms]
    horizon = noted[0].base_timestamp
    assert markers(horizon - 1)[0] == (1, 1)
    assert (1, 1) not in markers(horizon)


def test_aborted_data_goes_and_markers_follow() -> None:
    log = open_log(config=COMPACT)
    for committed in (True, False):
        producer_id = 1 + committed
        log.append_records(
            [(b"k%d" % committed, b"v")], NOW_MS, producer_id=producer_id, producer_epoch=0
        )
        log.append_marker(producer_id, 0, committed=committed, coordinator_epoch=0, now_ms=NOW_MS)
    log.roll(NOW_MS)
    log.compact(NOW_MS)

    kept = headers(log)
    # the data of the aborted one is gone, its producer's last batch keeps a header
    assert [(each.base_offset, each.is_control, each.records_count) for each in kept] == [
        (0, False, 1),
        (1, True, 1),
        (2, False, 0),
        (3, True, 1),
    ]
    assert [each.key for each in read_all(log, committed=True)] == [b"k1"]


def test_nothing_open_or_new_is_touched() -> None:
    log = filled()
    log.append_records([(KEYS[0], b"open")], NOW_MS, producer_id=5, producer_epoch=0)
    log.roll(NOW_MS)
    assert cleanable_range(log, NOW_MS).stop == 30
    log.config = LogConfig(
        cleanup_policy=("compact",), segment_bytes=600, min_compaction_lag_ms=1_000
    )
    assert cleanable_range(log, NOW_MS + 999).stop == 0
    assert cleanable_range(log, NOW_MS + 1000).stop == 30


def test_compaction_is_due_by_share_and_by_age() -> None:
    log = filled()
    assert is_due(log, NOW_MS)
    log.compact(NOW_MS)
    log.append(batch(b"x", key=b"a"), now_ms=NOW_MS)
    log.roll(NOW_MS)
    assert not is_due(log, NOW_MS)
    log.config = LogConfig(
        cleanup_policy=("compact",),
        segment_bytes=600,
        max_compaction_lag_ms=5_000,
        min_cleanable_dirty_ratio=1,
    )
    assert not is_due(log, NOW_MS + 5_000)
    assert is_due(log, NOW_MS + 5_001)
    log.config = LogConfig()
    assert not is_due(log, NOW_MS + 5_001)


def test_more_keys_than_fit_take_several_runs() -> None:
    log = open_log(config=COMPACT)
    for number in range(40):
        log.append(batch(b"%d" % number, key=b"%d" % (number % 20)), now_ms=NOW_MS)
    log.roll(NOW_MS)
    whole = replayed(read_all(log))
    runs = 0
    while log.cleaned_offset < 40:
        for _ in Cleaner(log, NOW_MS, max_keys=7).run():
            pass
        assert replayed(read_all(log)) == whole
        runs += 1
    assert runs == 6
    assert len(read_all(log)) == 20


def test_appends_and_removals_may_come_between_the_steps(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("groupsdk.broker.log.cleaner._STEP_BYTES", 100)
    log = filled(config=LogConfig(cleanup_policy=("compact", "delete"), segment_bytes=600))
    steps = 0
    for _ in log.compaction(NOW_MS):
        log.append(batch(b"new%d" % steps, key=KEYS[0]), now_ms=NOW_MS)
        steps += 1
    assert steps > 20
    assert replayed(read_all(log))[KEYS[0]] == b"new%d" % (steps - 1)

    log = filled(config=LogConfig(cleanup_policy=("compact", "delete"), segment_bytes=600))
    for number, _ in enumerate(log.compaction(NOW_MS)):
        if number == 35:
            log.delete_records(15)
    assert log.log_start_offset == 15
    assert replayed(read_all(log)) == {KEYS[0]: b"27", KEYS[1]: b"28", KEYS[2]: b"29"}
    assert not any("cleaned" in name for name in log.files.names(DIRECTORY))


def test_a_step_of_compaction_scans_at_most_some_kilobytes() -> None:
    log = open_log(config=LogConfig(cleanup_policy=("compact",)))
    for number in range(2_000):
        log.append(batch(b"v" * 100, key=KEYS[number % 3]), now_ms=NOW_MS)
    log.roll(NOW_MS)
    size = log.size
    steps = sum(1 for _ in log.compaction(NOW_MS))
    # each byte is scanned twice: for the map of keys, and to copy what is kept
    assert steps > 2 * size / 5_000


def test_dropping_the_iterator_leaves_nothing_behind(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("groupsdk.broker.log.cleaner._STEP_BYTES", 100)
    monkeypatch.setattr("groupsdk.broker.log.cleaner._WRITE_BYTES", 100)
    log = filled()
    whole = replayed(read_all(log))
    steps = log.compaction(NOW_MS)
    while not any("cleaned" in name for name in log.files.names(DIRECTORY)):
        next(steps)
    del steps
    assert not any("cleaned" in name for name in log.files.names(DIRECTORY))
    assert replayed(read_all(log)) == whole


@pytest.mark.parametrize("kind", ["crash", "kill"])
def test_a_crash_at_any_call_leaves_one_or_the_other(kind: str) -> None:
    for calls in range(500):
        files = MemoryFiles()
        log = filled(files)
        log.flush()
        whole = read_all(log)
        files.before = Countdown(calls)
        try:
            log.compact(NOW_MS)
        except PowerLossError:
            files.before = None
            files.crash() if kind == "crash" else files.kill()
            again = open_log(files, COMPACT)
            assert again.log_end_offset == 30
            assert replayed(read_all(again)) == replayed(whole)
            assert set(read_all(again)) <= set(whole)
            assert not any(name.endswith((".cleaned", ".swap")) for name in files.names(DIRECTORY))
            again.roll(NOW_MS)
            again.compact(NOW_MS)
            assert len(read_all(again)) == 3
        else:
            assert calls > 20
            return
    pytest.fail("compaction never came to an end")


def test_a_full_disk_leaves_the_log_as_it_was() -> None:
    for writes in range(20):
        files = MemoryFiles()
        log = filled(files)
        whole = replayed(read_all(log))
        left = writes

        def fill(call: str, path: str) -> None:
            nonlocal left
            if call == "write" and "cleaned" in path:
                left -= 1
                if left < 0:
                    raise OSError(28, "No space left on device", path)

        files.before = fill
        try:
            log.compact(NOW_MS)
        except StorageError as error:
            problem = str(error)
        else:
            break
        assert "No space left on device" in problem
        assert not any("cleaned" in name for name in files.names(DIRECTORY))
        assert replayed(read_all(log)) == whole
        files.before = None
        log.compact(NOW_MS)
        assert len(read_all(log)) == 3
    assert writes > 5


def test_a_damaged_batch_ends_it() -> None:
    files = MemoryFiles()
    log = filled(files)
    files.write(log.segments[1].path, 65, b"\xff")
    with pytest.raises(CorruptLogError, match="at byte 0"):
        log.compact(NOW_MS)
    assert len(log.segments) > 3
    assert not any("cleaned" in name for name in files.names(DIRECTORY))


def test_the_sequence_of_a_producer_goes_on() -> None:
    log = open_log(config=COMPACT)
    log.append(batch(b"1", key=b"a", producer=(5, 0), sequence=0), now_ms=NOW_MS)
    log.append(batch(b"2", key=b"a"), now_ms=NOW_MS)
    log.roll(NOW_MS)
    log.compact(NOW_MS)
    (first, *_), data = headers(log), log.read(0, 1000).data
    assert (first.producer_id, first.last_sequence, first.records_count) == (5, 0, 0)
    assert len(list(batches(data))) == 2
    again = open_log(log.files, COMPACT)
    assert again.producers.entries[5].last_sequence == 0
    again.append(batch(b"3", key=b"a", producer=(5, 0), sequence=1), now_ms=NOW_MS)


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
