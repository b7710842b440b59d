"""Learn the names of topics that records of the newer protocols name by their ids."""

from collections.abc import Iterable, Iterator
from typing import Any

import pyarrow as pa
from pyspark.sql import DataFrame, functions as f

from groupsdk.history.groups.naming import TELLING, told_by_all
from groupsdk.history.tables.following import TOPIC, of_kind
from groupsdk.history.tables.shape import Step, shaped
from groupsdk.history.tables.transactions import COMMITTED


def topics(events: DataFrame, commits: DataFrame, given: DataFrame | None = None) -> DataFrame:
    """Make the table `topics` from what the log tells, and from what the user gives.

    Commits name a topic by both since Kafka 4.1, records of type 4 did so before it.

    Args:
        events: of `following.events`.
        commits: the table `offset_commits`.
        given: `topic_id` and `topic`, as asked from a cluster; goes before what the log tells.
    """
    told = (
        events.transform(of_kind(TOPIC))
        .unionByName(commits.filter(f.col("topic_id").isNotNull()).select("topic_id", "topic"))
        .withColumn("rank", f.lit(1))
    )
    if given is not None:
        told = told.unionByName(given.select("topic_id", "topic").withColumn("rank", f.lit(0)))
    return (
        told.groupBy("topic_id")
        .agg(f.min_by("topic", f.struct("rank", "topic")).alias("topic"))
        .transform(shaped("topics"))
    )


_TOLD = "group_id string, topic string, topic_id string, last_partition int, is_open boolean"


def with_inferred(rest: DataFrame, commits: DataFrame) -> Step:
    """Return the step that adds names to the table `topics` that follow from what groups subscribe to and commit.

    Where nothing names an id, as in the log of a group that commits in transactions only, it is one of the topics that
    the groups which are assigned it subscribe to, and it has at least as many partitions as they committed of that one.
    Where that leaves one name for an id, or one id for what was committed, it has the name: none is guessed.

    Args:
        rest: records of the kind "rest".
        commits: the table `offset_commits`.
    """

    def step(known: DataFrame) -> DataFrame:
        said = rest.filter(f.col("record_type").isin(*TELLING) & f.col("reason").isNull()).select(
            "group_id", "record_type", "key", "value"
        )
        told = said.mapInArrow(_told, _TOLD).distinct()
        unnamed = (
            told.filter(f.col("topic_id").isNotNull())
            .groupBy("group_id", "topic_id")
            .agg(f.max("last_partition").alias("last_partition"))
            .join(known, "topic_id", "anti")
            # of a group that subscribes to a pattern any topic may be
            .join(told.filter("is_open").select("group_id").distinct(), "group_id", "anti")
        ).localCheckpoint()
        if unnamed.isEmpty():
            return known
        names = told.filter(f.col("topic").isNotNull()).select("group_id", "topic").distinct()
        committed = (
            commits.filter((f.col("state") == COMMITTED) & f.col("committed_offset").isNotNull())
            .join(f.broadcast(unnamed.select("group_id").distinct()), "group_id", "semi")
            .groupBy("group_id", "topic")
            .agg(f.max("partition").alias("last_committed"))
        )
        groups = unnamed.groupBy("topic_id").agg(f.count("*").alias("groups"))
        fits = (
            unnamed.join(names, "group_id")
            .join(committed, ["group_id", "topic"], "left")
            .filter(f.coalesce("last_committed", f.lit(-1)) <= f.col("last_partition"))
        )
        # all groups that have the id agree on one name ...
        agreed = (
            fits.groupBy("topic_id", "topic")
            .agg(f.count("*").alias("agreeing"))
            .join(groups, "topic_id")
            .filter(f.col("agreeing") == f.col("groups"))
            .groupBy("topic_id")
            .agg(f.count("*").alias("choices"), f.min("topic").alias("topic"))
            .filter(f.col("choices") == 1)
        )
        # ... or the commits of one can be of no other id
        only = (
            fits.filter(f.col("last_committed").isNotNull())
            .groupBy("group_id", "topic")
            .agg(f.count("*").alias("choices"), f.min("topic_id").alias("topic_id"))
            .filter(f.col("choices") == 1)
        )
        both = agreed.select("topic_id", "topic").unionByName(only.select("topic_id", "topic"))
        found = (
            both.groupBy("topic_id")
            .agg(f.count_distinct("topic").alias("choices"), f.min("topic").alias("topic"))
            .filter(f.col("choices") == 1)
        )
        return known.unionByName(found.transform(shaped("topics")))

    return step


def _told(batches: Iterable[Any]) -> Iterator[Any]:
    for batch in batches:
        columns = (
            batch.column(name).to_pylist() for name in ("group_id", "record_type", "key", "value")
        )
        rows = [(group, *told) for group, told in told_by_all(zip(*columns, strict=True))]
        yield pa.RecordBatch.from_arrays(
            [
                pa.array([row[at] for row in rows], type=kind)
                for at, kind in enumerate(
                    (pa.string(), pa.string(), pa.string(), pa.int32(), pa.bool_())
                )
            ],
            names=["group_id", "topic", "topic_id", "last_partition", "is_open"],
        )
