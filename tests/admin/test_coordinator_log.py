"""Tests the reading of coordinators' logs from bytes and files, damaged ones too."""

import json
from base64 import urlsafe_b64encode
from pathlib import Path
from uuid import UUID

import pytest

from groupsdk.admin.coordinator_log import (
    OFFSETS_TOPIC,
    TRANSACTIONS_TOPIC,
    EntryKind,
    LogEntry,
    find_segment_files,
    kafka_line,
    next_offset,
    read_archive_files,
    read_entries,
    read_segment_files,
    select,
)
from groupsdk.assignment import Assignment
from groupsdk.assignment.subscriptions import encode_assignments
from groupsdk.errors import ConfigError
from groupsdk.wire.coordinator_records import offsets_log, transaction_log
from groupsdk.wire.coordinator_records.consumer_group import (
    ConsumerGroupMetadataKey,
    ConsumerGroupMetadataValue,
    ConsumerGroupPartitionMetadataKey,
    ConsumerGroupPartitionMetadataValue,
    ConsumerGroupTargetAssignmentMemberKey,
    ConsumerGroupTargetAssignmentMemberValue,
    TopicMetadata,
    TopicPartitions,
)
from groupsdk.wire.coordinator_records.group_metadata import (
    GroupMetadataKey,
    GroupMetadataValue,
    MemberMetadata,
)
from groupsdk.wire.coordinator_records.offset_commit import OffsetCommitKey, OffsetCommitValue
from groupsdk.wire.coordinator_records.transaction_log import (
    PartitionsSchema,
    TransactionLogKey,
    TransactionLogValue,
)
from groupsdk.wire.records.record import Record, build_batch


def commit(offset: int, timestamp: int, topic: str = "t") -> Record:
    """A committed offset."""
    key, value = offsets_log.write(
        OffsetCommitKey("g", topic, 0), OffsetCommitValue(offset=7, metadata="m")
    )
    return Record(offset, timestamp, key, value)


def generation(offset: int, timestamp: int) -> Record:
    """A generation with one member."""
    given = encode_assignments({"m": Assignment({"t": [0, 1]})})["m"]
    members = (MemberMetadata("m", client_id="c", assignment=given),)
    value = GroupMetadataValue("consumer", 3, "range", "m", members=members)
    key, data = offsets_log.write(GroupMetadataKey("g"), value)
    return Record(offset, timestamp, key, data)


def read(data: bytes, topic: str = OFFSETS_TOPIC) -> list[LogEntry]:
    return list(read_entries(data, 4, topic))


def test_records_say_what_they_are() -> None:
    tombstone = Record(2, 3, offsets_log.write(OffsetCommitKey("g", "t", 0), None)[0], None)
    other = Record(3, 4, b"\x00\x63later", b"")
    found = read(build_batch([commit(0, 1), generation(1, 2), tombstone, other]))
    assert [each.kind for each in found] == ["offset", "group", "offset", "unknown"]
    assert [each.record for each in found[:2]] == ["OffsetCommit", "GroupMetadata"]
    assert found[0].text == "g t-0 = 7 'm'"
    assert found[0].key == {"group": "g", "topic": "t", "partition": 0}
    assert found[0].line == "1970-01-01T00:00:00.001Z 4@0 OffsetCommit g t-0 = 7 'm'"
    assert found[1].text == ("g generation 3, consumer range, leader m, 1 members: m [t(0-1)]")
    assert found[1].value is not None
    assert found[1].value["members"][0]["assignment"]["parts"] == ["t-0", "t-1"]
    assert (found[2].value, found[2].text) == (None, "g t-0 deleted")
    assert found[3].problem == "record type 99 is not known here"


def test_topic_ids_of_a_data_directory_are_resolved(tmp_path: Path) -> None:
    topic_id = UUID(int=7)
    text = urlsafe_b64encode(topic_id.bytes).decode().rstrip("=")
    for folder, content in (
        ("orders.a-b-0", f"version: 0\ntopic_id: {text}\n"),
        ("damaged-0", "?"),
    ):
        (tmp_path / folder).mkdir()
        (tmp_path / folder / "partition.metadata").write_text(content)
    key, value = offsets_log.write(
        ConsumerGroupTargetAssignmentMemberKey("g", "m"),
        ConsumerGroupTargetAssignmentMemberValue((TopicPartitions(topic_id, (0, 1)),)),
    )
    log = tmp_path / "__consumer_offsets-3"
    log.mkdir()
    (log / f"{0:020}.log").write_bytes(build_batch([Record(0, 1, key, value)]))

    for path in (tmp_path, log, log / f"{0:020}.log"):
        (entry,) = read_segment_files(path, OFFSETS_TOPIC)
        assert entry.text == "g member m target [orders.a-b(0-1)]"


