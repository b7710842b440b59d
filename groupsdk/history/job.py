"""Make the tables with Spark: its tasks read the log, explain the groups and write the rows as Arrow."""

from collections import defaultdict
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property, partial
from typing import Any, Final

from pyspark import TaskContext
from pyspark.sql import DataFrame, SparkSession, functions as f
from typing_extensions import override

from groupsdk.errors import ConfigError
from groupsdk.history.explain.arrow_batches import (
    GROUP_TABLES,
    LOG_ENTRY_PARTITION,
    sizes_of,
    tables_of,
)
from groupsdk.history.explain.explaining import SIZES, Context
from groupsdk.history.explain.timeline.modern_protocols import PROTOCOL_BY_RECORD_TYPE
from groupsdk.history.pipeline import Options, Progress, make_tables, silent
from groupsdk.history.read import reading, whole_log
from groupsdk.history.read.buckets import Buckets, bucket_count
from groupsdk.history.sources.filesystems import StorageDirectory, file_system, prepare_folders
from groupsdk.history.sources.spark_rows import (
    Reading,
    TaskReading,
    read_frame,
    run_in_tasks,
    spark_ddl,
    write_or_wrap,
)
from groupsdk.history.tables import stage_files, table_formats
from groupsdk.history.tables.detect_format import PARQUET, format_of
from groupsdk.history.tables.lease import held
from groupsdk.history.tables.publishing import FOLLOWED, STAGING, begin, finish, publish
from groupsdk.history.tables.schemas import TABLES, Table
from groupsdk.history.tables.spark_lag import lower_bounds, sampled
from groupsdk.history.tables.stage_tables import FOLDERS, RUN_TABLES, Staged, StageTables, highest


__all__ = ["Inputs", "Options", "SparkEngine", "create_views", "read_tables", "run"]

DRIVER_ROWS: Final = 1_000_000
"""Up to so many commit spans are compared on the driver, where they take some 100 MB: planning and compiling a job of
Spark's costs more than it does."""
BUCKET_FILES: Final = 1_024
"""Up to so many files the tasks that read spread the groups over buckets; of a longer log Spark shuffles the groups."""
LARGE_BUCKET: Final = 128 * 1024 * 1024
"""With more bytes of records in a bucket, as one very large group has, Spark shuffles as well: it spills to disk, where a worker would hold
the order of all of them."""
EXPLAINED: Final = (*GROUP_TABLES, reading.TALLY)
"""The tables and counts that explaining the groups makes."""


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
    with held(store.root):
        begin(store, RUN_TABLES)
        engine = SparkEngine(spark, inputs, f"{store.root}/{STAGING}")
        try:
            make_tables(engine, options, engine.topics, progress)
            engine.fill()
            if options.format == PARQUET:
                publish(store, RUN_TABLES)
            else:
                # what is followed there accounts for files that are about to go
                store.delete(FOLLOWED)
                for name in RUN_TABLES:
                    table = table_formats.load(spark, name, PARQUET, engine.root)
                    table_formats.save(spark, table, TABLES[name], options.format, store)
        finally:
            store.delete(STAGING)
    return Tables(spark, options.format, store.root)


class Tables(Mapping[str, DataFrame]):
    """The tables of a directory, each opened when it is asked for: Spark lists the files of each it opens."""

    def __init__(self, spark: SparkSession, table_format: str, root: str) -> None:
        self.root = root
        self._spark = spark
        self._format = table_format
        self._opened: dict[str, DataFrame] = {}

    @override
    def __getitem__(self, name: str) -> DataFrame:
        if name not in RUN_TABLES:
            raise KeyError(name)
        if name not in self._opened:
            self._opened[name] = table_formats.load(self._spark, name, self._format, self.root)
        return self._opened[name]

    @override
    def __iter__(self) -> Iterator[str]:
        return iter(RUN_TABLES)

    @override
    def __len__(self) -> int:
        return len(RUN_TABLES)


