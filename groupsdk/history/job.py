"""Make the tables with Spark: queries read the log, explain the groups of a bucket together, and write the rows of all tables."""

from collections import defaultdict
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final
from urllib.parse import quote

import pyarrow as pa
from pyspark import StorageLevel
from pyspark.sql import DataFrame, SparkSession, functions as f

from groupsdk.errors import ConfigError
from groupsdk.history.explain import SIZES
from groupsdk.history.explain.arrow_batches import LOG_ENTRY_PARTITION
from groupsdk.history.explain.explaining import Context
from groupsdk.history.pipeline import Options, Progress, make_tables, silent
from groupsdk.history.read import reading, whole_log
from groupsdk.history.read.buckets import BUCKET_BYTES, explain_records
from groupsdk.history.slo import NEEDED
from groupsdk.history.sources.filesystems import StorageDirectory, prepare_folders
from groupsdk.history.sources.spark_rows import PACKED_DDL, Reading, read_tasks, typed
from groupsdk.history.sources.spark_tables import ArrowFiles, RunFiles, SparkFiles
from groupsdk.history.tables import table_formats
from groupsdk.history.tables.delta_tables import check_cluster
from groupsdk.history.tables.lease import held
from groupsdk.history.tables.packed import packed, rows_of, unpacked
from groupsdk.history.tables.publishing import (
    DELTA,
    PARQUET,
    STAGING,
    begin,
    finish,
    format_of,
    publish,
    refuse_other,
)
from groupsdk.history.tables.schemas import CLUSTER, TABLES, UNKNOWN_CLUSTER
from groupsdk.history.tables.spark_lag import lower_bounds, sampled
from groupsdk.history.tables.stage_files import schema_of
from groupsdk.history.tables.stage_tables import RUN_TABLES, highest
from groupsdk.history.tables.stages import COVERAGE, DEFERRED, RECORDS, TALLY, TOPIC_HINTS
from groupsdk.history.tables.table_formats import SparkDelta
from groupsdk.lazy_imports import override


__all__ = ["Inputs", "Options", "SparkEngine", "create_views", "read_tables", "run"]

DRIVER_ROWS: Final = 1_000_000
"""Up to so many commit spans are compared on the driver, where they take some 100 MB: planning and compiling a job of
Spark's costs more than it does."""
SMALL_BUCKET: Final = 4 * 1024 * 1024
"""A log is spread over no more buckets than give each so many bytes: a task costs more than it does."""
SUMS: Final = (COVERAGE, TOPIC_HINTS)
"""The stages that the driver reads: some rows of each task."""


@dataclass(frozen=True, slots=True)
class Inputs:
    """The inputs of a run.

    Attributes:
        records: reads the log: `sources.spark_segments.read_segments`, `sources.spark_topic.read_topic`, `follow.archive.read_raw`.
        topics: topic names by id, as a DataFrame of `topic_id` and `topic`, or as pairs.
        end_offsets: samples of partitions' ends: `topic`, `partition`, `ts`, `end_offset`.
        reasons: why groups rebalanced, from `sources.spark_broker_log`.
        ends: why members are gone, from `sources.spark_broker_log`.
    """

    records: Reading
    topics: DataFrame | Sequence[tuple[str, str]] | None = None
    end_offsets: DataFrame | None = None
    reasons: DataFrame | None = None
    ends: DataFrame | None = None


def run(
    spark: SparkSession,
    inputs: Inputs,
    out: str,
    options: Options | None = None,
    *,
    progress: Progress = silent,
) -> "Tables":
    """Make every table and write it below `out`, replacing existing tables.

    A run can be repeated, and then has the same rows. Existing tables stay as they are until all new ones are
    complete: a run that fails changes nothing.

    Args:
        spark: the session; see `session.build_session`.
        inputs: what to read.
        out: a directory that driver and executors share.
        options: assignors, storms and formats; the defaults unless given.
        progress: called before each step.

    Returns:
        The tables by name, as they are read from their files.

    Raises:
        ConfigError: an assignor is not known, or another process writes into `out`.
    """
    options = options or Options()
    options.check()
    table_formats.check(spark, options.format)
    store = StorageDirectory(spark, out)
    refuse_other(store, options.format)
    staging, held_by = STAGING, store.root
    if options.format == DELTA:
        check_cluster(options.cluster_id)
        # other clusters' runs into the same tables have directories of their own
        staging = f"{STAGING}/{quote(options.cluster_id, safe='')}"
        held_by = f"{store.root}/{staging}"
    with held(held_by):
        if options.format == DELTA:
            store.delete(f"{staging}/made")
            staging = f"{staging}/made"
        else:
            begin(store, RUN_TABLES)
        engine = SparkEngine(spark, inputs, f"{store.root}/{staging}", options.cluster_id)
        try:
            make_tables(engine, options, engine.topics, progress)
            engine.fill()
            if options.format == PARQUET:
                publish(store, RUN_TABLES)
            else:
                _save(spark, engine.root, store, options)
        finally:
            engine.close()
            store.delete(staging)
    return Tables(spark, options.format, store.root)


