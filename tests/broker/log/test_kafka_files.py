"""Kafka's own tool reads our files, and we read a directory that Kafka wrote."""

import re
import shutil
import subprocess
from collections import Counter
from pathlib import Path

import pytest

from groupsdk.broker.log.files import DiskFiles
from groupsdk.broker.log.partition_log import PartitionLog
from groupsdk.broker.settings.topic import LogConfig
from groupsdk.limits import MAX_INT32
from groupsdk.testing import MissingToolError
from groupsdk.testing.jars import fetch
from groupsdk.testing.jvm import find_java
from groupsdk.wire.records.batch import batches
from tests.broker.log.logs import NOW_MS, batch, read_all
from tests.support.missing import lacking


RELEASE = "4.1.0"
SAMPLE = Path(__file__).parents[2] / "history/data"
_TIMEOUT_S = 120
_BATCH_LINE = re.compile(r"baseOffset: (\d+) lastOffset: (\d+) count: (\d+) .*position: (\d+) .*")


@pytest.fixture
def dump() -> list[str]:
    """The command that runs DumpLogSegments."""
    try:
        jars = fetch([f"org.apache.kafka:kafka_2.13:{RELEASE}"])
        java = find_java().java
    except MissingToolError as error:
        lacking(str(error))
    options = ["-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1", "-Xmx256m"]
    return [str(java), *options, "-cp", ":".join(map(str, jars)), "kafka.tools.DumpLogSegments"]


def run(command: list[str], paths: list[Path], *options: str) -> list[str]:
    """Runs the tool on files; whatever it complains about fails the test."""
    done = subprocess.run(
        [*command, *options, "--files", ",".join(map(str, paths))],
        capture_output=True,
        text=True,
        timeout=_TIMEOUT_S,
        check=False,
    )
    # gaps are what compaction leaves
    expected = re.compile(r"SLF4J|Non-consecutive offsets|\d+ is followed by \d+")
    complaints = [line for line in done.stderr.splitlines() if not expected.search(line)]
    assert done.returncode == 0, done.stdout + done.stderr
    assert not complaints
    return done.stdout.splitlines()


