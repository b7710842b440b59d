"""The summary of a fleet: its tables and its page."""

from dataclasses import replace
from pathlib import Path
from typing import Any

import duckdb
import pytest

from groupsdk.history.fleet.clusters import ClusterSource, Fleet, Owner
from groupsdk.history.fleet.running import ClusterRun, directory_of
from groupsdk.history.fleet.summary import FleetSummary, summarise, write_page, write_tables
from groupsdk.history.local import run
from groupsdk.history.sources.segment_files import segment_tasks
from tests.history.fleet.fleets import STOPPED_S, write_cluster


HOSTILE = "<img src=x>"
FLEET = Fleet(
    [ClusterSource(each, {}) for each in ("sick", "well", "gone")],
    [Owner("orders", "si*", HOSTILE, "javascript:alert(1)")],
)


def asked(query: str) -> list[tuple[Any, ...]]:
    """Ask DuckDB."""
    return duckdb.connect().execute(query).fetchall()


@pytest.fixture(scope="module")
def out(tmp_path_factory: pytest.TempPathFactory) -> Path:
    root = tmp_path_factory.mktemp("fleet")
    for name in ("sick", "well"):
        log = write_cluster(root / f"log-{name}", stopped=name == "sick")
        run(segment_tasks(str(log)), str(directory_of(str(root), name)))
    return root


@pytest.fixture
def summary(out: Path) -> FleetSummary:
    runs = [
        ClusterRun("sick", "done", "", 1.5),
        ClusterRun("well", "failed", "no broker answered", 30.0),
        ClusterRun("gone", "failed", "no such host", 0.1),
    ]
    return summarise(FLEET, runs, str(out))


def test_what_stands_still_has_its_cluster_and_its_owner(summary: FleetSummary) -> None:
    (line,) = summary.standing
    assert (line.cluster_id, line.what.group_id, line.team) == ("sick", "orders", HOSTILE)
    assert line.standing_ms == 1_000 * STOPPED_S
    assert (summary.groups, summary.partitions) == (1, 3)
    # the tables of an earlier run are summed up, and a cluster without any is listed
    assert [each.groups for each in summary.clusters] == [2, 2, 0]


def test_every_table_has_the_cluster_as_a_column(summary: FleetSummary, out: Path) -> None:
    write_tables(summary, str(out))
    query = "select cluster_id, count(*) from read_parquet('{}', hive_partitioning=true) group by 1 order by 1"
    rows = asked(query.format(out / "cluster_id=*/generations/*.parquet"))
    assert rows == [("sick", 3), ("well", 3)]
    standing = asked(f"select * from '{out}/fleet/standing.parquet'")
    assert [row[:3] for row in standing] == [("sick", "orders", HOSTILE)]
    states = asked(f"select cluster_id, state from '{out}/fleet/clusters.parquet'")
    assert states == [("sick", "done"), ("well", "failed"), ("gone", "failed")]


def test_page_shows_who_stands_still_and_takes_no_text_for_markup(
    summary: FleetSummary, out: Path
) -> None:
    text = write_page(summary, str(out)).read_text(encoding="utf-8")
    assert "3 partitions of 1 groups stand still" in text
    for shown in ("sales(0-2)", "2 min", "/10.0.0.1", "no broker answered", "earlier run"):
        assert shown in text, shown
    assert HOSTILE not in text
    assert "<h2>What stands still</h2>" in text
    calm = write_page(replace(summary, standing=[]), str(out)).read_text(encoding="utf-8")
    assert "<h2>What stands still</h2>" not in calm
    assert 'href="javascript' not in text