class SparkEngine:
    """Runs the steps in Spark's tasks.

    The tasks write their output themselves, with pyarrow: passing rows through the JVM costs several times as much as
    computing them. If the reading tasks are known beforehand, they also put the records of each group into a bucket, and
    Spark neither plans a query nor shuffles. If pyarrow does not know the file system, Spark writes all tables of a
    stage as one, and splits that."""

    def __init__(self, spark: SparkSession, inputs: Inputs, root: str) -> None:
        self.root = root
        self._spark = spark
        self._inputs = inputs
        self._land = prepare_folders(root, FOLDERS)
        self._tables: StageTables | None = None
        self._buckets: Buckets | None = None
        self.staged: Staged = _SparkTables(spark, root)
        if self._land is not None:
            self.staged = self._tables = StageTables(*file_system(self._land))

    def topics(self) -> list[tuple[str, str]]:
        given = self._inputs.topics
        if not isinstance(given, DataFrame):
            return list(given or ())
        rows = given.select("topic_id", "topic").collect()
        return [(row["topic_id"], row["topic"]) for row in rows]

    def read(self) -> None:
        records = self._inputs.records
        if self._land is None or not isinstance(records, TaskReading):
            self._write(records(self._land), stage_files.READ_TABLES, "read")
            return
        tasks = records.tasks()
        count = bucket_count(
            sum(each.size for each in tasks), self._spark.sparkContext.defaultParallelism
        )
        if count * len(tasks) <= BUCKET_FILES:
            self._buckets = Buckets(self._land, count)
        run_in_tasks(self._spark, (self._buckets or Buckets(self._land, 1)).read, tasks)

    def resolve_transactions(self) -> None:
        deferred = self._stage(reading.DEFERRED).repartition("src_partition")
        ordered = deferred.sortWithinPartitions("src_partition", "src_offset")
        land, count = self._land, 1 if self._buckets is None else self._buckets.count

        def run(batches: Iterable[Any]) -> Iterator[Any]:
            resolved = reading.resolve_transactions(batches)
            return write_or_wrap(resolved, land, f"late-{_task():05}", buckets=count)

        self._write(read_frame(ordered, run), stage_files.READ_TABLES, "transactions")

    def learn_session_timeout(self, context: Context) -> None:
        if self._small_buckets is not None:
            self._explain_buckets(self._small_buckets, context, learning=True)
            return
        records = self._stage(reading.RECORDS)
        kind = f.conv(f.hex(f.substring("key", 1, 2)), 16, 10).cast("int")
        modern = records.filter(kind.isin(*PROTOCOL_BY_RECORD_TYPE)).select("group_id").distinct()
        mine = records.join(modern, "group_id", "left_semi").select(*reading.RECORD_ROWS.names)
        self._follow(mine, partial(sizes_of, context=context), (SIZES,), "session-timeout")

    def explain(self, context: Context) -> None:
        entries = [
            _log_entry_rows(each)
            for each in (self._inputs.reasons, self._inputs.ends)
            if each is not None
        ]
        if self._small_buckets is not None:
            self._bucket_log_entries(self._small_buckets, entries)
            self._explain_buckets(self._small_buckets, context, learning=False)
            return
        records = self._stage(reading.RECORDS).select(*reading.RECORD_ROWS.names)
        records = records.withColumn("group_id", f.coalesce("group_id", f.lit("")))
        for each in entries:
            records = records.unionByName(each, allowMissingColumns=True)
        self._follow(records, partial(tables_of, context=context), EXPLAINED, "groups")

    def lag(self) -> None:
        tables = self._tables
        if (
            tables is not None
            and self._inputs.end_offsets is None
            and tables.count("commit_spans") <= DRIVER_ROWS
        ):
            tables.write(
                "lag", whole_log.lower_bounds(tables.read("commit_spans", whole_log.LAG_COLUMNS))
            )
            return
        behind = lower_bounds(self._stage("commit_spans"))
        if self._inputs.end_offsets is not None:
            commits = table_formats.load(self._spark, "offset_commits", PARQUET, self.root)
            behind = behind.unionByName(commits.transform(sampled(self._inputs.end_offsets)))
        _save(behind, TABLES["lag"], f"{self.root}/lag")

    def fill(self) -> None:
        if self._tables is not None:
            self._tables.fill()

    @cached_property
    def _small_buckets(self) -> Buckets | None:
        """The buckets, if a worker can hold the order of each; looks into all files, once the log is read."""
        if self._buckets is None or self._tables is None:
            return None
        of_bucket: defaultdict[str, list[str]] = defaultdict(list)
        for path in self._tables.files(reading.RECORDS):
            of_bucket[path.rpartition("/")[0]].append(path)
        if any(self._tables.sizes(each)[1] > LARGE_BUCKET for each in of_bucket.values()):
            return None
        return self._buckets

    def _explain_buckets(self, buckets: Buckets, context: Context, *, learning: bool) -> None:
        explain = partial(buckets.explain, context=context, learning=learning)
        run_in_tasks(self._spark, explain, range(buckets.count))

    def _bucket_log_entries(self, buckets: Buckets, entries: Iterable[DataFrame]) -> None:
        for number, frame in enumerate(entries):

            def run(batches: Iterable[Any], number: int = number) -> Iterator[Any]:
                files = buckets.files(f"logged-{number}-{_task():05}")
                files.write((reading.RECORDS, reading.record_rows(each)) for each in batches)
                return iter(())

            frame.mapInArrow(run, frame.schema).write.format("noop").mode("overwrite").save()

    def _follow(
        self,
        records: DataFrame,
        follow: Callable[[Iterable[Any]], reading.TableBatches],
        names: Sequence[str],
        stage: str,
    ) -> None:
        """Follow the groups in Spark's workers; the preceding sort takes most space, and spills to disk."""
        land = self._land

        def run(batches: Iterable[Any]) -> Iterator[Any]:
            if land is None:
                yield from stage_files.enveloped(follow(batches), names)
                return
            system, inner = file_system(land)
            stage_files.StageFiles(system, inner, f"{stage}-{_task():05}").write(follow(batches))

        ordered = records.repartition(self._tasks(), "group_id").sortWithinPartitions(
            "group_id", "src_partition", "src_offset"
        )
        self._write(
            ordered.mapInArrow(run, spark_ddl(stage_files.envelope_schema(names))), names, stage
        )

    def _tasks(self) -> int:
        """Return the number of tasks for slow work on few bytes: Spark goes by bytes, and would use a single task.

        Groups differ, so more tasks than cores keep the cores busy to the end.
        """
        return 2 * self._spark.sparkContext.defaultParallelism

    def _write(self, frame: DataFrame, names: Sequence[str], stage: str) -> None:
        if self._land is not None:
            frame.write.format("noop").mode("overwrite").save()
            return
        path = f"{self.root}/{stage_files.STAGES}/_{stage}"
        frame.write.mode("overwrite").parquet(path)
        together = self._spark.read.schema(frame.schema).parquet(path)
        for name in names:
            rows = together.filter(f.col(name).isNotNull()).select(f"{name}.*")
            declared = TABLES.get(name)
            writer = rows.write.mode("append")
            if declared is not None and declared.partition_by:
                writer = writer.partitionBy(*declared.partition_by)
            writer.parquet(f"{self.root}/{stage_files.folder_of(name)}")

    def _stage(self, name: str) -> DataFrame:
        reader = self._spark.read.schema(spark_ddl(stage_files.schema_of(name)))
        return reader.parquet(f"{self.root}/{stage_files.folder_of(name)}")


