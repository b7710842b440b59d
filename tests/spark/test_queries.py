"""The questions of docs/history.md, asked with SQL as they stand there."""

import re
from pathlib import Path
from typing import Any

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


def test_the_page_has_five_questions() -> None:
    assert [int(number) for number, _ in QUERIES] == [1, 2, 3, 4, 5]


def test_what_happened_at_night(ask: Any) -> None:
    assert ask(1) == []
    # the sample is of half past midnight
    rows = ask(1, **{"current_date()": "DATE'2026-11-20' + INTERVAL 22 HOURS"})
    assert len(rows) == 22
    assert [row.ts for row in rows] == sorted(row.ts for row in rows)
    assert {"client_restart", "topic_growth", "expiry"} <= {row.primary_cause for row in rows}


def test_who_comes_and_goes(ask: Any) -> None:
    rows = ask(2)
    assert sum(row.stays for row in rows) > 5
    assert {row.end_reason for row in rows} >= {"leave", "expiry", "client_restart"}
    assert all(row.mean_seconds >= 0 for row in rows)


def test_who_had_a_partition(ask: Any) -> None:
    assert ask(3) == []
    rows = ask(3, orders="jobs")
    assert {row.client_id for row in rows} >= {"w-1", "w-2"}
    assert any(row.last_commit_ts is not None for row in rows)


def test_what_each_cause_costs(ask: Any, sample_tables: dict[str, Any]) -> None:
    rows = ask(4)
    assert sum(row.rebalances for row in rows) == sample_tables["generations"].count()
    costs = [row.p95_ms for row in rows if row.p95_ms is not None]
    assert costs
    assert costs == sorted(costs, reverse=True)


def test_who_gains_from_another_assignor(
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
