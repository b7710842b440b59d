"""Spread the records of groups over buckets, and explain the groups of a bucket, in tasks of both engines, without a shuffle."""

import os
from collections.abc import Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import chain
from tempfile import TemporaryDirectory
from typing import Any, Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from groupsdk.history.explain.arrow_batches import sizes_of, tables_of
from groupsdk.history.explain.explaining import Context
from groupsdk.history.explain.timeline.modern_protocols import PROTOCOL_BY_RECORD_TYPE
from groupsdk.history.read.reading import ReadTask
from groupsdk.history.sources.filesystems import file_system
from groupsdk.history.tables.schemas import UNKNOWN_CLUSTER
from groupsdk.history.tables.stage_files import StageFiles
from groupsdk.history.tables.stage_tables import BATCH_ROWS, LogPosition, StageTables
from groupsdk.history.tables.stages import RECORD_ROWS, RECORDS


BUCKET_BYTES: Final = 32 * 1024 * 1024
"""How much of a log goes into one bucket."""
HELD_BYTES: Final = 64 * 1024 * 1024
"""Up to so many bytes of a bucket are held at once, before they are compressed; of more, one piece after the other."""
PIECES: Final = 8
"""A group that does not fit is read in pieces of this part of `HELD_BYTES`: to sort one takes three times its size."""

_MODERN: Final = pa.array([kind.to_bytes(2, "big") for kind in sorted(PROTOCOL_BY_RECORD_TYPE)])


