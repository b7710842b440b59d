"""Write and read the tables as Delta or Iceberg with Spark; Delta tables are brought up to date by MERGE, as `delta_tables` does."""

from collections.abc import Callable, Collection, Mapping
from functools import reduce
from typing import Any, Final
from uuid import uuid4
from zlib import crc32

import pyspark
from pyspark import StorageLevel
from pyspark.errors import PySparkException
from pyspark.sql import Column, DataFrame, SparkSession, functions as f

from groupsdk.clock import WallClock
from groupsdk.errors import ConfigError
from groupsdk.history.session import is_remote
from groupsdk.history.sources.filesystems import StorageDirectory
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
    keys_of,
    lake_schema,
    partitions_of,
)
from groupsdk.history.tables.publishing import DELTA, FORMATS, ICEBERG, PARQUET
from groupsdk.history.tables.schemas import TABLES, Table


CATALOG: Final = "groupsdk_history"
"""How the catalogs of Iceberg's begin, under which the tables of a directory are."""

_PACKAGES: Final[Mapping[str, Mapping[str, str]]] = {
    DELTA: {
        "4.1": "io.delta:delta-spark_4.1_2.13:4.4.0",
        "4.2": "io.delta:delta-spark_4.2_2.13:4.4.0",
    },
    ICEBERG: {
        "4.1": "org.apache.iceberg:iceberg-spark-runtime-4.1_2.13:1.12.0",
    },
}
"""The package of Maven Central for each version of Spark; each is built for one."""

_EXTENSIONS: Final = {
    DELTA: "io.delta.sql.DeltaSparkSessionExtension",
    ICEBERG: "org.apache.iceberg.spark.extensions.IcebergSparkSessionExtensions",
}

_APP: Final = "spark.databricks.delta.write.txnAppId"
_VERSION: Final = "spark.databricks.delta.write.txnVersion"
_MARK: Final = "spark.databricks.delta.commitInfo.userMetadata"
_SINCE: Final = 100
"""Among how many of a table's last commits a write is looked for: other clusters write as well."""
_BEFORE, _AFTER = "_before", "_after"


def format_settings(table_format: str) -> dict[str, str]:
    """Return the settings that make a new session fetch and use a format's package; ConfigError if there is none for this Spark."""
    if table_format not in FORMATS:
        raise ConfigError(f"format must be one of {', '.join(FORMATS)}, not {table_format!r}")
    if table_format == PARQUET:
        return {}
    version = ".".join(pyspark.__version__.split(".")[:2])
    package = _PACKAGES[table_format].get(version)
    if package is None:
        known = ", ".join(_PACKAGES[table_format])
        raise ConfigError(
            f"there is no release of {table_format} for Spark {version} yet, only for {known}: install another"
            " pyspark, or choose another format"
        )
    settings = {
        "spark.jars.packages": package,
        "spark.sql.extensions": _EXTENSIONS[table_format],
    }
    if table_format == DELTA:
        catalog = "org.apache.spark.sql.delta.catalog.DeltaCatalog"
        return {
            **settings,
            "spark.sql.catalog.spark_catalog": catalog,
            # a table's log is read in 50 tasks otherwise, of which two would do
            "spark.databricks.delta.snapshotPartitions": "2",
        }
    return settings


def _catalog(root: str) -> dict[str, str]:
    """Return the settings of a catalog whose tables are the subdirectories of a directory."""
    # a catalog is made once in a session, so each directory has its own
    name = f"spark.sql.catalog.{catalog_of(root)}"
    return {
        name: "org.apache.iceberg.spark.SparkCatalog",
        f"{name}.type": "hadoop",
        f"{name}.warehouse": root,
    }


def catalog_of(root: str) -> str:
    return f"{CATALOG}_{crc32(root.encode()):08x}"


def save_iceberg(
    spark: SparkSession, frame: DataFrame, table: Table, store: StorageDirectory
) -> None:
    """Write a table, replacing an existing one."""
    for key, value in _catalog(store.root).items():
        spark.conf.set(key, value)
    writer = frame.writeTo(f"{catalog_of(store.root)}.{table.name}").using(ICEBERG)
    for column in table.partition_by:
        writer = writer.partitionedBy(f.col(column))
    writer.createOrReplace()


def load(spark: SparkSession, name: str, table_format: str, root: str) -> DataFrame:
    check(spark, table_format)
    reader = spark.read.format(table_format)
    if table_format == PARQUET:
        reader = reader.schema(TABLES[name].ddl)
    found = reader.load(f"{root}/{name}")
    if table_format == PARQUET:
        return found
    # Iceberg has no small numbers
    return found.selectExpr(
        *(f"cast(`{each}` as {kind}) `{each}`" for each, kind in TABLES[name].columns.items())
    )


def check(spark: SparkSession, table_format: str) -> None:
    """Raise ConfigError if a session does not have the package of a format."""
    if table_format == PARQUET:
        return
    if _EXTENSIONS.get(table_format, "") in (spark.conf.get("spark.sql.extensions", "") or ""):
        return
    if is_remote(spark):
        raise ConfigError(
            f"the server of Spark Connect was started without {table_format}: start it with the settings of"
            f" table_formats.format_settings({table_format!r})"
        )
    raise ConfigError(
        f"this Spark session was started without {table_format}: build it with"
        f" session.build_session(settings=table_formats.format_settings({table_format!r}))"
    )