def test_topic_ids_are_learned_from_records_of_earlier_brokers() -> None:
    topics = ConsumerGroupPartitionMetadataValue((TopicMetadata(UUID(int=7), "orders", 2),))
    target = ConsumerGroupTargetAssignmentMemberValue((TopicPartitions(UUID(int=7), (0,)),))
    pairs = [
        offsets_log.write(ConsumerGroupPartitionMetadataKey("g"), topics),
        offsets_log.write(ConsumerGroupTargetAssignmentMemberKey("g", "m"), target),
    ]
    found = read(build_batch([Record(at, 1, *pair) for at, pair in enumerate(pairs)]))
    assert found[1].text == "g member m target [orders(0)]"


def test_kafkas_formatters_print_what_is_theirs() -> None:
    epoch = offsets_log.write(ConsumerGroupMetadataKey("g"), ConsumerGroupMetadataValue(1))
    found = read(build_batch([commit(0, 1), generation(1, 2), Record(2, 3, *epoch)]))
    first, second, third = map(kafka_line, found)
    assert first is not None
    assert json.loads(first)["key"] == {
        "type": 1,
        "data": {"group": "g", "topic": "t", "partition": 0},
    }
    assert second is not None
    assert json.loads(second)["value"]["data"]["leader"] == "m"
    assert third is None


def test_transactions_are_read() -> None:
    value = TransactionLogValue(
        9,
        producer_epoch=2,
        transaction_status=1,
        transaction_partitions=(PartitionsSchema("t", (0, 1)),),
    )
    key, data = transaction_log.write(TransactionLogKey("tx"), value)
    (found,) = read(build_batch([Record(0, 1, key, data)]), TRANSACTIONS_TOPIC)
    assert (found.kind, found.group) == (EntryKind.TRANSACTION, "tx")
    assert found.text == "tx Ongoing, producer 9 epoch 2, wrote to t(0-1)"
    marker = Record(5, 1, b"\x00\x00\x00\x01", b"\x00\x00\x00\x00\x00\x03")
    batch = build_batch([marker], 5, producer_id=9, transactional=True, control=True)
    (ended,) = read(batch)
    assert (ended.record, ended.producer_id) == ("EndTxnMarker", 9)
    assert ended.text == "transaction committed by coordinator epoch 3"
    part = read(build_batch([commit(0, 1)], producer_id=9, transactional=True, base_sequence=0))
    assert part[0].line.endswith("(producer 9)")


def test_a_damaged_batch_is_told_and_the_next_one_read() -> None:
    damaged = bytearray(build_batch([commit(0, 1)]))
    damaged[-1] ^= 1
    found = read(bytes(damaged) + build_batch([commit(1, 2)], 1))
    assert [each.record for each in found] == ["Batch", "OffsetCommit"]
    assert "checksum" in (found[0].problem or "")


@pytest.mark.parametrize(
    ("place", "new", "problem"),
    [
        (8, b"\x7f\xff\xff\xff", "its length is damaged; the offsets 2 to 3 are missing"),
        (0, bytes(61), "bytes {start} to {end} hold no batch that can be read"),
        (16, b"\x00", "0 where the message format 2 is due"),
    ],
)
def test_a_file_is_read_on_behind_a_damaged_place(
    place: int, new: bytes, problem: str, tmp_path: Path
) -> None:
    parts = [build_batch([commit(n, n + 10), commit(n + 1, n + 11)], n) for n in range(0, 8, 2)]
    data = bytearray(b"".join(parts))
    start = len(parts[0])
    data[start + place : start + place + len(new)] = new
    folder = tmp_path / "__consumer_offsets-4"
    folder.mkdir()
    file = folder / f"{0:020}.log"
    file.write_bytes(data + parts[0][:30])
    found = list(read_segment_files(tmp_path, OFFSETS_TOPIC))
    assert [each.offset for each in found if each.problem is None] == [0, 1, 4, 5, 6, 7]
    damaged, end = (each for each in found if each.problem is not None)
    assert damaged.line == (f"1970-01-01T00:00:00.011Z 4@2 Batch {damaged.problem}")
    assert damaged.problem is not None
    assert damaged.problem.startswith(f"{file}: bytes {start} to ")
    assert problem.format(start=start, end=start + len(parts[1]) - 1) in damaged.problem
    assert end.problem == f"{file}: the file ends within a batch, of which 30 bytes are there"


def test_a_batch_that_is_cut_is_left() -> None:
    first, second = build_batch([commit(0, 1)]), build_batch([commit(1, 2)], 1)
    data = first + second[:-1]
    assert len(read(data)) == 1
    assert next_offset(data, 0) == 1
    assert next_offset(second[:-1], 8) == 8
    # a fetch gives whole batches, which may begin before the offset
    both = build_batch([commit(0, 1), commit(1, 2)])
    assert [each.offset for each in read_entries(both, 0, OFFSETS_TOPIC, 1)] == [1]


