"""Records laid out as rows, and taken from rows again."""

import datetime

import pyarrow as pa
import pytest

from groupsdk.history.read.arrow_rows import RAW, commit_rows, from_arrow, raw_rows
from groupsdk.history.read.batches import read_batches
from groupsdk.history.read.commits import read_commits
from groupsdk.history.tables.schemas import TABLES
from groupsdk.wire.coordinator_records.offset_commit import OffsetCommitKey, OffsetCommitValue
from groupsdk.wire.coordinator_records.offsets_log import write
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
    rows = commit_rows(records, read_commits(records), 6, pa.array(["committed", "aborted"]))
    assert rows.schema == TABLES["offset_commits"].arrow_schema
    first, second = rows.to_pylist()
    assert (first["group_id"], first["topic"], first["partition"]) == ("g", "t", 2)
    assert (first["committed_offset"], first["offset_leader_epoch"]) == (5, 3)
    assert (first["src_partition"], first["src_offset"], first["leader_epoch"]) == (6, 8, 4)
    assert (first["state"], second["state"]) == ("committed", "aborted")
    assert first["commit_ts"] == datetime.datetime(1970, 1, 1, 0, 0, 1, tzinfo=datetime.UTC)
    assert first["ts"].microsecond == 500_000
    assert first["expire_ts"] is None
    nulls = ["committed_offset", "offset_leader_epoch", "metadata", "commit_ts", "value_version"]
    assert all(second[name] is None for name in nulls)
    assert second["group_id"] == "g"


def test_rows_without_times_or_keys_are_taken_as_well() -> None:
    row = dict.fromkeys(RAW.names) | {"src_partition": 1, "src_offset": 9, "value": b"v"}
    records = from_arrow(pa.RecordBatch.from_pylist([row], schema=RAW))
    assert records.timestamps.tolist() == [-1]
    assert records.key_sizes.tolist() == [-1]
    assert records.value_sizes.tolist() == [1]
    assert len(from_arrow(pa.RecordBatch.from_pylist([], schema=RAW))) == 0
