"""Tests a broker process whose disk is full: clear errors, nothing acknowledged lost, it goes on when there is room."""

import resource
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Final

import pytest

from groupsdk.error_code import ErrorCode
from groupsdk.wire.messages.groups import JoinGroupRequest
from groupsdk.wire.messages.metadata import MetadataRequest, MetadataRequestTopic
from groupsdk.wire.messages.offsets import (
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
)
from groupsdk.wire.messages.topics import CreatableTopic, CreateTopicsRequest
from groupsdk.wire.messages.transactions import InitProducerIdRequest
from tests.broker.clients import Client, batch, join, produce
from tests.survival.load import committed_offset, finish_transactions, read_all
from tests.survival.mounts import mounted
from tests.survival.processes import BrokerProcess


_VALUE: Final = b"x" * 900
_LIMIT: Final = 60_000
_ANY_FAILURE: Final = frozenset(
    {
        ErrorCode.COORDINATOR_NOT_AVAILABLE,
        ErrorCode.KAFKA_STORAGE_ERROR,
        ErrorCode.UNKNOWN_SERVER_ERROR,
        ErrorCode.COORDINATOR_LOAD_IN_PROGRESS,
        ErrorCode.NOT_COORDINATOR,
    }
)
_AGAIN: Final = frozenset(
    {
        ErrorCode.COORDINATOR_NOT_AVAILABLE,
        ErrorCode.COORDINATOR_LOAD_IN_PROGRESS,
        ErrorCode.NOT_COORDINATOR,
    }
)


def commit(client: Client, offset: int) -> int:
    """Commits an offset with a long text; returns the error code."""
    part = OffsetCommitRequestPartition(0, offset, committed_metadata="m" * 900)
    topics = (OffsetCommitRequestTopic("t", partitions=(part,)),)
    return client.ask(OffsetCommitRequest("g", topics=topics), 8).topics[0].partitions[0].error_code


def fill(step: Callable[[], int]) -> tuple[int, int]:
    """Repeats a step until it fails; returns how often it went well, and the error code."""
    for count in range(10_000):
        code = step()
        if code:
            return count, code
    raise AssertionError("the disk does not get full")


def set_file_limit(process: BrokerProcess, size: int) -> None:
    """Lets no file of the process grow beyond a size."""
    resource.prlimit(process.pid, resource.RLIMIT_FSIZE, (size, resource.RLIM_INFINITY))


def check(process: BrokerProcess, make_room: Callable[[], None], data_dir: Path) -> None:
    """Fills the disk, looks at what happens, makes room, and looks again."""
    kept: list[int] = []
    committed: list[int] = []
    with process.connect() as client:

        def write() -> int:
            answer = produce(client, "t", batch(_VALUE))
            if not answer.error_code:
                kept.append(answer.base_offset)
            return answer.error_code

        def store() -> int:
            code = commit(client, len(committed))
            if not code:
                committed.append(len(committed))
            return code

        assert commit(client, 0) in {0, *_AGAIN}
        written, code = fill(write)
        assert written > 5
        assert code == ErrorCode.KAFKA_STORAGE_ERROR
        stored, code = fill(store)
        assert code in _ANY_FAILURE, code
        # what was acknowledged is served while the disk is full, and it is alive
        assert list(read_all(client, "t")) == kept
        assert stored == 0 or committed_offset(client, "g", "t") == committed[-1]
        for _ in range(20):
            assert write() == ErrorCode.KAFKA_STORAGE_ERROR
            assert store() in _ANY_FAILURE
        assert list(read_all(client, "t")) == kept

        make_room()
        while store() in _AGAIN:
            pass
        assert write() == 0
        assert store() == 0
        assert list(read_all(client, "t")) == kept == list(range(len(kept)))
        assert committed_offset(client, "g", "t") == committed[-1]
        join(client, "new")
    process.kill()
    assert "failed" in process.log()
    with BrokerProcess(data_dir) as again, again.connect() as client:
        assert list(read_all(client, "t")) == kept
        assert committed_offset(client, "g", "t") == committed[-1]


def test_a_file_that_may_not_grow(tmp_path: Path) -> None:
    with BrokerProcess(tmp_path, topics=["t:1"]) as process:
        with process.connect() as client:
            while commit(client, 0):
                pass
        set_file_limit(process, _LIMIT)
        check(process, lambda: set_file_limit(process, resource.RLIM_INFINITY), tmp_path)


@pytest.fixture
def small_disk(tmp_path: Path) -> Iterator[Path]:
    """A file system of 2 MiB, where that can be made."""
    place = tmp_path / "disk"
    place.mkdir()
    with mounted(place, "size=2m"):
        yield place


def test_a_small_disk(small_disk: Path) -> None:
    ballast = small_disk / "ballast"
    ballast.write_bytes(b"x" * 1_500_000)
    with BrokerProcess(small_disk / "data", topics=["t:1"]) as process:
        check(process, ballast.unlink, small_disk / "data")


def test_topics_ids_and_groups_on_a_full_disk(small_disk: Path) -> None:
    ballast = small_disk / "ballast"
    with BrokerProcess(small_disk / "data", topics=["t:1"]) as process, process.connect() as client:
        ballast.write_bytes(b"")
        with ballast.open("ab", buffering=0) as file:
            try:
                while True:
                    file.write(b"x" * 1_000)
            except OSError:
                pass

        create = CreateTopicsRequest((CreatableTopic("new", 1, 1),), 1_000)
        assert client.ask(create, 7).topics[0].error_code == ErrorCode.KAFKA_STORAGE_ERROR
        both = tuple(MetadataRequestTopic(name=name) for name in ("t", "by-request"))
        asked = MetadataRequest(both, allow_auto_topic_creation=True)
        found = {each.name: each.error_code for each in client.ask(asked, 12).topics}
        assert found == {"t": 0, "by-request": ErrorCode.KAFKA_STORAGE_ERROR}
        made = client.ask(InitProducerIdRequest(None, 1_000), 4)
        assert made.error_code in _ANY_FAILURE
        named = client.ask(InitProducerIdRequest("t-id", 1_000), 4)
        assert named.error_code in _ANY_FAILURE
        joined = client.ask(JoinGroupRequest("g", 10_000, 10_000, "", None, "consumer", ()), 5)
        assert joined.error_code

        ballast.unlink()
        assert client.ask(create, 7).topics[0].error_code == 0
        first = client.ask(InitProducerIdRequest(None, 1_000), 4)
        assert (first.error_code, first.producer_id >= 0) == (0, True)
        while client.ask(InitProducerIdRequest("t-id", 1_000), 4).error_code in _AGAIN:
            pass
        finish_transactions(client)
        join(client, "g")
        assert process.stop() == 0
