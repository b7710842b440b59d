"""The questions of docs/history.md, asked with SQL as they stand there."""

import re
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import duckdb
import pytest

from groupsdk.history.job import create_views
from tests.spark.reading import table


PAGE = Path(__file__).resolve().parents[2] / "docs" / "history.md"
QUERIES = re.findall(
    r"^```sql\n-- (\d)\..*?\n(.*?);\n```$", PAGE.read_text(), re.DOTALL | re.MULTILINE
)


@pytest.fixture(scope="module")
def ask(spark: Any, sample_tables: dict[str, Any]) -> Any:
    """Ask the tables of the sample one of the questions."""
    create_views(sample_tables)
    texts = {int(number): text for number, text in QUERIES}

    def run(number: int, **instead: str) -> list[Any]:
        text = texts[number]
        for old, new in instead.items():
            assert old in text
            text = text.replace(old, new)
        return list(spark.sql(text).collect())

    return run


def in_duckdb(sample_path: str, number: int, **instead: str) -> list[tuple[Any, ...]]:
    """Ask DuckDB one of the questions, of the same files."""
    text = {int(each): query for each, query in QUERIES}[number]
    for old, new in instead.items():
        text = text.replace(old, new)
    with duckdb.connect() as database:
        database.execute("SET TimeZone = 'UTC'")
        for name in ("generations", "memberships", "assignments", "commit_spans", "replay_summary"):
            files = f"{sample_path}/{name}/*.parquet"
            database.execute(f"CREATE VIEW {name} AS FROM read_parquet('{files}')")
        return database.execute(text).fetchall()


def comparable(rows: list[tuple[Any, ...]]) -> list[tuple[Any, ...]]:
    """Put rows in one order, times in UTC: what comes first of those that are equal is not said.

    A percentile may differ in its last digit: releases of Spark and DuckDB round between two values each in its way.
    """

    def plain(value: Any) -> Any:
        if isinstance(value, datetime) and value.tzinfo is not None:
            return value.astimezone(UTC).replace(tzinfo=None)
        return round(value, 9) if isinstance(value, float) else value

    return sorted((tuple(plain(value) for value in row) for row in rows), key=str)


def test_duckdb_answers_them_as_well(
    ask: Any, sample_tables: dict[str, Any], sample_path: str
) -> None:
    night = {"current_date()": "DATE'2026-11-20' + INTERVAL 22 HOURS"}
    for number, instead in ((1, night), (2, {}), (3, {"orders": "jobs"}), (4, {}), (5, {})):
        expected = [tuple(row) for row in ask(number, **instead)]
        found = in_duckdb(sample_path, number, **instead)
        assert comparable(found) == comparable(expected), number
        assert bool(found) == (number != 5)


def test_the_page_has_five_questions() -> None:
    assert [int(number) for number, _ in QUERIES] == [1, 2, 3, 4, 5]


def test_query_of_last_nights_rebalances(ask: Any) -> None:
    assert ask(1) == []
    # the sample is of half past midnight
    rows = ask(1, **{"current_date()": "DATE'2026-11-20' + INTERVAL 22 HOURS"})
    assert len(rows) == 22
    assert [row.ts for row in rows] == sorted(row.ts for row in rows)
    assert {"coordinator_restart", "topic_growth", "expiry"} <= {row.primary_cause for row in rows}


def test_query_of_members_that_come_and_go(ask: Any) -> None:
    rows = ask(2)
    assert sum(row.stays for row in rows) > 5
    assert {row.end_reason for row in rows} >= {"leave", "expiry", "coordinator_restart"}
    assert all(row.mean_seconds >= 0 for row in rows)


def test_query_of_the_owners_of_a_partition(ask: Any) -> None:
    assert ask(3) == []
    rows = ask(3, orders="jobs")
    assert {row.client_id for row in rows} >= {"w-1", "w-2"}
    assert any(row.last_commit_ts is not None for row in rows)


def test_query_of_the_cost_of_each_cause(ask: Any, sample_tables: dict[str, Any]) -> None:
    rows = ask(4)
    assert sum(row.rebalances for row in rows) == sample_tables["generations"].count()
    costs = [row.p95_ms for row in rows if row.p95_ms is not None]
    assert costs
    assert costs == sorted(costs, reverse=True)


def test_query_of_groups_that_gain_from_another_assignor(
    ask: Any, spark: Any, sample_tables: dict[str, Any]
) -> None:
    # nobody in the sample does
    assert ask(5) == []
    moves = (("actual", 40, 3), ("range", 30, 2), ("sticky", 10, 1))
    rows = [{"group_id": "g", "assignor": a, "moves": m, "rank": rank} for a, m, rank in moves]
    summary = table(spark, "replay_summary", *rows)
    summary.createOrReplaceTempView("replay_summary")
    try:
        (found,) = ask(5)
    finally:
        create_views(sample_tables)
    assert (found.moved, found.assignor, found.would_have_moved) == (40, "sticky", 10)
