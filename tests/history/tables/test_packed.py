"""Rows of all tables in one frame: packed, and unpacked again."""

import pyarrow as pa

from groupsdk.history.sources.segment_files import segment_tasks
from groupsdk.history.tables.packed import PACKED, packed, rows_of, unpacked
from groupsdk.history.tables.stage_files import schema_of
from groupsdk.history.tables.stages import RECORDS
from tests.history.sample import SEGMENTS


def test_packed_rows_are_unpacked_as_they_were() -> None:
    made = [each for task in segment_tasks(str(SEGMENTS)) for each in task.read()]
    rows = list(packed(made))
    assert {each.schema for each in rows} == {PACKED}
    there = [(name, batch) for name, batch in made if batch.num_rows]
    found = list(unpacked(rows))
    assert [name for name, _ in found] == [name for name, _ in there]
    for (name, batch), (_, before) in zip(found, there, strict=True):
        assert batch.schema == schema_of(name)
        assert batch.equals(before)
    assert [each.column("n")[0].as_py() for each in rows] == [each.num_rows for _, each in there]


def test_group_records_are_spread_over_buckets_by_their_groups() -> None:
    made = [each for task in segment_tasks(str(SEGMENTS)) for each in task.read()]
    rows = list(packed(made, 3))
    groups: dict[int, set[str]] = {}
    for each in rows:
        bucket = each.column("bucket")[0].as_py()
        for batch in rows_of([each], RECORDS):
            groups.setdefault(bucket, set()).update(batch.column("group_id").to_pylist())
    assert len(groups) > 1
    assert not set.intersection(*groups.values())
    plain = pa.Table.from_batches([batch for name, batch in made if name == RECORDS])
    assert set.union(*groups.values()) == set(plain.column("group_id").to_pylist())
