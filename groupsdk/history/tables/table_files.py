"""Read, name and merge the files of tables that are kept up to date, and of the state kept beside them."""

from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Final

import numpy as np
import pyarrow as pa
from pyarrow import parquet

from groupsdk.history.explain import SIZES
from groupsdk.history.sources.filesystems import file_system
from groupsdk.history.tables.ledger import CLOSED, STORE, LiveFile
from groupsdk.history.tables.schemas import TABLES
from groupsdk.history.tables.stage_files import (
    STAGES,
    StageFiles,
    list_files,
    with_cluster,
)
from groupsdk.history.tables.stage_tables import BATCH_ROWS, read_parquet
from groupsdk.history.tables.stages import COVERAGE, DEFERRED, RECORDS, STAGED, TALLY, TOPIC_HINTS


STATES: Final = "states"
"""The state of each group, between the last record processed and the next."""
TALLIES: Final = "tallies"
"""How much of each group is missing or cannot be decoded."""

KEPT: Final[dict[str, Any]] = {
    RECORDS: STAGED[RECORDS],
    STATES: pa.schema(
        [
            ("group_id", pa.string()),
            ("src_partition", pa.int32()),
            ("src_offset", pa.int64()),
            ("modern", pa.bool_()),
            ("state", pa.binary()),
        ]
    ),
    SIZES: pa.schema([("group_id", pa.string()), ("size", pa.int32()), ("length", pa.int64())]),
    TALLIES: pa.schema(
        [
            ("group_id", pa.string()),
            ("src_partition", pa.int32()),
            ("what", pa.string()),
            ("n", pa.int64()),
        ]
    ),
    **{name: STAGED[name] for name in (DEFERRED, TOPIC_HINTS, COVERAGE, TALLY)},
}
"""The schemas kept beside the tables. The place of a state is that of the last record processed; if the state is null the
group has to be replayed from its first record."""

MERGED_FILES: Final = 8
"""How many files of about the same size are merged."""
MERGED_BYTES: Final = 256 * 1024 * 1024
"""The maximum size of a merged file: merging is done in memory."""
_SMALL: Final = 32 * 1024


def declared(table: str, *, with_day: bool = True) -> Any:
    """Return the Arrow schema of a table or stage; `with_day` includes the day, which files have in their folder's name."""
    if table not in TABLES:
        return KEPT[table]
    schema = TABLES[table].arrow_schema
    if TABLES[table].partition_by and not with_day:
        schema = schema.remove(schema.get_field_index("day"))
    return schema


def read_batches(system: Any, path: str, table: str) -> Iterator[Any]:
    """Yield the rows of a file as Arrow record batches, without the day, which is in the folder's name."""
    schema = declared(table, with_day=False)
    with system.open_input_file(path) as opened:
        for batch in parquet.ParquetFile(opened).iter_batches(BATCH_ROWS, columns=schema.names):
            yield from pa.Table.from_batches([batch]).select(schema.names).cast(schema).to_batches()


def read_files(
    system: Any,
    paths: Iterable[str],
    table: str,
    columns: Sequence[str] | None = None,
    *,
    groups: Sequence[str] | None = None,
    since: tuple[str, int] | None = None,
) -> Any:
    """Return the rows of several files of a table as an Arrow table, without the day.

    `groups`: only theirs, "" for rows without one; `since`: see `stage_tables.read_parquet`.
    """
    schema = declared(table, with_day=False)
    if columns is not None:
        schema = pa.schema([schema.field(each) for each in columns])
    wanted = [*groups, None] if groups is not None and "" in groups else groups
    return read_parquet(system, paths, schema, wanted, since)


def no_rows(schema: Any) -> Any:
    return pa.RecordBatch.from_arrays(
        [pa.array([], type=each.type) for each in schema], schema=schema
    )


def rows_of(rows: Sequence[tuple[Any, ...]], table: str) -> Any:
    schema = declared(table)
    if not rows:
        return no_rows(schema)
    return pa.RecordBatch.from_arrays(
        [
            pa.array(column, type=each.type)
            for column, each in zip(zip(*rows, strict=True), schema, strict=True)
        ],
        schema=schema,
    )


def added_below(
    system: Any, folder: str, part: str, kind: str, bucket: int, update: int
) -> list[tuple[str, LiveFile]]:
    """List the files that a task of an update has written into `part` of `folder`, each with the live file it becomes."""
    found = []
    for number, each in enumerate(list_files(system, f"{folder}/{part}")):
        source = each.path.removeprefix(f"{folder}/")
        inner = source.removeprefix(f"{part}/").removeprefix(f"{STAGES}/")
        table, *folders = inner.split("/")[:-1]
        own = bucket
        if folders and folders[0].startswith("bucket="):
            own = int(folders.pop().removeprefix("bucket="))
        home = "/".join([table if table in TABLES else f"{STORE}/{table}", *folders])
        place = part.partition("/")[0].replace("-", "")
        name = f"{kind}-{own:05}-{update:08}-{place}-{number:05}.parquet"
        found.append((source, LiveFile(table, f"{home}/{name}", kind, own, each.size)))
    return found


@dataclass(frozen=True, slots=True)
class MergeTask:
    """Files of about the same size, and of one table, day and bucket, to merge into one; can be pickled."""

    root: str
    folder: str
    number: int
    update: int
    files: Sequence[LiveFile]
    cluster_id: str


def merge_tasks(
    files: Iterable[LiveFile], root: str, folder: str, update: int, cluster_id: str
) -> Iterator[MergeTask]:
    """Yield the files to merge: a row is rewritten once for each size class, however many updates there are."""
    alike: defaultdict[tuple[str, str, int, int], list[LiveFile]] = defaultdict(list)
    for each in files:
        if each.kind == CLOSED:
            step = int(np.log(max(each.size, _SMALL) / _SMALL) / np.log(MERGED_FILES))
            alike[each.table, each.day, each.bucket, step].append(each)
    number = 0
    for some in alike.values():
        few = sorted(some)[: 2 * MERGED_FILES]
        if len(few) >= MERGED_FILES and sum(each.size for each in few) <= MERGED_BYTES:
            yield MergeTask(root, folder, number, update, tuple(few), cluster_id)
            number += 1


def merge(task: MergeTask) -> tuple[list[tuple[str, LiveFile]], list[str]]:
    """Merge some files into one; returns the files added and removed, as in `ledger.Change`."""
    system, root = file_system(task.root)
    first = task.files[0]
    table = read_files(system, [f"{root}/{each.path}" for each in task.files], first.table)
    if "group_id" in table.schema.names:
        table = table.sort_by("group_id")
    part = f"merged-{task.number:05}"
    out = StageFiles(system, f"{root}/{task.folder}/{part}", "part", cluster_id=task.cluster_id)
    name = first.table
    if name in TABLES and TABLES[name].partition_by:
        # the folder's name keeps the day
        table = with_cluster(name, table, task.cluster_id)
        _write_plain(system, f"{root}/{task.folder}/{part}/{name}/{first.day}", table)
    else:
        out.write((name, batch) for batch in table.combine_chunks().to_batches())
    added = added_below(system, f"{root}/{task.folder}", part, CLOSED, first.bucket, task.update)
    return added, [each.path for each in task.files]


def _write_plain(system: Any, folder: str, table: Any) -> None:
    system.create_dir(folder, recursive=True)
    parquet.write_table(
        table, f"{folder}/part.parquet", filesystem=system, compression="zstd", store_schema=False
    )
