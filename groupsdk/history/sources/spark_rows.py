"""The rows that sources return to Spark: raw records, or packed rows of the tables and stages that reading makes."""

import pickle
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Any, Final, TypeVar

import pyarrow as pa

from groupsdk.errors import ConfigError
from groupsdk.history.tables.packed import PACKED, packed, rows_of
from groupsdk.history.tables.schemas import ARROW_TYPES, RAW, TABLES
from groupsdk.history.tables.stage_files import schema_of


if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

    from groupsdk.history.read.reading import ReadTask

T = TypeVar("T")
R = TypeVar("R")

RAW_KIND: Final = "raw"
"""Any record, undecoded."""
READ_KIND: Final = "read"
"""The tables and stages of `groupsdk.history.read.reading`, as packed rows (`groupsdk.history.tables.packed`)."""

SHAPES: Final[dict[str, Any]] = {RAW_KIND: TABLES[RAW].arrow_schema, READ_KIND: PACKED}
"""The Arrow schema of each kind."""

Step = Callable[["DataFrame"], "DataFrame"]
"""A step for `DataFrame.transform`."""


@dataclass(frozen=True, slots=True)
class Reading:
    """Reads a log with Spark, by `groupsdk.history.read.reading`.

    `frame` takes the number of buckets over which the groups are spread, and returns packed rows. `tasks` returns the parts
    of the log if the driver knows them: Spark needs no Python process to plan the query then.
    """

    frame: Callable[[int], "DataFrame"]
    tasks: "Callable[[], Sequence[ReadTask]] | None" = None


def read_tasks(spark: "SparkSession", tasks: "Sequence[ReadTask]", buckets: int) -> "DataFrame":
    """Read parts of a log, each in a task of Spark's; returns packed rows."""

    def read_log(batches: Iterable[Any]) -> Iterator[Any]:
        for batch in batches:
            for number in batch.column("id").to_pylist():
                yield from packed(tasks[number].read(), buckets)

    frame = spark.range(0, len(tasks), 1, max(1, len(tasks)))
    return frame.mapInArrow(read_log, PACKED_DDL)


def run_in_tasks(spark: "SparkSession", function: Callable[[T], R], values: Sequence[T]) -> list[R]:
    """Call a function with each value, each in a task of Spark's; returns the results in the order of the values."""
    if not values:
        return []
    numbers = pa.array(range(len(values)), pa.int32())
    given = pa.table({"number": numbers, "value": [pickle.dumps(each) for each in values]})
    frame = spark.createDataFrame(given).repartitionById(len(values), "number")
    done = frame.mapInArrow(partial(_call, function), "number int, value binary").toArrow()
    return [pickle.loads(each) for each in done.sort_by("number").column("value").to_pylist()]


def _call(function: Callable[[Any], Any], batches: Iterable[Any]) -> Iterator[Any]:
    for batch in batches:
        values = batch.column("value").to_pylist()
        done = [pickle.dumps(function(pickle.loads(each))) for each in values]
        yield pa.RecordBatch.from_arrays(
            [batch.column("number"), pa.array(done)], batch.schema.names
        )


def kind_of(options: Mapping[str, str]) -> str:
    kind = options.get("kind", RAW_KIND)
    shape_of(kind)
    return kind


def shape_of(kind: str) -> Any:
    if kind not in SHAPES:
        raise ConfigError(f"kind must be one of {', '.join(SHAPES)}, not {kind!r}")
    return SHAPES[kind]


def typed(frame: "DataFrame", name: str) -> "DataFrame":
    """Return the rows of one table or stage among packed rows, with their columns."""
    mine = frame.filter(frame["name"] == name)
    return mine.mapInArrow(partial(rows_of, name=name), spark_ddl(schema_of(name)))


def as_declared(name: str) -> Step:
    """Return the step that selects and casts the columns of a table, in their order."""
    table = TABLES[name]

    def step(frame: "DataFrame") -> "DataFrame":
        return frame.select(
            *(frame[column].cast(kind).alias(column) for column, kind in table.columns.items())
        )

    return step


def spark_ddl(schema: Any) -> str:
    return ", ".join(f"`{field.name}` {spark_type(field.type)}" for field in schema)


def spark_type(kind: Any) -> str:
    if pa.types.is_struct(kind):
        inner = ", ".join(f"`{field.name}`: {spark_type(field.type)}" for field in kind)
        return f"struct<{inner}>"
    if pa.types.is_list(kind):
        return f"array<{spark_type(kind.value_type)}>"
    if pa.types.is_map(kind):
        return f"map<{spark_type(kind.key_type)}, {spark_type(kind.item_type)}>"
    if pa.types.is_timestamp(kind):
        return "timestamp"
    found = _TYPES.get(str(kind))
    if found is None:
        raise ConfigError(f"no Spark type is known for the Arrow type {kind}")
    return found


_TYPES: Final = {str(kind): name for name, kind in ARROW_TYPES.items()}

PACKED_DDL: Final = spark_ddl(PACKED)