class _SparkTables:
    """The tables and stages of a run, on storage that only Spark supports."""

    def __init__(self, spark: SparkSession, root: str) -> None:
        self._spark = spark
        self._root = root

    def read(self, name: str, columns: Sequence[str] | None = None) -> Any:
        frame = self._frame(name)
        return (frame if columns is None else frame.select(*columns)).toArrow()

    def committed(self, groups: Collection[str]) -> Mapping[tuple[str, str], int]:
        mine = self._frame(reading.RECORDS).filter(
            (f.col("commits") > 0) & f.col("group_id").isin(*groups)
        )
        return highest(
            mine.groupBy("group_id", "topic").agg(f.max("partition").alias("partition")).toArrow()
        )

    def write(self, name: str, table: Any) -> None:
        rows = [tuple(map(_plain, row.values())) for row in table.to_pylist()]
        frame = self._spark.createDataFrame(rows, TABLES[name].ddl)
        _save(frame, TABLES[name], f"{self._root}/{name}")

    def _frame(self, name: str) -> DataFrame:
        reader = self._spark.read.schema(spark_ddl(stage_files.schema_of(name)))
        return reader.parquet(f"{self._root}/{stage_files.folder_of(name)}")


def _plain(value: Any) -> Any:
    return dict(value) if isinstance(value, list) else value


def _task() -> int:
    context = TaskContext.get()
    assert context is not None
    return context.partitionId()


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


def _save(frame: DataFrame, table: Table, path: str) -> None:
    # days that are no longer there have to go as well
    writer = frame.write.mode("overwrite").option("partitionOverwriteMode", "static")
    if table.partition_by:
        writer = writer.partitionBy(*table.partition_by)
    writer.parquet(path)


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
