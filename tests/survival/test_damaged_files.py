"""Tests a broker process on files that are not as it wrote them: found, said with file and position, never served."""

import random
from collections.abc import Iterator
from pathlib import Path
from typing import Final

import pytest

from groupsdk.error_code import ErrorCode
from groupsdk.wire.messages.fetch import FetchPartition, FetchRequest, FetchTopic
from groupsdk.wire.messages.offsets import (
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
    OffsetFetchRequest,
    OffsetFetchRequestTopic,
)
from groupsdk.wire.records.batch import batches
from groupsdk.wire.records.record import read_records
from tests.broker.clients import Client, batch, produce
from tests.support.cases import with_long
from tests.survival.load import committed_offset, read_all
from tests.survival.processes import BrokerProcess


_COUNT: Final = 200
_VALUES: Final = [b"value %d " % number * 5 for number in range(_COUNT)]
_FIRST: Final = f"{0:020}.log"


@pytest.fixture
def written(tmp_path: Path) -> Iterator[tuple[BrokerProcess, Path]]:
    """A broker that wrote records, and its data directory."""
    with BrokerProcess(tmp_path, topics=["t:1"]) as process:
        with process.connect() as client:
            for value in _VALUES:
                assert produce(client, "t", batch(value)).error_code == 0
        yield process, tmp_path


def damage(path: Path, seed: int) -> tuple[int, int]:
    """Flips one bit of a batch in the middle; returns the batch's number and position."""
    data = bytearray(path.read_bytes())
    starts = [position for _, position in batches(bytes(data))]
    chance = random.Random(seed)
    number = chance.randrange(20, len(starts) - 20)
    data[chance.randrange(starts[number], starts[number + 1])] ^= 1 << chance.randrange(8)
    path.write_bytes(data)
    return number, starts[number]


def fetch_from(client: Client, offset: int) -> tuple[int, dict[int, bytes]]:
    """Reads from an offset on; returns the error code and what came, by offset."""
    wanted = FetchPartition(0, fetch_offset=offset, partition_max_bytes=2**20)
    asked = FetchRequest(max_wait_ms=0, topics=(FetchTopic("t", partitions=(wanted,)),))
    (part,) = client.ask(asked, 11).responses[0].partitions
    found = {}
    data = part.records or b""
    for header, position in batches(data):
        for record in read_records(data[position : position + header.size_in_bytes]):
            found[record.offset] = record.value or b""
    return part.error_code, found


@pytest.mark.parametrize("seed", with_long(range(10), *range(5, 10)))
@pytest.mark.parametrize("clean", [True, False])
def test_a_flipped_bit_is_found_and_never_served(
    written: tuple[BrokerProcess, Path], seed: int, clean: bool
) -> None:
    process, data_dir = written
    log = data_dir / "t-0" / _FIRST
    if clean:
        assert process.stop() == 0
    else:
        process.kill()
    number, position = damage(log, seed)

    with BrokerProcess(data_dir) as again:
        with again.connect() as client:
            seen: dict[int, bytes] = {}
            for offset in range(_COUNT):
                code, found = fetch_from(client, offset)
                assert code in {0, ErrorCode.CORRUPT_MESSAGE, ErrorCode.OFFSET_OUT_OF_RANGE}, code
                seen |= found
            # what came is what was written at this offset, and all before the damage is there
            assert {offset: _VALUES[offset] for offset in seen} == seen
            assert seen.keys() >= set(range(number))
            assert number not in seen
            answer = produce(client, "t", batch(b"more"))
            assert answer.error_code == 0
            assert fetch_from(client, answer.base_offset) == (0, {answer.base_offset: b"more"})
        again.kill()
        said = again.log()
    assert f"{log}: at byte {position}: " in said, said


def test_a_torn_tail_is_cut_off_and_said(written: tuple[BrokerProcess, Path]) -> None:
    process, data_dir = written
    process.kill()
    log = data_dir / "t-0" / _FIRST
    data = log.read_bytes()
    last = [position for _, position in batches(data)][-1]
    log.write_bytes(data[:-7])

    with BrokerProcess(data_dir) as again:
        with again.connect() as client:
            assert read_all(client, "t") == dict(enumerate(_VALUES[:-1]))
            assert produce(client, "t", batch(b"more")).base_offset == _COUNT - 1
        again.kill()
        said = again.log()
    assert f"{log}: at byte {last}: " in said
    assert f"; the log ends at offset {_COUNT - 1}" in said


@pytest.mark.parametrize("name", [".index", ".timeindex", ".log"])
def test_a_file_of_nothing_but_noise(written: tuple[BrokerProcess, Path], name: str) -> None:
    process, data_dir = written
    assert process.stop() == 0
    path = data_dir / "t-0" / f"{0:020}{name}"
    path.write_bytes(random.Random(3).randbytes(len(path.read_bytes())))

    with BrokerProcess(data_dir) as again, again.connect() as client:
        code, found = fetch_from(client, 0)
        if name == ".log":
            assert (code, found) == (ErrorCode.CORRUPT_MESSAGE, {})
        else:
            assert found == dict(enumerate(_VALUES))
        assert produce(client, "t", batch(b"more")).error_code == 0


@pytest.mark.parametrize("seed", range(5))
@pytest.mark.parametrize("clean", [True, False])
def test_a_damaged_log_of_groups_makes_up_no_offsets(
    tmp_path: Path, seed: int, clean: bool
) -> None:
    settings = {"offsets.topic.num.partitions": 1}
    with BrokerProcess(tmp_path, topics=["t:1"], settings=settings) as process:
        with process.connect() as client:
            for offset in range(_COUNT):
                parts = (OffsetCommitRequestPartition(0, offset),)
                asked = OffsetCommitRequest(
                    "g", topics=(OffsetCommitRequestTopic("t", partitions=parts),)
                )
                while client.ask(asked, 8).topics[0].partitions[0].error_code:
                    pass
        if clean:
            process.stop()
        else:
            process.kill()
    log = tmp_path / "__consumer_offsets-0" / _FIRST
    number, position = damage(log, seed)

    with BrokerProcess(tmp_path, settings=settings) as again:
        with again.connect() as client:
            if clean:
                # all of it was on the disk, and what is missing may be what counts: nobody is told an old offset
                fetch = OffsetFetchRequest("g", (OffsetFetchRequestTopic("t", (0,)),))
                code: int = ErrorCode.COORDINATOR_LOAD_IN_PROGRESS
                while code == ErrorCode.COORDINATOR_LOAD_IN_PROGRESS:
                    code = client.ask(fetch, 7).error_code
                assert code == ErrorCode.COORDINATOR_NOT_AVAILABLE
            else:
                # as Kafka: the log ends before the damage
                assert committed_offset(client, "g", "t") == number - 1
        again.kill()
        said = again.log()
    assert f"{log}: at byte {position}: " in said


@pytest.mark.parametrize(
    "name", ["recovery-point-offset-checkpoint", "log-start-offset-checkpoint"]
)
def test_damaged_checkpoints_lose_no_records(
    written: tuple[BrokerProcess, Path], name: str
) -> None:
    process, data_dir = written
    assert process.stop() == 0
    (data_dir / name).write_bytes(b"\xff\x00no checkpoint")

    with BrokerProcess(data_dir) as again, again.connect() as client:
        assert read_all(client, "t") == dict(enumerate(_VALUES))
