"""Follow the groups in Spark's workers: from records of the kind "rest" to events, from which the tables are made."""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any

from pyspark import TaskContext
from pyspark.sql import DataFrame, functions as f

from groupsdk.history.groups.arrow import EVENTS, as_event, follow
from groupsdk.history.groups.landing import EVENTS_FOLDER, land
from groupsdk.history.groups.replaying import AssignorLike
from groupsdk.history.kernel.rows import REST
from groupsdk.history.sources.kinds import spark_ddl
from groupsdk.history.sources.places import file_system
from groupsdk.history.tables.shape import Step


GENERATION = "generation"
ASSIGNMENT = "assignment"
MOVE = "move"
REPLAY = "replay"
MEMBERSHIP = "membership"
DEPARTURE = "departure"
TOPIC = "topic"
REJECT = "reject"
NAMES = 4
"""The type of the records that name topics by their ids."""


def events(
    rest: DataFrame,
    names: Mapping[str, str] | None = None,
    assignors: Sequence[AssignorLike] = (),
) -> DataFrame:
    """Follow every group through its records; gives rows of all kinds, of which `of_kind` takes one.

    Each worker goes through its groups one after the other and holds one generation of one of them: the
    sorting before, which spills to disk, is what takes room.

    Args:
        rest: records of the kind "rest".
        names: of topics, by their ids.
        assignors: what is replayed over the generations; Spark's workers have to be able to import them.
    """

    def run(batches: Iterable[Any]) -> Iterator[Any]:
        for kind, batch in follow(batches, names, assignors):
            yield as_event(kind, batch)

    return _groups(rest).mapInArrow(run, spark_ddl(EVENTS))


def land_events(
    rest: DataFrame,
    root: str,
    names: Mapping[str, str] | None = None,
    assignors: Sequence[AssignorLike] = (),
) -> DataFrame:
    """Do what `events` does, and write it where it is made: see `groups.landing`.

    Args:
        rest: records of the kind "rest".
        root: the directory of the tables, as the workers understand it; its folders are empty.
        names: of topics, by their ids.
        assignors: what is replayed.

    Returns:
        All events but those that are tables already.
    """
    run = _landing(root, dict(names or {}), tuple(assignors))
    _groups(rest).mapInArrow(run, "none int").write.format("noop").mode("overwrite").save()
    reader = rest.sparkSession.read.schema(spark_ddl(EVENTS))
    return reader.parquet(f"{root}/{EVENTS_FOLDER}")


def _landing(
    root: str, names: Mapping[str, str], assignors: Sequence[AssignorLike]
) -> Callable[[Iterable[Any]], Iterator[Any]]:
    def run(batches: Iterable[Any]) -> Iterator[Any]:
        context = TaskContext.get()
        assert context is not None
        system, inner = file_system(root)
        name = f"part-{context.partitionId():05}"
        land(follow(batches, names, assignors), system, inner, name)
        yield from ()

    return run


def _groups(rest: DataFrame) -> DataFrame:
    return (
        rest.filter(f.col("reason").isNull() & ~f.col("control"))
        .select(*REST.names)
        .repartition(tasks(rest), "group_id")
        .sortWithinPartitions("group_id", "src_partition", "src_offset")
    )


def tasks(frame: DataFrame) -> int:
    """Tell in how many tasks to do what takes much time for few bytes: a number of them for each core.

    Spark goes by bytes, and would do it in one. Groups differ, so more tasks keep the cores busy to the end.
    """
    return 4 * frame.sparkSession.sparkContext.defaultParallelism


def of_kind(kind: str) -> Step:
    """Return the step that takes the events of one kind, as columns of their own."""

    def step(frame: DataFrame) -> DataFrame:
        return frame.filter(f.col("kind") == kind).select(f"{kind}.*")

    return step
