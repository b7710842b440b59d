"""Make the tables that say how far the others can be trusted: what was there to be read, and what was not."""

from pyspark.sql import DataFrame, functions as f

from groupsdk.history.tables.following import REJECT, of_kind
from groupsdk.history.tables.shape import shaped
from groupsdk.wire.coordinator_records.offsets_log import KEYS


def rejects(rest: DataFrame, events: DataFrame) -> DataFrame:
    """Make the table `rejects`: what could not be read from the files, and what could not be decoded.

    Args:
        rest: records of the kind "rest".
        events: of `following.events`.
    """
    unread = rest.filter(f.col("reason").isNotNull()).select(
        *("src_partition", "src_offset", "group_id", "record_type"),
        *("reason", "place", "lost", "key", "value"),
    )
    records = rest.select("src_partition", "src_offset", "key", "value").distinct()
    undecoded = (
        events.transform(of_kind(REJECT))
        .join(records, ["src_partition", "src_offset"], "left")
        .withColumn("place", f.lit(None).cast("string"))
        .withColumn("lost", f.lit(1).cast("bigint"))
        .select(unread.columns)
    )
    return unread.unionByName(undecoded).transform(shaped("rejects"))


def quality(
    commits: DataFrame, rest: DataFrame, rejects: DataFrame, generations: DataFrame
) -> DataFrame:
    """Make the table `quality`: one row for each partition of the log.

    Offsets that are missing between the first and the last (`offset_gaps`) are what compaction took, or
    what bad batches and missing files held. A group has missing generations where its numbers jump.

    Args:
        commits: the table `offset_commits`.
        rest: records of the kind "rest".
        rejects: the table `rejects`.
        generations: the table `generations`.
    """
    places = commits.select("src_partition", "src_offset", "ts").unionByName(
        rest.filter(f.col("reason").isNull() | f.col("record_type").isNotNull()).select(
            "src_partition", "src_offset", "ts"
        )
    )
    covered = places.groupBy("src_partition").agg(
        f.min("src_offset").alias("first_offset"),
        f.max("src_offset").alias("last_offset"),
        f.count("*").alias("records"),
        (f.max("src_offset") - f.min("src_offset") + 1 - f.count("*")).alias("offset_gaps"),
        f.min("ts").alias("first_ts"),
        f.max("ts").alias("last_ts"),
    )
    unknown = ~f.col("record_type").isin(*KEYS)
    refused = rejects.groupBy("src_partition").agg(
        f.count_if(f.col("record_type").isNull() & f.col("place").isNotNull()).alias("bad_batches"),
        f.count_if(f.col("record_type").isNotNull() & ~unknown).alias("undecodable"),
    )
    types = (
        rejects.filter(unknown)
        .groupBy("src_partition", f.col("record_type").cast("int").alias("type"))
        .agg(f.count("*").alias("n"))
        .groupBy("src_partition")
        .agg(f.map_from_entries(f.collect_list(f.struct("type", "n"))).alias("unknown_types"))
    )
    missing = generations.groupBy("src_partition").agg(
        f.sum("missing_before").alias("missing_generations")
    )
    return (
        covered.join(refused, "src_partition", "full")
        .join(types, "src_partition", "left")
        .join(missing, "src_partition", "left")
        .fillna(0, ["records", "offset_gaps", "bad_batches", "undecodable", "missing_generations"])
        .withColumn(
            "unknown_types", f.coalesce("unknown_types", f.map_from_arrays(f.array(), f.array()))
        )
        .transform(shaped("quality"))
    )