class SparkDelta:
    """The rows of one cluster in the Delta tables of a directory.

    Transactions are those of `delta_tables`: the application is the cluster's, the version is the time at which the run is written. Two
    runs of one cluster at a time exclude each other by them.
    """

    def __init__(
        self,
        spark: SparkSession,
        store: StorageDirectory,
        cluster_id: str,
        retention: Retention | None,
    ) -> None:
        self._spark = spark
        self._store = store
        self._cluster_id = cluster_id
        self._retention = retention
        self._app = app_id(cluster_id)
        self._version = WallClock().now_ms()
        self._mark = uuid4().hex

    def replace(self, name: str, rows: DataFrame) -> None:
        """Make the cluster's rows of a table equal to those of a run, changing only the rows that differ."""
        wanted = self._kept(name, _lake_rows(name, rows))
        path = f"{self._store.root}/{name}"
        if not self._store.exists(f"{name}/_delta_log"):
            self._spark.createDataFrame([], wanted.schema).write.format(DELTA).mode(
                "ignore"
            ).partitionBy(*partitions_of(name)).save(path)
        mine = ClusterRows(name, self._cluster_id)
        old = mine.are_old(self._retention)
        if old is not None:
            self._spark.sql(f"DELETE FROM delta.`{path}` WHERE {old}")
        before = self._spark.read.format(DELTA).load(path).filter(mine.are_mine)
        self.merge(name, _changes(name, before.select(*wanted.columns), wanted))

    def merge(self, name: str, found: DataFrame) -> None:
        """Merge changes (with the columns `GONE` and `NEW`) into a table that is there."""
        mine, path = ClusterRows(name, self._cluster_id), f"{self._store.root}/{name}"
        found = found.persist(StorageLevel.DISK_ONLY)
        try:
            kinds = found.select(_day(name), NEW).distinct().collect()
            if all(row[NEW] for row in kinds) and kinds:
                writer = found.drop(GONE, NEW).write.format(DELTA).mode("append")
                self._once(path, lambda: writer.save(path))
            elif kinds:
                self._merge(mine, path, found, {row[DAY] for row in kinds})
        finally:
            found.unpersist()

    def _kept(self, name: str, rows: DataFrame) -> DataFrame:
        old = None if self._retention is None else self._retention.old_rows(name)
        return rows if old is None else rows.filter(f"NOT coalesce({old}, false)")

    def _merge(self, mine: ClusterRows, path: str, found: DataFrame, days: Collection[Any]) -> None:
        written = ", ".join(f"{column} = {value}" for column, value in mine.values.items())
        view = f"groupsdk_{mine.name}"
        found.createOrReplaceTempView(view)
        merge = (
            f"MERGE INTO delta.`{path}` {TARGET} USING {view} {SOURCE} ON {mine.match(days)}"
            f" WHEN MATCHED AND {IS_GONE} THEN DELETE"
            f" WHEN MATCHED THEN UPDATE SET {written}"
            f" WHEN NOT MATCHED AND NOT {IS_GONE}"
            f" THEN INSERT ({', '.join(mine.values)}) VALUES ({', '.join(mine.values.values())})"
        )
        try:
            self._once(path, lambda: self._spark.sql(merge))
        finally:
            self._spark.catalog.dropTempView(view)

    def _once(self, path: str, write: Callable[[], object]) -> None:
        """Carry a write out as the cluster's transaction; Delta passes over one whose version is not above the last one."""
        settings = {_APP: self._app, _VERSION: str(self._version), _MARK: self._mark}
        for key, value in settings.items():
            self._spark.conf.set(key, value)
        try:
            write()
        except PySparkException as error:
            if "Concurrent" not in str(error):
                raise
            raise self._refused() from error
        finally:
            for key in settings:
                self._spark.conf.unset(key)
        history = self._spark.sql(f"DESCRIBE HISTORY delta.`{path}` LIMIT {_SINCE}")
        if history.filter(f.col("userMetadata") == self._mark).isEmpty():
            raise self._refused()

    def _refused(self) -> ConfigError:
        return another_process(self._cluster_id, self._store.root)


def _day(name: str) -> Column:
    return f.col(DAY) if DAY in partitions_of(name) else f.lit(None).cast("date").alias(DAY)


def _lake_rows(name: str, rows: DataFrame) -> DataFrame:
    source = TABLES[name].day_of
    if source:
        # whatever the session's time zone is
        days = f"cast(unix_micros({source}) div 86400000000 as int)"
        rows = rows.withColumn(DAY, f.expr(f"date_from_unix_date({days})"))
    return rows.select(*lake_schema(name).names).dropDuplicates(keys_of(name))


def _changes(name: str, before: DataFrame, after: DataFrame) -> DataFrame:
    """Return the rows that differ, as `lake_changes.changes` does."""
    keys = keys_of(name)
    old = before.withColumn(_BEFORE, f.lit(1)).alias(_BEFORE)
    new = after.withColumn(_AFTER, f.lit(1)).alias(_AFTER)

    def pair(column: str) -> tuple[Column, Column]:
        return f.col(f"{_BEFORE}.{column}"), f.col(f"{_AFTER}.{column}")

    same_key = [a.eqNullSafe(b) for a, b in map(pair, keys)]
    joined = old.join(new, reduce(Column.__and__, same_key), "full_outer")
    is_gone, is_new = f.col(f"{_AFTER}.{_AFTER}").isNull(), f.col(f"{_BEFORE}.{_BEFORE}").isNull()
    differs = is_gone | is_new
    for column in after.columns:
        if column in keys:
            continue
        a, b = pair(column)
        if TABLES[name].columns[column].startswith("map"):
            a, b = (f.sort_array(f.map_entries(each)) for each in (a, b))
        differs = differs | ~a.eqNullSafe(b)
    columns = [
        f.when(is_gone, a).otherwise(b).alias(each)
        for each in after.columns
        for a, b in [pair(each)]
    ]
    return joined.filter(differs).select(*columns, is_gone.alias(GONE), is_new.alias(NEW))