def _save(spark: SparkSession, made: str, store: StorageDirectory, options: Options) -> None:
    """Bring the tables of a lakehouse up to date with those that a run has made as Parquet."""
    lake = SparkDelta(spark, store, options.cluster_id, options.retention)
    for name in RUN_TABLES:
        table = table_formats.load(spark, name, PARQUET, made)
        if options.format == DELTA:
            lake.replace(name, table)
        else:
            table_formats.save_iceberg(spark, table, TABLES[name], store)


class Tables(Mapping[str, DataFrame]):
    """The tables of a directory, each opened when it is asked for: Spark lists the files of each it opens."""

    def __init__(
        self, spark: SparkSession, table_format: str, root: str, cluster_id: str | None = None
    ) -> None:
        self.root = root
        self._cluster_id = cluster_id
        self._spark = spark
        self._format = table_format
        self._opened: dict[str, DataFrame] = {}

    @override
    def __getitem__(self, name: str) -> DataFrame:
        if name not in RUN_TABLES:
            raise KeyError(name)
        if name not in self._opened:
            found = table_formats.load(self._spark, name, self._format, self.root)
            if self._cluster_id is not None:
                found = found.filter(f.col(CLUSTER) == self._cluster_id)
            self._opened[name] = found
        return self._opened[name]

    def of_cluster(self, cluster_id: str) -> "Tables":
        """Return the tables with the rows of one cluster only."""
        return Tables(self._spark, self._format, self.root, cluster_id)

    @override
    def __iter__(self) -> Iterator[str]:
        return iter(RUN_TABLES)

    @override
    def __len__(self) -> int:
        return len(RUN_TABLES)