def written(directory: Path, config: LogConfig) -> PartitionLog:
    """Writes a log with everything that there is: compression, producers, transactions, epochs."""
    files = DiskFiles()
    files.make_directory(str(directory))
    log = PartitionLog.open(files, str(directory), config, NOW_MS)
    for number in range(60):
        now_ms, epoch = NOW_MS + number * 10, number // 20
        log.append(
            batch(
                b"x" * number,
                b"y",
                key=b"%d" % (number % 7),
                timestamp=now_ms,
                compression=number % 5,
            ),
            now_ms=now_ms,
            leader_epoch=epoch,
        )
        log.append(
            batch(b"p", key=b"p", timestamp=now_ms, producer=(3, 1), sequence=number),
            now_ms=now_ms,
            leader_epoch=epoch,
        )
        producer = 10 + number % 4
        log.append_records(
            [(b"t%d" % (number % 5), b"v" * number)],
            now_ms,
            producer_id=producer,
            producer_epoch=number // 10,
            leader_epoch=epoch,
        )
        if number % 3:
            log.append_marker(
                *(producer, number // 10),
                committed=number % 3 == 1,
                coordinator_epoch=2,
                now_ms=now_ms,
                leader_epoch=epoch,
            )
    return log


@pytest.mark.kafka
@pytest.mark.timeout(300)
@pytest.mark.parametrize("compacted", [False, True])
def test_dump_log_segments_agrees_with_every_file(
    compacted: bool, dump: list[str], tmp_path: Path
) -> None:
    policy = ("compact",) if compacted else ("delete",)
    config = LogConfig(
        cleanup_policy=policy,
        segment_bytes=4_000,
        index_interval_bytes=200,
        message_timestamp_after_max_ms=10**9,
    )
    log = written(tmp_path / "t-0", config)
    if compacted:
        # what stays open bounds what can be compacted
        for number in range(4):
            log.append_marker(
                10 + number, 50, committed=False, coordinator_epoch=3, now_ms=NOW_MS, leader_epoch=2
            )
        log.roll(NOW_MS)
        before = log.size
        log.compact(NOW_MS + 1_000)
        assert log.size < before
    log.close()
    directory = tmp_path / "t-0"
    logs = sorted(path for path in directory.glob("*.log") if path.stat().st_size)

    lines = run(dump, logs, "--deep-iteration")
    assert not any("isvalid: false" in line or "invalid bytes" in line for line in lines)
    found = [
        tuple(map(int, match.groups())) for line in lines if (match := _BATCH_LINE.match(line))
    ]
    assert found == [
        (h.base_offset, h.last_offset, h.records_count, stored.position)
        for segment in log.segments
        for stored in segment.scan()
        for h in (stored.header,)
    ]

    indexes = [path.with_suffix(suffix) for path in logs for suffix in (".index", ".timeindex")]
    entries = run(dump, indexes)
    assert sum(line.startswith("offset: ") for line in entries) > 5
    assert sum(line.startswith("timestamp: ") for line in entries) > 5
    checked = run(dump, indexes, "--index-sanity-check")
    assert sum("passed sanity check" in line for line in checked) >= len(logs)
    assert run(dump, indexes, "--verify-index-only")

    aborted = run(dump, sorted(directory.glob("*.txnindex")))
    assert [line for line in aborted if line.startswith("version")] == [
        f"version: 0 producerId: {each.producer_id} firstOffset: {each.first_offset}"
        f" lastOffset: {each.last_offset} lastStableOffset: {each.last_stable_offset}"
        for segment in log.segments
        for each in segment.txn_index._entries
    ]
    newest = directory / f"{log.log_end_offset:020d}.snapshot"
    producers = run(dump, sorted({newest, *directory.glob("*.snapshot")}))
    for producer_id, entry in log.producers.entries.items():
        first = "OptionalLong.empty"
        if entry.txn_first_offset is not None:
            first = f"OptionalLong[{entry.txn_first_offset}]"
        start = (
            f"producerId: {producer_id} producerEpoch: {entry.epoch} coordinatorEpoch:"
            f" {entry.coordinator_epoch} currentTxnFirstOffset: {first}"
            f" lastTimestamp: {entry.last_timestamp} "
        )
        if entry.batches:
            last = entry.batches[-1]
            first_sequence = last.first_sequence
            if first_sequence < 0:
                # a coordinator's batch has none, and the tool counts back over the wrap
                first_sequence = MAX_INT32 - last.offset_delta
            start += (
                f"firstSequence: {first_sequence} lastSequence: {last.last_sequence}"
                f" lastOffset: {last.last_offset} offsetDelta: {last.offset_delta}"
                f" timestamp: {last.timestamp}"
            )
        assert start in producers


def copied(partition: Path, into: Path) -> Path:
    """Copies what Kafka wrote, so that it can be opened and written to."""
    shutil.copytree(partition, into / partition.name)
    for path in (into / partition.name).iterdir():
        path.chmod(0o600)
    return into / partition.name


def test_a_directory_that_kafka_wrote_is_read_as_a_whole(tmp_path: Path) -> None:
    keys: Counter[str] = Counter()
    expected = {"__consumer_offsets-1": (0, 0), "__consumer_offsets-3": (0, 0)}
    partitions = sorted((SAMPLE / "segments").iterdir())
    assert [path.name for path in partitions] == sorted(expected)
    for partition in partitions:
        directory = copied(partition, tmp_path)
        config = LogConfig(cleanup_policy=("compact",), segment_bytes=104_857_600)
        log = PartitionLog.open(DiskFiles(), str(directory), config, NOW_MS)
        assert log.bases == sorted(int(path.stem) for path in partition.glob("*.log"))
        records = read_all(log, max_bytes=5_000)
        offsets = [record.offset for record in records]
        assert offsets == sorted(set(offsets))
        assert log.last_stable_offset == log.log_end_offset
        for record in records:
            assert record.key is not None
            keys[str(int.from_bytes(record.key[:2]))] += 1
        raw = b"".join(path.read_bytes() for path in sorted(partition.glob("*.log")))
        assert log.size == len(raw)
        stored = sum(len(list(batches(path.read_bytes()))) for path in partition.glob("*.log"))
        assert stored == sum(len(list(segment.scan())) for segment in log.segments)

        log.append_records([(b"\x00\x02\x00\x01g", None)], NOW_MS, leader_epoch=log.leader_epoch)
        log.close()
        again = PartitionLog.open(
            DiskFiles(),
            str(directory),
            config,
            NOW_MS,
            clean=True,
            recovery_point=log.log_end_offset,
        )
        assert read_all(again, max_bytes=5_000)[:-1] == records
    assert keys["1"] == 988
    assert keys["2"] == 19
    assert sum(keys[each] for each in ("3", "5", "6", "7", "8")) == 25
