"""Tests which coordinator a group has, that it has its log, and the ids of members."""

import errno
from itertools import islice
from typing import Any
from uuid import RFC_4122, UUID

from pytest_mock import MockerFixture
from typing_extensions import override

from groupsdk.broker import coordinators
from groupsdk.broker.coordinator.group.shard import GroupCoordinatorShard
from groupsdk.broker.coordinator.runtime.contract import LogRecord, ProducerStamp
from groupsdk.broker.coordinator.runtime.coordinator_runtime import (
    CoordinatorRuntime,
    Marker,
    Replayed,
)
from groupsdk.broker.coordinator.transactions.producer_ids import ProducerIdAllocator
from groupsdk.broker.coordinators import CatalogueBlockStore, PartitionCoordinatorLog, random_uuids
from groupsdk.broker.log.files import MemoryFiles
from groupsdk.broker.store import MemoryStore
from groupsdk.error_code import ErrorCode
from groupsdk.wire.records.batch import batches
from tests.broker.clients import commit_request
from tests.broker.rig import ClusterRig


def commit(rig: ClusterRig, group_id: str, offset: int, node: int = 1) -> Any:
    """Commits an offset of t-0 past the network; returns the answer, or why there is none."""
    runtime = rig.cluster.groups.runtime_for(node, group_id)
    if not isinstance(runtime, CoordinatorRuntime):
        return runtime
    answers: list[Any] = []
    runtime.submit(commit_request(group_id, offset), answers.append, 8, "c", "/h", "User:u")
    return answers[0].topics[0].partitions[0].error_code


def log_of(rig: ClusterRig, topic: str = "__consumer_offsets") -> PartitionCoordinatorLog:
    """Returns the log of the first coordinator of an internal topic."""
    rig.cluster.internal_topic(topic)
    return PartitionCoordinatorLog(rig.cluster, topic, 0)


def test_a_group_is_where_javas_hash_says() -> None:
    rig = ClusterRig()
    groups = rig.cluster.groups
    assert groups.partition_for("g") == 3
    assert groups.partition_for("test-group") == 12
    assert groups.partition_for("polygenelubricants") == 0


def test_only_the_leader_coordinates() -> None:
    rig = ClusterRig(nodes=2, topics={"t": 1})
    rig.cluster.internal_topic("__consumer_offsets")
    leader = rig.cluster.leader("__consumer_offsets", 3)
    assert leader is not None
    assert commit(rig, "g", 5, leader) == 0
    assert commit(rig, "g", 5, 3 - leader) is ErrorCode.NOT_COORDINATOR
    assert [each.name for each in rig.cluster.groups.led_by(leader)] == ["__consumer_offsets-3"]
    assert list(rig.cluster.groups.led_by(3 - leader)) == []


def test_a_coordinator_without_writes_has_no_files() -> None:
    rig = ClusterRig()
    assert isinstance(rig.cluster.groups.runtime_for(1, "g"), CoordinatorRuntime)
    assert not rig.cluster.logs.exists("__consumer_offsets", 3)


def test_coordinators_of_an_earlier_run_are_started_again() -> None:
    first = ClusterRig(topics={"t": 1})
    commit(first, "g", 5)
    first.cluster.close()
    second = ClusterRig(store=first.store, files=first.files)
    second.cluster.load_coordinators()
    (runtime,) = second.cluster.groups.running()
    assert runtime.name == "__consumer_offsets-3"
    shard: Any = runtime.shard
    assert shard.offsets("g")["t", 0].offset == 5


def test_a_moved_coordinator_reads_what_the_other_wrote() -> None:
    rig = ClusterRig(nodes=2, topics={"t": 1})
    rig.cluster.internal_topic("__consumer_offsets")
    old = rig.cluster.leader("__consumer_offsets", 3) or 0
    commit(rig, "g", 5, old)
    rig.cluster.move_leaders({("__consumer_offsets", 3): 3 - old})
    assert commit(rig, "g", 6, old) is ErrorCode.NOT_COORDINATOR
    runtime = rig.cluster.groups.find(3)
    assert runtime is not None
    shard: Any = runtime.shard
    assert shard.offsets("g")["t", 0].offset == 5
    assert commit(rig, "g", 6, 3 - old) == 0


