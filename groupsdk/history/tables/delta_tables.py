"""Keep the tables of many clusters in Delta Lake without Spark, with the package `deltalake` (the extra `groupsdk[delta]`).

Each table is changed in transactions of its own. A transaction has an application and a version (`txnAppId`, `txnVersion`), so that a
batch counts once, and of two writers of one cluster the later one is refused; writers of other clusters go on.
"""

import logging
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

import pyarrow as pa
import pyarrow.compute as pc

from groupsdk.errors import ConfigError
from groupsdk.history.sources.filesystems import local_path
from groupsdk.history.tables.lake_changes import (
    DAY,
    GONE,
    IS_GONE,
    NEW,
    SOURCE,
    TARGET,
    ClusterRows,
    Retention,
    another_process,
    app_id,
    changes,
    lake_rows,
    lake_schema,
    partitions_of,
)
from groupsdk.history.tables.schemas import CLUSTER, RAW, TABLES, UNKNOWN_CLUSTER
from groupsdk.history.tables.stage_files import with_cluster
from groupsdk.history.tables.stage_tables import RUN_TABLES


logger = logging.getLogger(__name__)

FOLLOWED_TABLE: Final = "followed"
"""The table, beside those of the history, with a row for each cluster that is followed; see `delta_ledger`."""
VACUUM_HOURS: Final = 168
"""For how long files that no longer count are kept: queries and transactions that began before may still read them."""
_ATTEMPTS: Final = 5
"""How often a change is tried that a compaction or a retirement came in the way of."""


def check_cluster(cluster_id: str) -> None:
    """Raise ConfigError if a log's cluster has no name: its rows could not be told from those of others."""
    if cluster_id == UNKNOWN_CLUSTER:
        raise ConfigError(
            "tables of a lakehouse have many clusters, and the log does not say its own: name it with --cluster NAME"
        )


def place_of(root: str, name: str) -> str:
    local = local_path(root)
    return f"{root.rstrip('/') if local is None else local}/{name}"


def opened(root: str, name: str) -> Any:
    """Return the `deltalake.DeltaTable` of a table below `root`; None if there is none."""
    from deltalake import DeltaTable

    place = place_of(root, name)
    return DeltaTable(place) if DeltaTable.is_deltatable(place) else None


def create(root: str, name: str, schema: Any, partition_by: Sequence[str]) -> Any:
    """Return the `deltalake.DeltaTable` of a table below `root`, which is created if there is none."""
    from deltalake import DeltaTable
    from deltalake.exceptions import CommitFailedError

    found = opened(root, name)
    if found is not None:
        return found
    place = place_of(root, name)
    try:
        return DeltaTable.create(place, schema, mode="ignore", partition_by=list(partition_by))
    except CommitFailedError:
        # another process has just created it
        return DeltaTable(place)


def overwrite(root: str, name: str, rows: Any) -> None:
    """Replace all rows of a table below `root`, which is created if there is none; Delta keeps the versions before."""
    from deltalake import write_deltalake

    write_deltalake(place_of(root, name), rows, mode="overwrite")


@dataclass(frozen=True, slots=True)
class Batch:
    """A batch of an application that continues where it ended: it counts once in each table."""

    app: str
    number: int

    @property
    def seen(self) -> str:
        """The application whose version is that of the cluster after the last batch."""
        return f"{self.app}/cluster"


