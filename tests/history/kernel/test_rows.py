"""Records laid out as rows, and taken from rows again."""

import datetime

import pyarrow as pa
import pytest

from groupsdk.history.kernel.batches import read_batches
from groupsdk.history.kernel.commits import read_commits
from groupsdk.history.kernel.rows import (
    COMMITS,
    RAW,
    REST,
    Reject,
    commit_rows,
    from_arrow,
    raw_rows,
    reject_rows,
    rest_rows,
)
from groupsdk.wire.coordinator_records.offset_commit import OffsetCommitKey, OffsetCommitValue
from groupsdk.wire.coordinator_records.offsets_log import write
from groupsdk.wire.records.control import build_marker
from groupsdk.wire.records.record import Record, build_batch
from tests.history.sample import segment_files


COMMIT = write(OffsetCommitKey("g", "t", 2), OffsetCommitValue(5, 3, "m", 1000))


@pytest.mark.parametrize("number", range(len(segment_files())))
def test_rows_of_records_are_records_again(number: int) -> None:
    for records in read_batches(segment_files()[number].read_bytes()):
        raw = raw_rows(records, 3)
        assert raw.schema == RAW
        assert raw_rows(from_arrow(raw), 3) == raw
        sliced = raw.slice(3, 10)
        assert raw_rows(from_arrow(sliced), 3) == sliced


def test_every_record_is_in_one_of_the_two_shapes() -> None:
    seen = 0
    for path in segment_files():
        for records in read_batches(path.read_bytes()):
            commits = read_commits(records)
            first = commit_rows(records, commits, 1)
            second = rest_rows(records, commits, 1, "here")
            assert first.schema == COMMITS
            assert second.schema == REST
            both = first.column("src_offset").to_pylist() + second.column("src_offset").to_pylist()
            assert sorted(both) == sorted(records.offsets.tolist())
            seen += len(both)
    assert seen == 1033


def test_a_commit_keeps_its_times_and_a_removed_one_has_none() -> None:
    batch = build_batch(
        [Record(8, 1500, *COMMIT), Record(9, 1600, COMMIT[0], None)],
        8,
        4,
        77,
        0,
        transactional=True,
    )
    (records,) = read_batches(batch)
    first, second = commit_rows(records, read_commits(records), 6).to_pylist()
    assert (first["group_id"], first["topic"], first["partition"]) == ("g", "t", 2)
    assert (first["committed_offset"], first["offset_leader_epoch"]) == (5, 3)
    assert (first["src_partition"], first["src_offset"], first["leader_epoch"]) == (6, 8, 4)
    assert (first["producer_id"], first["transactional"]) == (77, True)
    assert first["commit_ts"] == datetime.datetime(1970, 1, 1, 0, 0, 1, tzinfo=datetime.UTC)
    assert first["ts"].microsecond == 500_000
    assert first["expire_ts"] is None
    nulls = ["committed_offset", "offset_leader_epoch", "metadata", "commit_ts", "value_version"]
    assert all(second[name] is None for name in nulls)
    assert second["group_id"] == "g"


def test_the_rest_says_its_type_and_group_or_why_it_cannot_be_read() -> None:
    undecodable = (COMMIT[0][:-1], COMMIT[1])
    no_utf_8 = (b"\0\2\0\1\xff", b"")
    data = build_batch(
        [
            Record(0, 1, b"\0\2\0\1g", b"\0\3"),
            Record(1, 1, *undecodable),
            Record(2, 1, None, b"x"),
            Record(3, 1, *no_utf_8),
            Record(4, 1, *COMMIT),
        ]
    )
    marker = build_marker(7, 0, committed=True, coordinator_epoch=0, timestamp_ms=5, base_offset=5)
    (records,) = read_batches(data + marker)
    rows = rest_rows(records, read_commits(records), 1, "a file").to_pylist()
    assert [row["src_offset"] for row in rows] == [0, 1, 2, 3, 5]
    assert [row["record_type"] for row in rows] == [2, 1, None, 2, None]
    assert [row["group_id"] for row in rows] == ["g", "g", None, None, None]
    assert [row["control"] for row in rows] == [False, False, False, False, True]
    assert [row["lost"] for row in rows] == [0, 1, 0, 0, 0]
    assert rows[1]["place"] == "a file"
    assert "OffsetCommitKey" in rows[1]["reason"]


def test_rejects_have_the_shape_of_the_rest() -> None:
    batch = reject_rows([Reject(7, "f:12", "damaged", 3), Reject(None, "f:99", "torn", 0)], 4)
    assert batch.schema == REST
    assert [row["src_offset"] for row in batch.to_pylist()] == [7, None]
    assert [row["src_partition"] for row in batch.to_pylist()] == [4, 4]


def test_rows_without_times_or_keys_are_taken_as_well() -> None:
    row = dict.fromkeys(RAW.names) | {"src_partition": 1, "src_offset": 9, "value": b"v"}
    records = from_arrow(pa.RecordBatch.from_pylist([row], schema=RAW))
    assert records.timestamps.tolist() == [-1]
    assert records.key_sizes.tolist() == [-1]
    assert records.value_sizes.tolist() == [1]
    assert len(from_arrow(pa.RecordBatch.from_pylist([], schema=RAW))) == 0
