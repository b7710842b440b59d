"""The shapes in which a source gives its records."""

import pyarrow as pa
import pytest

from examples.history_log import commit, generation
from groupsdk.errors import ConfigError
from groupsdk.history.groups.arrow import EVENTS
from groupsdk.history.kernel.batches import read_batches
from groupsdk.history.sources.kinds import SHAPES, cut, shape_of, spark_ddl, spark_type
from groupsdk.wire.records.record import Record, build_batch


def test_records_are_cut_into_the_shape_that_is_asked_for() -> None:
    pairs = [commit("g", "t", 0, 5), generation("g", 1, {})]
    (records,) = read_batches(build_batch([Record(n, 1, *pair) for n, pair in enumerate(pairs)]))
    found = {
        kind: [
            row["src_offset"] for batch in cut(kind, records, 1, "") for row in batch.to_pylist()
        ]
        for kind in SHAPES
    }
    assert found == {"raw": [0, 1], "commits": [0], "rest": [1]}
    (only,) = read_batches(build_batch([Record(0, 1, *pairs[0])]))
    assert list(cut("rest", only, 1, "")) == []


def test_a_kind_that_is_none_says_which_there_are() -> None:
    with pytest.raises(ConfigError, match="raw, commits, rest"):
        shape_of("cooked")


def test_every_schema_can_be_said_to_spark() -> None:
    for schema in (*SHAPES.values(), EVENTS):
        ddl = spark_ddl(schema)
        assert all(f"`{field.name}` " in ddl for field in schema)
    nested = pa.list_(pa.struct([("a", pa.int32()), ("b", pa.list_(pa.string()))]))
    assert spark_type(nested) == "array<struct<`a`: int, `b`: array<string>>>"
    with pytest.raises(ConfigError, match="decimal"):
        spark_type(pa.decimal128(5))
