"""Say in which shape a source gives its records, and cut the records into it."""

from collections.abc import Iterator
from typing import Any, Final

import pyarrow as pa

from groupsdk.errors import ConfigError
from groupsdk.history.kernel.batches import Records
from groupsdk.history.kernel.commits import read_commits
from groupsdk.history.kernel.rows import COMMITS, RAW, REST, commit_rows, raw_rows, rest_rows


RAW_KIND: Final = "raw"
"""Any record, undecoded."""
COMMITS_KIND: Final = "commits"
"""Committed offsets, decoded."""
REST_KIND: Final = "rest"
"""All but committed offsets, undecoded, and what could not be read."""

SHAPES: Final[dict[str, Any]] = {RAW_KIND: RAW, COMMITS_KIND: COMMITS, REST_KIND: REST}
"""The Arrow schema of each kind."""


def shape_of(kind: str) -> Any:
    """Return the Arrow schema of a kind.

    Raises:
        ConfigError: there is no such kind.
    """
    if kind not in SHAPES:
        raise ConfigError(f"there are no records of the kind {kind!r}: say {', '.join(SHAPES)}")
    return SHAPES[kind]


def cut(kind: str, records: Records, partition: int, place: str) -> Iterator[Any]:
    """Give the records of one kind as a record batch; none where there are no records of it."""
    if kind == RAW_KIND:
        batch = raw_rows(records, partition)
    else:
        commits = read_commits(records)
        if kind == COMMITS_KIND:
            batch = commit_rows(records, commits, partition)
        else:
            batch = rest_rows(records, commits, partition, place)
    if batch.num_rows:
        yield batch


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