class SparkEngine:
    """Runs the steps as queries of Spark's, over packed rows (`groupsdk.history.tables.packed`).

    The log is read once, and kept on the executors' disks while the run lasts. One query explains the groups and writes all
    tables. The driver collects the sums of the tasks, and the spans of commits up to `DRIVER_ROWS`, which
    `groupsdk.history.read.whole_log` needs.
    """

    def __init__(
        self,
        spark: SparkSession,
        inputs: Inputs,
        root: str,
        cluster_id: str = UNKNOWN_CLUSTER,
    ) -> None:
        self.root = root
        self._inputs = inputs
        self._kept: list[DataFrame] = []
        tasks = None if inputs.records.tasks is None else inputs.records.tasks()
        if tasks is None:
            self._buckets = count_buckets(spark, None)
            self._log = self._keep(inputs.records.frame(self._buckets))
        else:
            self._buckets = count_buckets(spark, sum(each.size for each in tasks))
            self._log = self._keep(read_tasks(spark, tasks, self._buckets))
        land = prepare_folders(root, RUN_TABLES)
        self._files: RunFiles
        if land is None:
            self._files = SparkFiles(spark, root, cluster_id)
        else:
            self._files = ArrowFiles(spark, land, cluster_id)
        self.staged = _Stages(self._log, self._files)

    def topics(self) -> list[tuple[str, str]]:
        given = self._inputs.topics
        if not isinstance(given, DataFrame):
            return list(given or ())
        rows = given.select("topic_id", "topic").collect()
        return [(row["topic_id"], row["topic"]) for row in rows]

    def read(self) -> None:
        self.staged.collect(self._log, SUMS)

    def resolve_transactions(self) -> None:
        deferred = typed(self._log, DEFERRED).repartition("src_partition")
        ordered = deferred.sortWithinPartitions("src_partition", "src_offset")
        buckets = self._buckets

        def resolve(batches: Iterable[Any]) -> Iterator[Any]:
            return packed(reading.resolve_transactions(batches), buckets)

        late = self._keep(ordered.mapInArrow(resolve, PACKED_DDL))
        self._log = self.staged.log = self._log.unionByName(late)
        self.staged.collect(late, SUMS)

    def learn_session_timeout(self, context: Context) -> None:
        self.staged.collect(self._walk(self._records(), context, learning=True), (SIZES,))

    def explain(self, context: Context) -> None:
        records = self._records()
        for each in (self._inputs.reasons, self._inputs.ends):
            if each is not None:
                records = records.unionByName(self._packed_entries(each))
        explained = self._walk(records, context, learning=False)
        self._files.save(self._log.unionByName(explained), "part")

    def lag(self) -> None:
        files = self._files
        if self._inputs.end_offsets is None and files.count("commit_spans") <= DRIVER_ROWS:
            spans = files.read("commit_spans", whole_log.LAG_COLUMNS)
            files.write("lag", whole_log.lower_bounds(spans))
            return
        behind = lower_bounds(files.frame("commit_spans"))
        if self._inputs.end_offsets is not None:
            commits = files.frame("offset_commits")
            behind = behind.unionByName(commits.transform(sampled(self._inputs.end_offsets)))

        def pack(batches: Iterable[Any]) -> Iterator[Any]:
            return packed(("lag", each) for each in batches)

        files.save(behind.mapInArrow(pack, PACKED_DDL), "lag")

    def fill(self) -> None:
        self._files.fill()

    def close(self) -> None:
        """Release the frames that the executors keep."""
        for each in self._kept:
            each.unpersist()

    def _keep(self, frame: DataFrame) -> DataFrame:
        kept = frame.persist(StorageLevel.DISK_ONLY)
        self._kept.append(kept)
        return kept

    def _records(self) -> DataFrame:
        return self._log.filter(f.col("name") == RECORDS)

    def _walk(self, records: DataFrame, context: Context, *, learning: bool) -> DataFrame:
        """Explain the groups, those of a bucket together."""

        # Spark tells by these types that it gives one batch after the other, and not all of a bucket as a table
        def explain_groups(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
            rows = rows_of(batches, RECORDS)
            yield from packed(explain_records(rows, context, learning=learning))

        together = records.repartitionById(self._buckets, "bucket")
        return together.groupBy("bucket").applyInArrow(explain_groups, PACKED_DDL)

    def _packed_entries(self, logged: DataFrame) -> DataFrame:
        buckets = self._buckets

        def pack(batches: Iterable[Any]) -> Iterator[Any]:
            rows = ((RECORDS, reading.record_rows(each)) for each in batches)
            return packed(rows, buckets)

        return _log_entry_rows(logged).mapInArrow(pack, PACKED_DDL)


class _Stages:
    """The sums that the driver has collected, and the tables that it has made of them."""

    def __init__(self, log: DataFrame, files: RunFiles) -> None:
        self.log = log
        self._files = files
        self._rows: defaultdict[str, list[Any]] = defaultdict(list)

    def collect(self, frame: DataFrame, names: Sequence[str]) -> None:
        """Bring the rows of some stages among packed rows to the driver."""
        found = frame.filter(f.col("name").isin(*names)).toArrow()
        for name, batch in unpacked(found.to_batches()):
            self._rows[name].append(batch)

    def read(self, name: str, columns: Sequence[str] | None = None) -> Any:
        if name == TALLY or name in NEEDED:
            # which explaining the groups completes, or makes
            return self._files.read(name, columns)
        found = pa.Table.from_batches(self._rows[name], schema=schema_of(name))
        return found if columns is None else found.select(list(columns))

    def committed(self, groups: Collection[str]) -> Mapping[tuple[str, str], int]:
        mine = typed(self.log, RECORDS).filter(
            (f.col("commits") > 0) & f.col("group_id").isin(*groups)
        )
        found = mine.groupBy("group_id", "topic").agg(f.max("partition").alias("partition"))
        return highest(found.toArrow())

    def write(self, name: str, table: Any) -> None:
        self._files.write(name, table)


def count_buckets(spark: SparkSession, size: int | None) -> int:
    """Return over how many buckets the groups of a log of `size` bytes are spread: each is a task of Spark's."""
    tasks = int(spark.conf.get("spark.sql.shuffle.partitions") or 0) or 1
    if size is None:
        return tasks
    return max(-(-size // BUCKET_BYTES), min(tasks, -(-size // SMALL_BUCKET)), 1)


def _log_entry_rows(logged: DataFrame) -> DataFrame:
    """Convert brokers' log entries to rows that precede the records of their groups."""
    ts_ms = f.unix_millis("ts").alias("ts_ms")
    said = f.struct(ts_ms, *(each for each in logged.columns if each not in ("group_id", "ts")))
    return logged.select(
        "group_id",
        f.lit(LOG_ENTRY_PARTITION).alias("src_partition"),
        f.lit(0).cast("bigint").alias("src_offset"),
        f.to_json(said).cast("binary").alias("value"),
    )


def read_tables(spark: SparkSession, out: str) -> Tables:
    """Read the tables that a run has written, in any of the formats.

    Raises:
        ConfigError: there are none, or the session does not know their format.
    """
    store = StorageDirectory(spark, out)
    finish(store, RUN_TABLES)
    if not store.exists("generations"):
        raise ConfigError(
            f"{out} has no tables of a history: make them with `groupsdk history run`"
        )
    found = format_of(store)
    return Tables(spark, found, store.root)


def create_views(tables: Mapping[str, DataFrame]) -> None:
    """Create a temporary view of each table, for queries with SQL."""
    for name, frame in tables.items():
        frame.createOrReplaceTempView(name)
