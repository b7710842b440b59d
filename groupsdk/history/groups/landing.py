"""Write what is told of groups as Parquet files where it is made: in the task that follows them, a column at a time.

There are many more assignments than records of groups, and taking them through the JVM costs several times what
making them does.
"""

from collections.abc import Iterable
from typing import Any, Final

import pyarrow as pa

from groupsdk.history.kernel.files import TableFile


TABLES: Final = {"assignment": "assignments", "replay": "replay"}
"""The tables that are done with that, by their kinds of events."""
EVENTS_FOLDER: Final = "_stages/events"
"""All other kinds: the schema `arrow.EVENTS`, with a folder for each kind."""
GROUP_ROWS: Final = 100_000
"""Of the finished tables: how many rows stand in memory until they are written."""
_WIDE_ROWS: Final = 20_000


def land(followed: Iterable[tuple[str, Any]], system: Any, root: str, name: str) -> None:
    """Write all that is told of some groups; where it fails, there are no files.

    Args:
        followed: of `arrow.follow`.
        system: pyarrow's file system.
        root: the directory of the tables.
        name: of the files; no other task may have it.
    """
    files: dict[str, TableFile] = {}
    try:
        for kind, batch in followed:
            if kind not in files:
                files[kind] = _file(kind, batch.schema, system, root, name)
            files[kind].add(batch if kind in TABLES else _as_one(kind, batch))
        for each in files.values():
            each.close()
        for each in files.values():
            each.publish()
    finally:
        for each in files.values():
            each.abandon()


def _file(kind: str, schema: Any, system: Any, root: str, name: str) -> TableFile:
    if kind in TABLES:
        folder = f"{root}/{TABLES[kind]}"
        return TableFile(system, folder, f"{name}.parquet", schema, group_rows=GROUP_ROWS)
    column = pa.schema([(kind, pa.struct(list(schema)))])
    folder = f"{root}/{EVENTS_FOLDER}/kind={kind}"
    return TableFile(system, folder, f"{name}.parquet", column, group_rows=_WIDE_ROWS)


def _as_one(kind: str, batch: Any) -> Any:
    filled = pa.StructArray.from_arrays(batch.columns, fields=list(batch.schema))
    return pa.RecordBatch.from_arrays([filled], names=[kind])


def folders() -> list[str]:
    """List the folders into which it is written."""
    return [EVENTS_FOLDER, *TABLES.values()]