class FailingDisk(MemoryFiles):
    """A disk that reads nothing while it fails."""

    failing = False

    @override
    def read(self, path: str, position: int, size: int) -> bytes:
        if self.failing:
            raise OSError(errno.EIO, "the disk fails", path)
        return super().read(path, position, size)


def test_a_coordinator_is_loaded_once_the_disk_works_again() -> None:
    disk = FailingDisk()
    first = ClusterRig(topics={"t": 1}, files=disk)
    commit(first, "g", 5)
    disk.kill()
    rig = ClusterRig(store=first.store, files=disk)
    disk.failing = True

    rig.cluster.load_coordinators()
    assert commit(rig, "g", 6) is ErrorCode.COORDINATOR_NOT_AVAILABLE
    disk.failing = False
    # not with every request: a log can be long
    assert commit(rig, "g", 6) is ErrorCode.COORDINATOR_NOT_AVAILABLE
    rig.clock.advance(1_000)

    assert commit(rig, "g", 6) == 0


def test_records_and_markers_are_replayed_as_they_were_written() -> None:
    rig = ClusterRig()
    log = log_of(rig)
    assert list(log.replay()) == []
    stamp = ProducerStamp(7, 1)
    plain, pending = LogRecord(b"a", b"1"), LogRecord(b"b", None)
    log.append([plain, pending], None, 1_000)
    log.append([pending], stamp, 1_000)
    rig.cluster.log("__consumer_offsets", 0).append_marker(
        7, 1, committed=True, coordinator_epoch=1, now_ms=1_000
    )
    log.append([plain], None, 1_000)
    assert list(log.replay()) == [
        Replayed(plain, None),
        Replayed(pending, None),
        Replayed(pending, stamp),
        Marker(stamp, True),
        Replayed(plain, None),
    ]
    assert list(log.load()) == [
        [tuple(plain), tuple(pending)],
        Replayed(pending, stamp),
        Marker(stamp, True),
        [tuple(plain)],
    ]


def test_records_of_other_forms_within_a_long_batch_are_loaded_in_order() -> None:
    rig = ClusterRig()
    log = log_of(rig)
    records = [LogRecord(b"%d" % n, b"v" * (9_000 if n == 700 else 1)) for n in range(1_000)]
    log.append(records, None, 1_000)
    pairs: list[Any] = []
    for each in log.load():
        pairs += each if isinstance(each, list) else [each.record]  # type: ignore[union-attr]
    assert pairs == records


def test_loading_begins_where_the_log_does() -> None:
    rig = ClusterRig()
    log = log_of(rig)
    records = [LogRecord(b"%d" % n, b"v") for n in range(3)]
    log.append(records, None, 1_000)
    log.append(records, None, 1_000)
    rig.cluster.log("__consumer_offsets", 0).advance_start(1)
    expected = [Replayed(each, None) for each in records[1:]]
    assert list(log.load()) == [*expected, [tuple(each) for each in records]]


def test_a_long_log_is_read_to_its_end() -> None:
    rig = ClusterRig()
    log = log_of(rig)
    for n in range(40):
        log.append([LogRecord(b"%d" % n, b"x" * 60_000)], None, 1_000)
    keys = [each.record.key for each in log.replay() if isinstance(each, Replayed)]
    assert keys == [b"%d" % n for n in range(40)]


def test_the_log_is_read_in_pieces_of_the_buffers_size(mocker: MockerFixture) -> None:
    rig = ClusterRig(offsets_load_buffer_size=100_000)
    log = log_of(rig)
    for n in range(4):
        log.append([LogRecord(b"%d" % n, b"x" * 60_000)], None, 1_000)
    read = mocker.spy(rig.cluster.log("__consumer_offsets", 0), "read")
    assert len(list(log.replay())) == 4
    assert {each.args[1] for each in read.call_args_list} == {100_000}
    assert read.call_count == 4


