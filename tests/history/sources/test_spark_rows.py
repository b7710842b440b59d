"""The shapes in which a source gives its records."""

import pyarrow as pa
import pytest

from groupsdk.errors import ConfigError
from groupsdk.history.sources.spark_rows import (
    SHAPES,
    kind_of,
    shape_of,
    spark_ddl,
    spark_type,
)
from groupsdk.history.tables.schemas import TABLES


def test_a_kind_that_is_none_says_which_there_are() -> None:
    with pytest.raises(ConfigError, match="raw, read"):
        shape_of("cooked")
    assert kind_of({}) == "raw"


def test_every_schema_can_be_said_to_spark() -> None:
    for schema in (*SHAPES.values(), *(TABLES[name].arrow_schema for name in TABLES)):
        ddl = spark_ddl(schema)
        assert all(f"`{field.name}` " in ddl for field in schema)
    nested = pa.list_(pa.struct([("a", pa.int32()), ("b", pa.map_(pa.string(), pa.int32()))]))
    assert spark_type(nested) == "array<struct<`a`: int, `b`: map<string, int>>>"
    with pytest.raises(ConfigError, match="decimal"):
        spark_type(pa.decimal128(5))
