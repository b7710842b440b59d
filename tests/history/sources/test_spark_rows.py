"""The shapes in which a source gives its records."""

from pathlib import Path

import pyarrow as pa
import pytest

from groupsdk.errors import ConfigError
from groupsdk.history.explain.arrow_batches import GROUP_TABLES
from groupsdk.history.sources.segment_files import segment_tasks
from groupsdk.history.sources.spark_rows import (
    SHAPES,
    kind_of,
    shape_of,
    spark_ddl,
    spark_type,
    write_or_wrap,
)
from groupsdk.history.tables.stage_files import envelope_schema
from tests.history.sample import SEGMENTS


def test_a_task_writes_what_it_reads_or_gives_it(tmp_path: Path) -> None:
    task = segment_tasks(str(SEGMENTS))[0]
    rows = list(write_or_wrap(task.read(), None, task.name))
    assert {batch.schema for batch in rows} == {SHAPES["read"]}
    assert list(write_or_wrap(task.read(), str(tmp_path), task.name)) == []
    assert list(tmp_path.rglob("*.parquet"))


def test_a_kind_that_is_none_says_which_there_are() -> None:
    with pytest.raises(ConfigError, match="raw, read"):
        shape_of("cooked")
    assert kind_of({}) == "raw"
    with pytest.raises(ConfigError, match=r"land=.* needs kind='read', not 'raw'"):
        kind_of({"land": "out"})


def test_every_schema_can_be_said_to_spark() -> None:
    for schema in (*SHAPES.values(), envelope_schema(GROUP_TABLES)):
        ddl = spark_ddl(schema)
        assert all(f"`{field.name}` " in ddl for field in schema)
    nested = pa.list_(pa.struct([("a", pa.int32()), ("b", pa.map_(pa.string(), pa.int32()))]))
    assert spark_type(nested) == "array<struct<`a`: int, `b`: map<string, int>>>"
    with pytest.raises(ConfigError, match="decimal"):
        spark_type(pa.decimal128(5))