def test_offsets_are_compressed_where_that_is_set() -> None:
    for codec in range(5):
        rig = ClusterRig(offsets_topic_compression_codec=codec)
        offsets, stamp = [LogRecord(b"%d" % n, b"x" * 500) for n in range(9)], ProducerStamp(7, 1)
        log = log_of(rig)
        log.append(offsets, None, 1_000)
        log.append(offsets, stamp, 1_000)
        data = rig.cluster.log("__consumer_offsets", 0).read(0, 100_000, committed=False).data
        headers = [header for header, _ in batches(data)]
        assert [each.compression for each in headers] == [codec, codec]
        assert [each.is_transactional for each in headers] == [False, True]
        assert (len(data) < 2_000) == (codec > 0), f"codec {codec}"
        read = [Replayed(each, producer) for producer in (None, stamp) for each in offsets]
        assert list(log.replay()) == read, f"codec {codec}"
        assert commit(rig, "g", 5) == 0, f"codec {codec}"
        rig.cluster.groups.unload(3, ErrorCode.NOT_COORDINATOR)
        loaded = rig.cluster.groups.runtime_for(1, "g")
        assert isinstance(loaded, CoordinatorRuntime)
        assert isinstance(loaded.shard, GroupCoordinatorShard)
        assert loaded.shard.offsets("g")["t", 0].offset == 5, f"codec {codec}"


def test_transactions_are_not_compressed_with_the_offsets() -> None:
    rig = ClusterRig(offsets_topic_compression_codec=1)
    log_of(rig, "__transaction_state").append([LogRecord(b"k", b"v")], None, 1_000)
    data = rig.cluster.log("__transaction_state", 0).read(0, 1_000, committed=False).data
    assert [header.compression for header, _ in batches(data)] == [0]


def test_producer_ids_never_come_twice() -> None:
    store = MemoryStore()
    seen: list[int] = []
    for _ in range(3):
        ids = ProducerIdAllocator(CatalogueBlockStore(store))
        seen += [ids.next_id() for _ in range(1_500)]
    one, two = CatalogueBlockStore(store), CatalogueBlockStore(store)
    start = one.next_start()
    assert one.claim(start, start + 1_000)
    assert not two.claim(start, start + 1_000)
    assert two.next_start() == start + 1_000
    assert len(set(seen)) == len(seen)
    assert start > max(seen)


def test_a_topic_is_described_once_until_it_grows_or_is_created_again() -> None:
    rig = ClusterRig(topics={"t": 1, "u": 1})
    image = rig.cluster.topic_image
    found = image.topic("t")
    rig.cluster.create_topics({"v": 1})
    assert image.topic("t") is found
    rig.cluster.add_partitions("t", 3)
    grown = image.topic("t")
    assert grown is not None
    assert grown.partitions == 3
    rig.cluster.delete_topics(("t",))
    assert image.topic("t") is None
    rig.cluster.create_topics({"t": 3})
    again = image.topic("t")
    assert again is not None
    assert again.topic_id != grown.topic_id


def test_coordinators_that_start_together_replay_few_records_before_others_have_their_turn(
    mocker: MockerFixture,
) -> None:
    first = ClusterRig(topics={"t": 1}, offsets_topic_num_partitions=4)
    groups = {first.cluster.groups.partition_for(name): name for name in map(str, range(40))}
    for name in groups.values():
        for offset in range(20):
            assert commit(first, name, offset) == 0
    first.cluster.close()
    mocker.patch.object(coordinators, "AT_ONCE_RECORDS", 30)
    second = ClusterRig(store=first.store, files=first.files)
    second.cluster.load_coordinators()
    assert len(list(second.cluster.groups.running())) == 1
    second.settle()
    assert len(list(second.cluster.groups.running())) == 4


def test_each_one_is_another_random_uuid() -> None:
    made = list(islice(random_uuids(), 1_000))

    assert len(set(made)) == len(made)
    for text in made:
        assert str(UUID(text)) == text
        assert UUID(text).version == 4
        assert UUID(text).variant == RFC_4122
    assert {text[19] for text in made} == set("89ab")


def test_every_bit_that_is_free_is_random() -> None:
    ones = zeros = 0
    for text in islice(random_uuids(), 1_000):
        ones |= UUID(text).int
        zeros |= ~UUID(text).int

    fixed = UUID("00000000-0000-f000-c000-000000000000").int
    assert ones & zeros & (1 << 128) - 1 == (1 << 128) - 1 & ~fixed