def bucket_count(size: int, processes: int) -> int:
    count = -(-size // BUCKET_BYTES) or 1
    # groups differ: more buckets than processes keep all busy to the end
    return count if processes == 1 else max(count, 2 * processes)


@dataclass(frozen=True, slots=True)
class Buckets:
    """The buckets of a run or an update, below `root`, as every process understands it; can be pickled."""

    root: str
    count: int
    cluster_id: str = UNKNOWN_CLUSTER

    def files(self, name: str) -> StageFiles:
        """Return the files of a task; `name` is unique in the run."""
        system, root = file_system(self.root)
        return StageFiles(system, root, name, buckets=self.count, cluster_id=self.cluster_id)

    def read(self, task: ReadTask) -> None:
        self.files(task.name).write(task.read())

    def explain(self, bucket: int, context: Context, *, learning: bool = False) -> None:
        """Explain the groups of a bucket, and write their tables; `learning`: only the sizes of the newer protocols' silences."""
        made = self.follow_bucket(bucket, context, learning=learning)
        system, root = file_system(self.root)
        name = f"part-{bucket:05}-{'learned' if learning else 'explained'}"
        StageFiles(system, root, name, cluster_id=self.cluster_id).write(made)

    def follow_bucket(
        self, bucket: int, context: Context, *, learning: bool = False
    ) -> Iterator[tuple[str, Any]]:
        """Yield the tables of the groups of a bucket, from its files."""
        system, root = file_system(self.root)
        tables = StageTables(system, root)
        mine = f"/bucket={bucket}/"
        files = [each for each in tables.files(RECORDS) if self.count == 1 or mine in each]
        if not files:
            return
        groups = _modern_groups(tables, files) if learning else None
        batches = (
            batch
            for records in _in_pieces(tables, files, groups)
            for batch in records.to_batches(max_chunksize=BATCH_ROWS)
        )
        yield from follow(batches, context, learning=learning)


def follow(
    batches: Iterable[Any], context: Context, *, learning: bool
) -> Iterator[tuple[str, Any]]:
    """Explain the groups, or (`learning`) only find the sizes of the newer protocols' silences; see `arrow_batches`."""
    return (sizes_of if learning else tables_of)(batches, context)


def explain_records(
    records: Iterable[Any], context: Context, *, learning: bool = False
) -> Iterator[tuple[str, Any]]:
    """Explain the groups of a bucket from batches of its records in any order.

    Up to `HELD_BYTES` are held in memory. More, as of a group with very many generations, are put into temporary files, and
    read from them piece by piece.
    """
    held: list[Any] = []
    size = 0
    rest = iter(records)
    for batch in rest:
        held.append(batch)
        size += batch.nbytes
        if size > HELD_BYTES:
            break
    else:
        table = pa.Table.from_batches(held, schema=RECORD_ROWS)
        if learning:
            table = table.filter(
                pc.is_in(table.column("group_id"), pa.array(_modern(table), pa.string()))
            )
        batches = in_order(table).to_batches(max_chunksize=BATCH_ROWS)
        yield from follow(batches, context, learning=learning)
        return
    scratch = os.environ.get("SPARK_LOCAL_DIRS", "").partition(",")[0] or None
    with TemporaryDirectory(prefix="groupsdk-bucket-", dir=scratch) as folder:
        spilled = Buckets(folder, 1)
        spilled.files("spilled").write((RECORDS, each) for each in chain(_given_away(held), rest))
        yield from spilled.follow_bucket(0, context, learning=learning)


def _given_away(held: list[Any]) -> Iterator[Any]:
    """Yield the items of a list, which holds each no longer then."""
    held.reverse()
    while held:
        yield held.pop()


def _modern_groups(tables: StageTables, files: Sequence[str]) -> list[str]:
    """Return the groups with records of the newer protocols: those of the classic one have the session timeout."""
    return _modern(tables.read(RECORDS, ("group_id", "key"), files=files))


def _modern(keys: Any) -> list[str]:
    kinds = pc.binary_slice(keys.column("key"), 0, 2)
    names = keys.filter(pc.is_in(kinds, _MODERN)).column("group_id")
    found: list[str] = pc.unique(pc.drop_null(names)).to_pylist()
    return found


def _in_pieces(
    tables: StageTables, files: Sequence[str], groups: Collection[str] | None = None
) -> Iterator[Any]:
    """Read the rows of a bucket, or of some of its groups, in order; in pieces if they do not fit in memory."""
    count, size = tables.sizes(files)
    if size <= HELD_BYTES:
        yield in_order(tables.read(RECORDS, groups=groups, files=files))
        return
    limit = max(1, count * HELD_BYTES // size)
    band: list[str | None] = []
    held = 0
    for group, rows in _counts(tables, files, groups):
        if rows > limit and group:
            for first, last in _ranges(tables, files, group, max(1, limit // PIECES)):
                yield in_order(tables.read_range(RECORDS, group, first, last, files))
            continue
        if band and held + rows > limit:
            yield in_order(tables.read(RECORDS, groups=band, files=files))
            band, held = [], 0
        # rows without a name count as those of a group named ""
        band += [group] if group else [group, None]
        held += rows
    if band:
        yield in_order(tables.read(RECORDS, groups=band, files=files))


def _counts(
    tables: StageTables, files: Sequence[str], groups: Collection[str] | None
) -> list[tuple[str, int]]:
    """Return how many rows each group has; "" for those without a name."""
    keys = tables.read(RECORDS, ("group_id",), groups=groups, files=files)
    found = pc.value_counts(pc.fill_null(keys.column("group_id"), pa.scalar("")))
    return [(each["values"], each["counts"]) for each in found.to_pylist()]


def _ranges(
    tables: StageTables, files: Sequence[str], group: str, limit: int
) -> list[tuple[LogPosition, LogPosition]]:
    """Divide the rows of one group, in order, into pieces of about the given number; returns the first and the last place of each."""
    # all places go before the first piece is read
    columns = ("group_id", "src_partition", "src_offset")
    rows = tables.read(RECORDS, columns, groups=(group,), files=files).columns[1:]
    partitions, offsets = (rows.pop(0).to_numpy() for _ in range(2))
    order = np.lexsort((offsets, partitions))

    def place(number: int) -> LogPosition:
        return int(partitions[order[number]]), int(offsets[order[number]])

    found = []
    start = 0
    while start < len(order):
        stop = min(start + limit, len(order)) - 1
        # one that stands in the log several times stays in one piece
        while stop + 1 < len(order) and place(stop + 1) == place(stop):
            stop += 1
        found.append((place(start), place(stop)))
        start = stop + 1
    return found


def in_order(records: Any) -> Any:
    """Put the rows of each group together, in the order of the log."""
    groups = pc.fill_null(records.column("group_id"), pa.scalar(""))
    records = records.set_column(0, records.schema.field(0), groups)
    order = [(name, "ascending") for name in ("group_id", "src_partition", "src_offset")]
    return records.sort_by(order)
