"""Follow the groups in Spark's workers: from records of the kind "rest" to events, from which the tables are made."""

from pyspark.sql import DataFrame, functions as f

from groupsdk.history.groups.arrow import EVENTS, follow
from groupsdk.history.kernel.rows import REST
from groupsdk.history.sources.kinds import spark_ddl
from groupsdk.history.tables.shape import Step


GENERATION = "generation"
MEMBER = "member"
MEMBERSHIP = "membership"
DEPARTURE = "departure"
TOPIC = "topic"
REJECT = "reject"


def events(rest: DataFrame) -> DataFrame:
    """Follow every group through its records; gives rows of all kinds, of which `of_kind` takes one.

    Each worker goes through its groups one after the other and holds one generation of one of them: the
    sorting before, which spills to disk, is what takes room.
    """
    return (
        rest.filter(f.col("reason").isNull() & ~f.col("control"))
        .select(*REST.names)
        .repartition(tasks(rest), "group_id")
        .sortWithinPartitions("group_id", "src_partition", "src_offset")
        .mapInArrow(follow, spark_ddl(EVENTS))
    )


def tasks(frame: DataFrame) -> int:
    """Tell in how many tasks to do what takes much time for few bytes: a number of them for each core.

    Spark goes by bytes, and would do it in one.
    """
    return 2 * frame.sparkSession.sparkContext.defaultParallelism


def of_kind(kind: str) -> Step:
    """Return the step that takes the events of one kind, as columns of their own."""

    def step(frame: DataFrame) -> DataFrame:
        return frame.filter(f.col("kind") == kind).select(f"{kind}.*")

    return step