def test_segments_are_merged_by_time(tmp_path: Path) -> None:
    for partition, name, records in (
        (0, "00000000000000000000", [commit(0, 10)]),
        (0, "00000000000000000001", [commit(1, 30)]),
        (1, "00000000000000000000", [commit(0, 20), generation(1, 40)]),
    ):
        folder = tmp_path / f"{OFFSETS_TOPIC}-{partition}"
        folder.mkdir(exist_ok=True)
        (folder / f"{name}.log").write_bytes(build_batch(records, records[0].offset))
    with (tmp_path / f"{OFFSETS_TOPIC}-0" / "00000000000000000001.log").open("ab") as file:
        file.write(b"cut")
    (tmp_path / f"{OFFSETS_TOPIC}-0" / "00000000000000000009.log.deleted").write_bytes(b"x")
    found = list(read_segment_files(tmp_path, OFFSETS_TOPIC))
    whole = [(each.partition, each.offset) for each in found if each.problem is None]
    assert whole == [(0, 0), (1, 0), (0, 1), (1, 1)]
    (cut,) = (each for each in found if each.problem is not None)
    assert "ends within a batch, of which 3 bytes are there" in cut.text
    one = tmp_path / f"{OFFSETS_TOPIC}-0" / "00000000000000000001.log"
    assert [each.offset for each in read_segment_files(one, OFFSETS_TOPIC)] == [1, 2]
    with pytest.raises(ConfigError, match="no segment files of __transaction_state"):
        find_segment_files(tmp_path, TRANSACTIONS_TOPIC)
    with pytest.raises(ConfigError, match="there is no"):
        find_segment_files(tmp_path / "none", OFFSETS_TOPIC)
    twin = tmp_path / "copy" / f"{OFFSETS_TOPIC}-0"
    twin.mkdir(parents=True)
    (twin / "00000000000000000000.log").write_bytes(b"")
    with pytest.raises(ConfigError, match="is there twice"):
        find_segment_files(tmp_path, OFFSETS_TOPIC)


def test_entries_of_the_coordinator_log_are_chosen_by_kind_and_group() -> None:
    other = Record(3, 4, b"\x00\x63later", b"")
    found = read(build_batch([commit(0, 1), generation(1, 2), other]))

    def offsets(kinds: set[EntryKind], group: str | None = None) -> list[int]:
        wanted = None if group is None else group.__eq__
        return [each.offset for each in select(found, frozenset(kinds), wanted)]

    assert offsets({EntryKind.OFFSET}) == [0, 3]
    assert offsets({EntryKind.GROUP}, "g") == [1]
    assert offsets({EntryKind.OFFSET, EntryKind.GROUP}, "h") == []


def test_an_archive_is_read_as_far_as_its_writer_says(tmp_path: Path) -> None:
    pa = pytest.importorskip("pyarrow")
    from pyarrow import parquet

    root = tmp_path / "raw_records" / "day=1970-01-01"
    root.mkdir(parents=True)
    for name, records in (
        ("b", [commit(1, 20)]),
        ("a", [generation(0, 10)]),
        ("half", [commit(9, 5)]),
    ):
        rows = [
            {
                "src_partition": 4,
                "src_offset": each.offset,
                "ts": each.timestamp * 1000,
                "producer_id": -1,
                "transactional": False,
                "control": False,
                "key": each.key,
                "value": each.value,
            }
            for each in records
        ]
        table = pa.Table.from_pylist(rows)
        moments = table["ts"].cast(pa.timestamp("us", "UTC"))
        table = table.set_column(table.schema.get_field_index("ts"), "ts", moments)
        parquet.write_table(table, root / f"{name}.parquet")
    log = tmp_path / "raw_records" / "_spark_metadata"
    log.mkdir()
    for number, name in enumerate("ab"):
        path = f"file:///elsewhere/raw_records/day%3D1970-01-01/{name}.parquet"
        (log / str(number)).write_text("v1\n" + json.dumps({"path": path, "action": "add"}))
    found = list(read_archive_files(tmp_path))
    assert [(each.offset, each.record) for each in found] == [
        (0, "GroupMetadata"),
        (1, "OffsetCommit"),
    ]
    with pytest.raises(ConfigError, match="is no archive"):
        read_archive_files(tmp_path / "none")
    (root / "b.parquet").unlink()
    with pytest.raises(ConfigError, match=r"has lost day=1970-01-01/b\.parquet, which its _spark"):
        read_archive_files(tmp_path)
    # an entry of the log may take a file back
    gone = "file:///elsewhere/raw_records/day%3D1970-01-01/b.parquet"
    (log / "2").write_text("v1\n" + json.dumps({"path": gone, "action": "delete"}))
    assert [each.offset for each in read_archive_files(tmp_path)] == [0]


def test_links_that_lead_nowhere_are_passed_over(tmp_path: Path) -> None:
    folder = tmp_path / "__consumer_offsets-0"
    folder.mkdir()
    first = folder / f"{0:020}.log"
    first.write_bytes(b"")
    (folder / f"{1:020}.log").symlink_to(folder / f"{1:020}.log")
    (folder / f"{2:020}.log").symlink_to("/no/such/file")
    assert find_segment_files(tmp_path, OFFSETS_TOPIC) == {0: [first]}
