"""Ask what other assignors would have made of the recorded generations: every group apart, in parallel."""

from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any, Final

import pyarrow as pa
from pyspark.sql import DataFrame, Window, functions as f

from groupsdk.history.groups.arrow import partition_lists
from groupsdk.history.groups.member import CONSUMER
from groupsdk.history.groups.replaying import (
    ACTUAL,
    AssignorLike,
    Joined,
    PastGeneration,
    ReplayRow,
    replay as replay_generations,
    resolve,
)
from groupsdk.history.schemas import TABLES
from groupsdk.history.tables.assignments import OWNED
from groupsdk.history.tables.following import GENERATION, MEMBER, of_kind, tasks
from groupsdk.history.tables.shape import Step, shaped


DEFAULT_ASSIGNORS: Final = ("range", "roundrobin", "sticky", "cooperative-sticky")
"""What is replayed unless the user says otherwise; names, for the package `assignors` to know."""

_ROWS: Final = 5_000
_OUT: Final = pa.schema(
    [
        ("group_id", pa.string()),
        ("seq", pa.int64()),
        ("generation", pa.int32()),
        ("assignor", pa.string()),
        ("moved", pa.int32()),
        ("revoked", pa.int32()),
        ("max_load", pa.int32()),
        ("min_load", pa.int32()),
        ("stddev", pa.float64()),
        ("n_members", pa.int32()),
        ("n_partitions", pa.int32()),
        ("problem", pa.string()),
    ]
)


def replay(names: DataFrame, assignors: Sequence[AssignorLike] = DEFAULT_ASSIGNORS) -> Step:
    """Return the step from events to the table `replay`.

    Only groups of consumers are replayed: what others share out, their leaders alone know.

    Args:
        names: the table `topics`.
        assignors: names, places ("package.module:Class"), classes or assignors; Spark's workers have to be
            able to import them.

    Raises:
        ConfigError: an assignor is not known.
    """
    for assignor in assignors:
        resolve(assignor)
    run = _in_worker(tuple(assignors))

    def step(events: DataFrame) -> DataFrame:
        kinds = events.transform(of_kind(GENERATION)).select(
            "group_id", "seq", "protocol_type", "assignor"
        )
        return (
            events.transform(of_kind(MEMBER))
            .filter(f.col("phase").isin(*OWNED))
            .join(kinds, ["group_id", "seq"])
            # a consumer group of the newer protocol is of this type, too
            .filter(f.col("protocol_type") == CONSUMER)
            .transform(_with_names(names))
            .select(
                *("group_id", "seq", "generation", "member_id", "instance_id"),
                *("topics", "rack_id", "assigned", "cooperative"),
            )
            .repartition(tasks(events), "group_id")
            .sortWithinPartitions("group_id", "seq", "member_id")
            .mapInArrow(run, TABLES["replay"].ddl)
        )

    return step


def _with_names(names: DataFrame) -> Step:
    """Put names in the place of topic ids, and say whether members keep what does not move."""
    known = names.agg(
        f.map_from_entries(f.collect_list(f.struct("topic_id", "topic"))).alias("known")
    )

    def step(frame: DataFrame) -> DataFrame:
        return (
            frame.crossJoin(f.broadcast(known))
            .withColumn(
                "assigned",
                f.transform(
                    "assigned",
                    lambda each: f.struct(
                        f.coalesce(f.col("known")[each["topic"]], each["topic"]).alias("topic"),
                        each["partitions"].alias("partitions"),
                    ),
                ),
            )
            .withColumn(
                "cooperative",
                (f.col("protocol") != "classic")
                | f.coalesce(f.col("assignor").contains("cooperative"), f.lit(False)),
            )
        )

    return step


def _in_worker(
    assignors: tuple[AssignorLike, ...],
) -> Callable[[Iterable[Any]], Iterator[Any]]:
    def run(batches: Iterable[Any]) -> Iterator[Any]:
        rows: list[ReplayRow] = []
        for row in replay_generations(generations(batches), assignors):
            rows.append(row)
            if len(rows) >= _ROWS:
                yield _batch(rows)
                rows.clear()
        if rows:
            yield _batch(rows)

    return run


def _batch(rows: list[ReplayRow]) -> Any:
    columns = zip(*rows, strict=True)
    return pa.RecordBatch.from_arrays(
        [pa.array(column, type=field.type) for column, field in zip(columns, _OUT, strict=True)],
        schema=_OUT,
    )


def generations(batches: Iterable[Any]) -> Iterator[PastGeneration]:
    """Gather members, sorted by group and generation, to whole generations."""
    place: tuple[str, int] | None = None
    head: tuple[str, int, int, bool] = ("", 0, 0, False)
    members: list[Joined] = []
    alike: dict[tuple[str, ...], tuple[str, ...]] = {}
    for row in _rows(batches):
        group, seq, generation, member_id, instance_id, topics, rack, cooperative, assigned = row
        if (group, seq) != place:
            if members:
                yield PastGeneration(*head, members)
            if place is None or group != place[0]:
                alike.clear()
            place, head, members = (group, seq), (group, seq, generation, cooperative), []
        # the assignors look at members with the very same topics once
        topics = alike.setdefault(tuple(topics), tuple(topics))
        members.append(Joined(member_id, instance_id, topics, rack, assigned))
    if members:
        yield PastGeneration(*head, members)


def _rows(batches: Iterable[Any]) -> Iterator[tuple[Any, ...]]:
    names = (
        *("group_id", "seq", "generation", "member_id", "instance_id"),
        *("topics", "rack_id", "cooperative"),
    )
    for batch in batches:
        columns = [batch.column(name).to_pylist() for name in names]
        yield from zip(*columns, partition_lists(batch.column("assigned")), strict=True)


def summary(replayed: DataFrame) -> DataFrame:
    """Make the table `replay_summary` from `replay`.

    The assignor that moves least is the first of its group; among equals, the one that is more even.
    """
    of_group = Window.partitionBy("group_id").orderBy(
        f.col("problems"), f.col("moves"), f.col("mean_stddev"), f.col("revoked")
    )
    done = f.col("problem").isNull()
    return (
        replayed.groupBy("group_id", "assignor")
        .agg(
            f.count("*").alias("generations"),
            f.sum("moved").alias("moves"),
            f.sum("revoked").alias("revoked"),
            f.avg(f.when(done, f.col("stddev"))).alias("mean_stddev"),
            f.max(f.col("max_load") - f.col("min_load")).alias("worst_spread"),
            f.count_if(~done).alias("problems"),
        )
        .withColumn("rank", f.rank().over(of_group))
        .transform(shaped("replay_summary"))
    )


__all__ = ["ACTUAL", "DEFAULT_ASSIGNORS", "generations", "replay", "summary"]
