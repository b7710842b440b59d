"""How far groups are behind, with Spark."""

from datetime import UTC, datetime, timedelta
from random import Random
from typing import Any

from groupsdk.history.tables import sampled_lag
from groupsdk.history.tables.spark_lag import lower_bounds, sampled
from tests.spark.reading import plain, table


START = datetime(2026, 10, 2, tzinfo=UTC)


def at(seconds: float) -> datetime:
    """Return a time of the tests."""
    return START + timedelta(seconds=seconds)


def commits_of(spark: Any, *rows: tuple[str, int, float, int | None, int]) -> Any:
    """Make committed offsets: group, partition, second, offset, place in the log."""
    return table(
        spark,
        "offset_commits",
        *(
            {
                "group_id": group,
                "topic": "t",
                "partition": partition,
                "ts": at(second),
                "committed_offset": offset,
                "state": "committed",
                "src_partition": 3,
                "src_offset": place,
            }
            for group, partition, second, offset, place in rows
        ),
    )


def test_lag_in_spark_is_at_least_the_commits_of_others(spark: Any) -> None:
    spans = table(
        spark,
        "commit_spans",
        *(
            {
                "group_id": group,
                "seq": seq,
                "topic": "t",
                "partition": 0,
                "last_commit_ts": at(second),
                "last_offset": offset,
            }
            for group, seq, second, offset in (("a", 0, 1, 5), ("b", 0, 2, 90), ("a", 1, 3, 30))
        ),
    )
    assert plain(lower_bounds(spans), "group_id", "ts", "lag", "kind") == [
        ("a", at(1).replace(tzinfo=None), 0, "lower_bound"),
        ("a", at(3).replace(tzinfo=None), 60, "lower_bound"),
        ("b", at(2).replace(tzinfo=None), 0, "lower_bound"),
    ]


def test_lag_is_measured_against_samples_of_the_ends(spark: Any) -> None:
    commits = commits_of(spark, ("g", 0, 10, 100, 1), ("g", 0, 20, 150, 2))
    ends = spark.createDataFrame(
        [
            ("t", 0, at(second), end)
            for second, end in ((5, 90), (12, 110), (15, 150), (25, 200), (26, 150))
        ],
        "topic string, partition int, ts timestamp, end_offset bigint",
    )
    found = commits.transform(sampled(ends))
    rows = {
        row.ts.second: (row.committed_offset, row.lag, row.time_lag_ms) for row in found.collect()
    }
    assert rows == {
        12: (100, 10, 7_000),
        15: (100, 50, 10_000),
        # the end went back, as after an unclean election: how old a lag was before, nothing tells
        25: (150, 50, None),
        26: (150, 0, 0),
    }


def test_the_local_engine_compares_commits_with_samples_as_spark_does(spark: Any) -> None:
    random = Random(4)
    # few seconds, so that many stand at the same time
    commits = commits_of(
        spark,
        *(
            (
                random.choice("ab"),
                random.randrange(3),
                random.randrange(60),
                random.choice((None, random.randrange(100))),
                place,
            )
            for place in range(400)
        ),
    )
    ends = spark.createDataFrame(
        [("t", number % 4, at(number / 2), random.randrange(100)) for number in range(120)]
        + [("other", 0, at(1), 5)],
        "topic string, partition int, ts timestamp, end_offset bigint",
    )
    with_spark = commits.transform(sampled(ends)).toArrow()
    alone = sampled_lag.sampled(commits.toArrow(), ends.toArrow())
    order = [(name, "ascending") for name in ("group_id", "partition", "ts")]
    assert alone.num_rows > 150
    assert alone.sort_by(order).to_pylist() == with_spark.sort_by(order).to_pylist()
    found = alone.to_pylist()
    assert {row["time_lag_ms"] is None for row in found} == {True, False}
