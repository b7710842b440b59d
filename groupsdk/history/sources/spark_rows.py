"""Say in which shape a source gives its records: as they stand in the log, or read into tables."""

from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import TYPE_CHECKING, Any, Final

import pyarrow as pa

from groupsdk.errors import ConfigError
from groupsdk.history.kernel.arrow_rows import RAW
from groupsdk.history.reading import TableBatches
from groupsdk.history.sources.filesystems import file_system
from groupsdk.history.stage_files import READ_TABLES, StageFiles, envelope_schema, enveloped


if TYPE_CHECKING:
    from pyspark.sql import DataFrame

RAW_KIND: Final = "raw"
"""Any record, undecoded."""
READ_KIND: Final = "read"
"""What `groupsdk.history.reading` makes of the records: a column for each of its tables, or nothing where they are
written by the task."""

SHAPES: Final[dict[str, Any]] = {RAW_KIND: RAW, READ_KIND: envelope_schema(READ_TABLES)}
"""The Arrow schema of each kind."""

Reading = Callable[["str | None"], "DataFrame"]
"""Reads a log with Spark, by the rules of `groupsdk.history.reading`. Takes the directory into which the tasks write the
tables, as every worker understands it; None where they cannot, and the rows go through Spark."""


def kind_of(options: Mapping[str, str]) -> str:
    """Return the kind that a source's options name.

    Raises:
        ConfigError: there is no such kind, or `land` is given with another one than "read".
    """
    kind = options.get("kind", RAW_KIND)
    shape_of(kind)
    if options.get("land") and kind != READ_KIND:
        raise ConfigError(
            f"land={options['land']!r} needs kind={READ_KIND!r}, not {kind!r}: records of other kinds are given whole"
        )
    return kind


def shape_of(kind: str) -> Any:
    """Return the Arrow schema of a kind.

    Raises:
        ConfigError: there is no such kind.
    """
    if kind not in SHAPES:
        raise ConfigError(f"there are no records of the kind {kind!r}: say {', '.join(SHAPES)}")
    return SHAPES[kind]


def write_or_wrap(made: TableBatches, land: str | None, name: str) -> Iterator[Any]:
    """Write what a task reads where `land` says so; otherwise give it as rows of the kind "read".

    Args:
        made: of `groupsdk.history.reading`.
        land: the directory of the tables.
        name: of the task's files.
    """
    if land is None:
        yield from enveloped(made, READ_TABLES)
        return
    system, root = file_system(land)
    StageFiles(system, root, name).write(made)


def read_frame(frame: "DataFrame", run: Callable[[Iterable[Any]], Iterator[Any]]) -> "DataFrame":
    """Read rows of a DataFrame in Spark's workers with `run`, which gives rows of the kind "read"."""
    return frame.mapInArrow(run, spark_ddl(SHAPES[READ_KIND]))


def spark_ddl(schema: Any) -> str:
    """Write an Arrow schema the way Spark declares one."""
    return ", ".join(f"`{field.name}` {spark_type(field.type)}" for field in schema)


def spark_type(kind: Any) -> str:
    """Write an Arrow type the way Spark declares one.

    Raises:
        ConfigError: it is none that the history has.
    """
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
        raise ConfigError(f"no type of Spark is known for Arrow's {kind}")
    return found


_TYPES: Final = {
    "int8": "tinyint",
    "int16": "smallint",
    "int32": "int",
    "int64": "bigint",
    "double": "double",
    "bool": "boolean",
    "string": "string",
    "binary": "binary",
    "date32[day]": "date",
}
