"""Write and read the tables as Parquet, Delta or Iceberg, to match the format of an existing data lake."""

from collections.abc import Mapping
from typing import Final
from zlib import crc32

import pyspark
from pyspark.sql import DataFrame, SparkSession, functions as f

from groupsdk.errors import ConfigError
from groupsdk.history.sources.filesystems import StorageDirectory
from groupsdk.history.tables.detect_format import DELTA, FORMATS, ICEBERG, PARQUET, format_of
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


def save(
    spark: SparkSession, frame: DataFrame, table: Table, table_format: str, store: StorageDirectory
) -> None:
    """Write a table, replacing an existing one of any format."""
    check(spark, table_format)
    if store.exists(table.name) and format_of(store, table.name) != table_format:
        # its files would be left among the new ones
        store.delete(table.name)
    if table_format == ICEBERG:
        for key, value in _catalog(store.root).items():
            spark.conf.set(key, value)
        writer = frame.writeTo(f"{catalog_of(store.root)}.{table.name}").using(ICEBERG)
        for column in table.partition_by:
            writer = writer.partitionedBy(f.col(column))
        writer.createOrReplace()
        return
    by_file = frame.write.format(table_format).mode("overwrite")
    # days that are no longer there have to go as well
    by_file = by_file.option("partitionOverwriteMode", "static").option("overwriteSchema", "true")
    if table.partition_by:
        by_file = by_file.partitionBy(*table.partition_by)
    by_file.save(f"{store.root}/{table.name}")


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
    if _EXTENSIONS.get(table_format, "") not in (spark.conf.get("spark.sql.extensions", "") or ""):
        raise ConfigError(
            f"this Spark session was started without {table_format}: build it with"
            f" session.build_session(settings=table_formats.format_settings({table_format!r}))"
        )
