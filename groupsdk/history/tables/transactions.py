"""Tell what became of transactions, and so of the offsets that were committed within them."""

from pyspark.sql import Column, DataFrame, Window, functions as f

from groupsdk.history.tables.shape import Step, shaped


COMMITTED = "committed"
ABORTED = "aborted"
PENDING = "pending"


def outcomes(rest: DataFrame) -> DataFrame:
    """Take the ends of transactions from the records of the kind "rest".

    Returns:
        One row for each: `src_partition`, `producer_id`, the offsets `after` and `before` between which
        the transaction's records stand, and `outcome`.
    """
    kind = f.hex(f.substring("key", 3, 2))
    of_producer = Window.partitionBy("src_partition", "producer_id").orderBy("before")
    return (
        rest.filter(f.col("control") & f.col("reason").isNull())
        # other control records are none of a producer's
        .withColumn("outcome", f.when(kind == "0001", COMMITTED).when(kind == "0000", ABORTED))
        .filter(f.col("outcome").isNotNull())
        .select("src_partition", "producer_id", f.col("src_offset").alias("before"), "outcome")
        .distinct()
        .withColumn("after", f.coalesce(f.lag("before").over(of_producer), f.lit(-1)))
    )


def split_deferred(landed: DataFrame) -> tuple[DataFrame, DataFrame]:
    """Split what is left where committed offsets were landed.

    Returns:
        Commits within transactions, as raw records; and the records of the kind "rest".
    """
    deferred = (
        f.col("transactional")
        & ~f.col("control")
        & f.col("reason").isNull()
        & f.coalesce(f.col("record_type").isin(0, 1), f.lit(False))
    )
    raw = landed.filter(deferred).withColumn("day", f.to_date("ts"))
    return raw.transform(shaped("raw_records")), landed.filter(~deferred)


def with_state(ends: DataFrame) -> Step:
    """Return the step that gives each commit its `state`: committed, aborted, or pending as the log ends.

    Args:
        ends: of `outcomes`.
    """
    marks = ends.select(
        f.col("src_partition").alias("end_partition"),
        f.col("producer_id").alias("end_producer"),
        "after",
        "before",
        "outcome",
    )

    def step(commits: DataFrame) -> DataFrame:
        same = (
            f.col("transactional")
            & (f.col("src_partition") == f.col("end_partition"))
            & (f.col("producer_id") == f.col("end_producer"))
            & (f.col("src_offset") > f.col("after"))
            & (f.col("src_offset") < f.col("before"))
        )
        return (
            commits.join(marks, same, "left")
            .withColumn("state", _state())
            .drop("end_partition", "end_producer", "after", "before", "outcome")
        )

    return step


def _state() -> Column:
    return f.when(~f.col("transactional"), COMMITTED).otherwise(
        f.coalesce(f.col("outcome"), f.lit(PENDING))
    )
