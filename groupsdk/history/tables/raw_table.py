"""Keep the raw records of many clusters in one Delta table, each once: the bronze layer of a lakehouse, to which rows are only appended.

A commit has, as a transaction's version for each partition of the log that it has records of, the next offset to read. So the position
in the log is in the table's own log, and a commit that another process made first is refused.
"""

from collections.abc import Iterable, Iterator, Mapping
from itertools import chain
from typing import TYPE_CHECKING, Any, Final
from urllib.parse import unquote

import pyarrow as pa

from groupsdk.errors import ConfigError
from groupsdk.history.tables.delta_tables import clusters_of, create, opened
from groupsdk.history.tables.lake_changes import DAY, another_process, app_id
from groupsdk.history.tables.schemas import CLUSTER, RAW, TABLES
from groupsdk.history.tables.stage_files import cluster_column


if TYPE_CHECKING:
    # it imports the connections of members, and archiving files does not need them
    from groupsdk.history.sources.topic_ranges import TopicSettings


SCHEMA: Final = pa.schema([(CLUSTER, pa.string()), *TABLES[RAW].stored_schema])
PARTITIONS: Final = (CLUSTER, DAY)


def only_cluster(root: str, cluster_id: str | None) -> str:
    """Return `cluster_id`, or the only cluster of the table; ConfigError if it has others only, or several."""
    found = clusters_of(root, RAW)
    if cluster_id in found:
        return str(cluster_id)
    if cluster_id is None and len(found) == 1:
        return found[0]
    names = ", ".join(found) or "none"
    raise ConfigError(f"name one of the clusters in {root}/{RAW} with --cluster: {names}")


def raw_files(root: str, cluster_id: str) -> list[tuple[str, int]]:
    """Return the path below `root` and the size in bytes of each file of a cluster's records."""
    actions = opened(root, RAW).get_add_actions(flatten=True)
    columns = (f"partition.{CLUSTER}", "path", "size_bytes")
    rows = zip(*(actions[each].to_pylist() for each in columns), strict=True)
    # a path is encoded as in a URI
    return sorted((f"{RAW}/{unquote(path)}", size) for of, path, size in rows if of == cluster_id)


class RawTable:
    """The raw records of one cluster in the Delta table below `root`. For one thread."""

    def __init__(self, root: str, cluster_id: str) -> None:
        self.root = root
        self.cluster_id = cluster_id

    def positions(self, partitions: Iterable[int]) -> dict[int, int]:
        """Return the next offset of each partition of the log that has records in the table.

        Raises ConfigError if another program has written the cluster's records, which has left no positions.
        """
        table = opened(self.root, RAW)
        found = {} if table is None else self._positions(table, partitions)
        if not found and self.cluster_id in clusters_of(self.root, RAW):
            raise ConfigError(
                f"the records of the cluster {self.cluster_id!r} in {self.root}/{RAW} were written without positions: choose another directory for --out"
            )
        return found

    def append(
        self, rows: Iterable[Any], before: Mapping[int, int], after: Mapping[int, int]
    ) -> None:
        """Append Arrow batches of the schema `read.arrow_rows.RAW`, in one commit, and with it the positions `after`.

        `before` are those that `positions` returned; ConfigError if another process has appended since.
        """
        from deltalake import CommitProperties, Transaction, write_deltalake
        from deltalake.exceptions import CommitFailedError

        table = create(self.root, RAW, SCHEMA, PARTITIONS)
        if self._positions(table, after) != {
            each: before[each] for each in after if each in before
        }:
            raise another_process(self.cluster_id, self.root)
        marks = [Transaction(self._app(each), offset) for each, offset in after.items()]
        reader = pa.RecordBatchReader.from_batches(SCHEMA, self._with_cluster(rows))
        try:
            write_deltalake(
                table,
                reader,
                mode="append",
                commit_properties=CommitProperties(app_transactions=marks),
            )
        except CommitFailedError as error:
            raise another_process(self.cluster_id, self.root) from error

    def _positions(self, table: Any, partitions: Iterable[int]) -> dict[int, int]:
        found = {each: table.transaction_version(self._app(each)) for each in partitions}
        return {each: int(offset) for each, offset in found.items() if offset is not None}

    def _app(self, partition: int) -> str:
        return f"{app_id(self.cluster_id)}/{RAW}/{partition}"

    def _with_cluster(self, batches: Iterable[Any]) -> Iterator[Any]:
        for batch in batches:
            yield cluster_column(batch, self.cluster_id).cast(SCHEMA)


def archive_topic(settings: "TopicSettings", table: RawTable) -> int:
    """Append the new records of a live topic, without Spark; returns how many offsets that are.

    Raises:
        ConfigError: another process appends records of the cluster, or they were written without positions.
        DataLossError: the next offsets to read are no longer in the topic.
        NetworkError: a broker cannot be reached.
    """
    spans = settings.spans()
    positions = table.positions(spans)
    done = 0
    while ranges := settings.next_ranges(spans, positions):
        after = {each.partition: each.end for each in ranges}
        table.append(chain.from_iterable(map(settings.raw, ranges)), positions, after)
        positions |= after
        done += sum(each.end - each.start for each in ranges)
    return done