class DeltaTables:
    """The rows of one cluster in the Delta tables below `root`: a directory, or a URI that deltalake knows. For one thread.

    Credentials of object stores are in the environment, under deltalake's names.
    """

    def __init__(self, root: str, cluster_id: str) -> None:
        self.root = root
        self.cluster_id = cluster_id

    def read(self, name: str, columns: Sequence[str], groups: Sequence[str] | None = None) -> Any:
        """Return columns of the cluster's rows, as an Arrow table; see `report.tables.TableSource`."""
        table = opened(self.root, name)
        schema = pa.schema([lake_schema(name).field(each) for each in columns])
        if table is None:
            return schema.empty_table()
        chosen, by = pc.field(CLUSTER) == self.cluster_id, [CLUSTER]
        if groups is not None:
            chosen &= pc.field("group_id").isin(pa.array(groups, pa.string()))
            by.append("group_id")
        return _rows_of(table, columns, chosen, by).cast(schema)

    def count(self, name: str) -> int:
        table = opened(self.root, name)
        if table is None:
            return 0
        return int(
            table.to_pyarrow_dataset().count_rows(filter=pc.field(CLUSTER) == self.cluster_id)
        )

    def versions(self) -> dict[str, int]:
        """Return the version of the cluster's last transaction in each table; -1 if there is none."""
        return {name: self.last(name, app_id(self.cluster_id))[0] for name in RUN_TABLES}

    def last(self, name: str, *apps: str) -> list[int]:
        """Return the version of the last transaction of some applications in a table; -1 if there is none."""
        table = opened(self.root, name)
        return [version_of(table, app) for app in apps]

    def replace(
        self,
        name: str,
        rows: Any,
        after: int,
        *,
        retention: Retention | None = None,
        batch: Batch | None = None,
    ) -> None:
        """Make the cluster's rows of a table equal to `rows`, changing only the rows that differ; a batch counts even if none does.

        `after` is the version that `versions` gave at the beginning; ConfigError if another process has written since then.
        """
        wanted = lake_rows(name, with_cluster(name, rows, self.cluster_id))
        if retention is not None:
            wanted = retention.keep(name, wanted)
            self._retire(name, retention)

        def differing() -> Any:
            return changes(name, self.read(name, lake_schema(name).names), wanted)

        self._commit(name, differing, after, batch)

    def merge(self, name: str, found: Any, after: int, batch: Batch) -> None:
        """Merge changes (`lake_changes.changes`) into a table, as `replace` does."""
        self._commit(name, lambda: found, after, batch)

    def _retire(self, name: str, retention: Retention) -> None:
        table, old = opened(self.root, name), self._rows(name).are_old(retention)
        if table is not None and old is not None:
            table.delete(old)

    def _rows(self, name: str) -> ClusterRows:
        return ClusterRows(name, self.cluster_id)

    def _commit(self, name: str, make: Callable[[], Any], before: int, batch: Batch | None) -> None:
        from deltalake import CommitProperties, Transaction
        from deltalake.exceptions import CommitFailedError

        app = app_id(self.cluster_id)
        marks = [Transaction(app, before + 1)]
        if batch is not None:
            marks += [Transaction(batch.app, batch.number), Transaction(batch.seen, before + 1)]
        for attempt in range(_ATTEMPTS):
            table = create(self.root, name, lake_schema(name), partitions_of(name))
            if version_of(table, app) != before:
                if batch is not None and version_of(table, batch.app) >= batch.number:
                    # a second process delivers the same update
                    return
                break
            found = make()
            if not found.num_rows and batch is None:
                return
            try:
                self._write(table, name, found, CommitProperties(app_transactions=marks))
            except CommitFailedError as error:
                # of the same cluster, which is refused above, or a compaction, after which it is tried again
                logger.info("history: %s, attempt %s: %s", name, attempt + 1, error)
                continue
            return
        raise another_process(self.cluster_id, self.root)

    def _write(self, table: Any, name: str, found: Any, once: Any) -> None:
        from deltalake import write_deltalake

        if pc.all(found.column(NEW), min_count=0).as_py():
            # a batch without rows leaves its marks all the same
            rows = found.drop_columns([GONE, NEW])
            write_deltalake(table, rows, mode="append", commit_properties=once)
            return
        mine = self._rows(name)
        days = found.column(DAY).unique().to_pylist() if DAY in mine.columns else ()
        merger = table.merge(
            found,
            mine.match(days),
            source_alias=SOURCE,
            target_alias=TARGET,
            commit_properties=once,
        )
        merger = merger.when_matched_delete(IS_GONE)
        merger = merger.when_matched_update(mine.values, f"NOT {IS_GONE}")
        merger.when_not_matched_insert(mine.values, f"NOT {IS_GONE}").execute()


def _rows_of(table: Any, columns: Sequence[str], chosen: Any, by: Sequence[str]) -> Any:
    """Return columns of the rows for which the expression `chosen`, of the columns `by`, is true, as an Arrow table.

    Delta's statistics choose the files, but their rows are filtered as they come. pyarrow would filter by the statistics in a file too:
    their texts have the type of the file, and where a merge or a deletion has written it, that is `string_view`, which Arrow does not
    compare.
    """
    from pyarrow.dataset import FileSystemDataset, Scanner

    whole = table.to_pyarrow_dataset()
    files = list(whole.get_fragments(filter=chosen))
    some = FileSystemDataset(files, whole.schema, whole.format, whole.filesystem)
    rows = some.scanner(columns=list(dict.fromkeys([*columns, *by]))).to_reader()
    return Scanner.from_batches(rows, columns=list(columns), filter=chosen).to_table()


def version_of(table: Any, app: str) -> int:
    """Return the version of the last transaction of an application in a table; -1 if there is none."""
    found = None if table is None else table.transaction_version(app)
    return -1 if found is None else int(found)


def clusters_of(root: str, name: str = "generations") -> list[str]:
    """Return the clusters that a Delta table below `root` has rows of, in order."""
    table = opened(root, name)
    return [] if table is None else sorted({each[CLUSTER] for each in table.partitions()})


@dataclass(frozen=True, slots=True)
class Maintained:
    """What `maintain` did to a table: rows retired, files merged into others, files deleted from storage."""

    name: str
    retired: int
    compacted: int
    deleted: int


def maintain(
    root: str, retention: Retention | None = None, *, vacuum_hours: int = VACUUM_HOURS
) -> Iterator[Maintained]:
    """Retire old rows of all clusters, merge small files, and delete files that no longer count, by Delta's own means.

    Each table that is there is given as it is done. May run beside writers, which try again what it came in the way of; with fewer
    `vacuum_hours` than a query or a write may last, it takes away files that they read.
    """
    for name in (*RUN_TABLES, FOLLOWED_TABLE, RAW):
        table = opened(root, name)
        if table is None:
            continue
        old = None if retention is None or name not in TABLES else retention.old_rows(name)
        retired: Mapping[str, Any] = {} if old is None else table.delete(old)
        compacted = table.optimize.compact()
        deleted = table.vacuum(
            vacuum_hours, dry_run=False, enforce_retention_duration=vacuum_hours >= VACUUM_HOURS
        )
        table.create_checkpoint()
        table.cleanup_metadata()
        yield Maintained(
            name,
            retired.get("num_deleted_rows") or 0,
            compacted["numFilesRemoved"],
            len(deleted),
        )
