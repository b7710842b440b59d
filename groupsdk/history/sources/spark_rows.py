"""The rows that sources return to Spark: raw records, or the tables and stages that reading makes."""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final, TypeVar

import pyarrow as pa

from groupsdk.errors import ConfigError
from groupsdk.history.read.arrow_rows import RAW
from groupsdk.history.read.reading import ReadTask, TableBatches
from groupsdk.history.sources.filesystems import file_system
from groupsdk.history.tables.schemas import ARROW_TYPES, TABLES
from groupsdk.history.tables.stage_files import READ_TABLES, StageFiles, envelope_schema, enveloped


if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

T = TypeVar("T")
R = TypeVar("R")

RAW_KIND: Final = "raw"
"""Any record, undecoded."""
READ_KIND: Final = "read"
"""The tables of `groupsdk.history.read.reading`, a column for each; no rows if the task writes the tables itself."""

SHAPES: Final[dict[str, Any]] = {RAW_KIND: RAW, READ_KIND: envelope_schema(READ_TABLES)}
"""The Arrow schema of each kind."""

Step = Callable[["DataFrame"], "DataFrame"]
"""A step for `DataFrame.transform`."""

Reading = Callable[["str | None"], "DataFrame"]
"""Reads a log with Spark, by `groupsdk.history.read.reading`. Takes the directory to which tasks write the tables, as a path or
URI for the workers; None if they cannot write there, so the rows go through Spark."""


@dataclass(frozen=True, slots=True)
class TaskReading:
    """A `Reading` of which the driver knows the tasks: Spark can run them without planning a query.

    `frame` reads the log where the tasks cannot write the tables themselves.
    """

    frame: Reading
    tasks: Callable[[], Sequence[ReadTask]]

    def __call__(self, land: str | None) -> "DataFrame":
        return self.frame(land)


def run_in_tasks(spark: "SparkSession", function: Callable[[T], R], values: Sequence[T]) -> list[R]:
    """Call a function with each value, each in a task of Spark's; returns the results in the order of the values."""
    if not values:
        return []
    found: list[R] = spark.sparkContext.parallelize(values, len(values)).map(function).collect()
    return found


def kind_of(options: Mapping[str, str]) -> str:
    kind = options.get("kind", RAW_KIND)
    shape_of(kind)
    if options.get("land") and kind != READ_KIND:
        raise ConfigError(f"land={options['land']!r} needs kind={READ_KIND!r}, not {kind!r}")
    return kind


def shape_of(kind: str) -> Any:
    if kind not in SHAPES:
        raise ConfigError(f"kind must be one of {', '.join(SHAPES)}, not {kind!r}")
    return SHAPES[kind]


def write_or_wrap(
    batches: TableBatches, land: str | None, name: str, *, buckets: int = 1
) -> Iterator[Any]:
    """Write a task's batches to the directory `land`; without one yield them as rows of the kind "read"."""
    if land is None:
        yield from enveloped(batches, READ_TABLES)
        return
    system, root = file_system(land)
    StageFiles(system, root, name, buckets=buckets).write(batches)


def read_frame(frame: "DataFrame", run: Callable[[Iterable[Any]], Iterator[Any]]) -> "DataFrame":
    """Map a DataFrame in Spark's workers with `run`, which yields rows of the kind "read"."""
    return frame.mapInArrow(run, spark_ddl(SHAPES[READ_KIND]))


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
