"""Delta tables of the local engine: the rows of Parquet, many clusters, kills, retention, and what a change costs."""

import random
import sys
from dataclasses import replace
from datetime import date
from pathlib import Path
from typing import Any

import duckdb
import pyarrow as pa
import pytest
from pyarrow import parquet

from groupsdk.cli.main import main
from groupsdk.errors import ConfigError
from groupsdk.history.local import run
from groupsdk.history.sources.segment_files import segment_tasks
from groupsdk.history.tables.delta_tables import Batch, DeltaTables, clusters_of, maintain, opened
from groupsdk.history.tables.lake_changes import (
    Retention,
    app_id,
    changes,
    lake_rows,
    lake_schema,
)
from groupsdk.history.tables.schemas import TABLES
from groupsdk.history.tables.stage_files import with_cluster
from groupsdk.history.tables.stage_tables import RUN_TABLES
from tests.history.expected_tables import LOGS
from tests.history.lakes import (
    CLUSTER,
    DELTA,
    PLAIN,
    columns_of,
    delta_rows,
    is_killed,
    live_files,
    parquet_rows,
    versions,
)
from tests.support.cases import each_case


@each_case("name", list(LOGS))
def test_a_log_has_the_rows_of_parquet_and_a_repeated_run_changes_nothing(
    name: str, tmp_path: Path
) -> None:
    root = tmp_path / name
    tasks = segment_tasks(str(LOGS[name](root)))
    run(tasks, str(root / "plain"), PLAIN)
    run(tasks, str(root / "lake"), DELTA)
    assert delta_rows(root / "lake") == parquet_rows(root / "plain")
    before = versions(root / "lake")
    run(tasks, str(root / "lake"), DELTA)
    assert versions(root / "lake") == before


@pytest.fixture(scope="module")
def logs(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    found = {}
    for name in ("transactions", "bad input"):
        root = tmp_path_factory.mktemp("log")
        found[name] = segment_tasks(str(LOGS[name](root)))
    return found


def test_a_run_replaces_the_rows_of_its_cluster_and_of_no_other(
    logs: dict[str, Any], tmp_path: Path
) -> None:
    lake = tmp_path / "lake"
    other = replace(DELTA, cluster_id="old 'datacentre'")
    run(logs["bad input"], str(lake), other)
    others = delta_rows(lake, other.cluster_id)
    run(logs["bad input"], str(lake), DELTA)
    assert delta_rows(lake) == others
    run(logs["transactions"], str(lake), DELTA)
    run(logs["transactions"], str(tmp_path / "plain"), PLAIN)
    assert delta_rows(lake) == parquet_rows(tmp_path / "plain")
    assert delta_rows(lake, other.cluster_id) == others
    assert clusters_of(str(lake)) == [other.cluster_id, CLUSTER]


def test_a_second_writer_of_a_cluster_is_refused_and_one_of_another_is_not(
    logs: dict[str, Any], tmp_path: Path
) -> None:
    lake = str(tmp_path)
    run(logs["transactions"], lake, DELTA)
    mine = DeltaTables(lake, CLUSTER)
    before = mine.versions()
    run(logs["bad input"], lake, DELTA)
    run(logs["bad input"], lake, replace(DELTA, cluster_id="another"))
    nothing = TABLES["generations"].arrow_schema.empty_table()
    with pytest.raises(ConfigError, match="another process writes the tables of the cluster"):
        mine.replace("generations", nothing, before["generations"])
    mine.replace("generations", nothing, mine.versions()["generations"])
    assert mine.count("generations") == 0
    assert DeltaTables(lake, "another").count("generations") > 0


def test_a_batch_counts_once(tmp_path: Path) -> None:
    lake = DeltaTables(str(tmp_path), CLUSTER)
    found = _changes([], _generations(range(3)))
    first = Batch("app", 1)
    assert lake.last("generations", first.app, first.seen) == [-1, -1]
    lake.merge("generations", found, -1, first)
    assert lake.last("generations", first.app, first.seen, app_id(CLUSTER)) == [1, 0, 0]
    # of two that both saw the version before it, the later one has nothing to do, and with other rows it is refused
    lake.merge("generations", found, -1, first)
    with pytest.raises(ConfigError, match="another process"):
        lake.merge("generations", found, -1, Batch("app", 2))
    assert lake.count("generations") == 3
    lake.replace("generations", TABLES["generations"].arrow_schema.empty_table(), 0)
    assert lake.last("generations", first.app, first.seen, app_id(CLUSTER)) == [1, 0, 1]


def test_a_day_merged_into_a_year_rewrites_the_files_of_that_day(tmp_path: Path) -> None:
    lake = DeltaTables(str(tmp_path), CLUSTER)
    year = [seq for day in range(365) for seq in range(10 * day, 10 * day + 10)]
    lake.merge("generations", _changes([], _generations(year)), -1, Batch("app", 1))
    before = live_files(tmp_path, "generations")
    assert len(before) == 365
    # rows of one day that are new, others, and gone
    old, new = _generations(range(10 * 200, 10 * 201)), _generations(range(10 * 200 + 1, 10 * 201))
    new = [{**each, "moved": 7} for each in new]
    lake.merge("generations", _changes(old, new), 0, Batch("app", 2))
    after = live_files(tmp_path, "generations")
    assert {path.split("/")[1] for path in before.keys() ^ after.keys()} == {"day=2026-07-20"}
    assert len(before.keys() - after.keys()) == 1
    assert lake.count("generations") == 3_649
    # a new day reads and rewrites nothing
    lake.merge("generations", _changes([], _generations(range(3_650, 3_660))), 1, Batch("app", 3))
    assert after.keys() < live_files(tmp_path, "generations").keys()


def test_rows_of_groups_are_read_from_files_that_a_merge_or_a_deletion_wrote(
    tmp_path: Path,
) -> None:
    lake = DeltaTables(str(tmp_path), CLUSTER)
    rows = [each for group in ("a", "b", "c") for each in _generations(range(20), group)]
    lake.merge("generations", _changes([], rows), -1, Batch("app", 1))
    for number in range(3):
        moved = [{**each, "moved": number} for each in rows]
        lake.merge("generations", _changes(rows, moved), number, Batch("app", number + 2))
        _check_groups(lake, moved)
        rows = moved
    opened(str(tmp_path), "generations").delete("seq = 3")
    _check_groups(lake, [each for each in rows if each["seq"] != 3])


def _check_groups(lake: DeltaTables, rows: list[dict[str, Any]]) -> None:
    columns = ("seq", "moved")
    for groups in ([], ["b"], ["none"], ["a", "c", "none"], None):
        expected = [row for row in rows if groups is None or row["group_id"] in groups]
        found = lake.read("generations", columns, groups)
        assert found.schema == pa.schema([lake_schema("generations").field(x) for x in columns])
        assert sorted(map(str, found.to_pylist())) == sorted(
            str({each: row[each] for each in columns}) for row in expected
        )


def test_of_some_groups_only_the_files_that_may_have_them_are_read(tmp_path: Path) -> None:
    lake = DeltaTables(str(tmp_path), CLUSTER)
    for number, group in enumerate(("a", "b")):
        rows = _generations(range(10), group)
        lake.merge("generations", _changes([], rows), number - 1, Batch("app", number))
    moved = [{**each, "moved": 1} for each in _generations(range(10), "a")]
    lake.merge("generations", _changes(_generations(range(10), "a"), moved), 1, Batch("app", 2))
    for path, groups in _groups_by_file(tmp_path).items():
        if "b" not in groups:
            (tmp_path / "generations" / path).unlink()
    assert lake.read("generations", ("seq",), ["b"]).num_rows == 10
    with pytest.raises(FileNotFoundError):
        lake.read("generations", ("seq",), ["a"])


def _groups_by_file(root: Path) -> dict[str, set[str]]:
    found = {}
    for path in live_files(root, "generations"):
        file = parquet.ParquetFile(root / "generations" / path)
        found[path] = set(file.read(["group_id"]).column(0).to_pylist())
    return found


def _generations(seqs: Any, group: str = "g") -> list[dict[str, Any]]:
    """Ten a day, from the first of January."""
    start, step = 1_767_225_600_000_000, 86_400_000_000
    return [
        {"group_id": group, "seq": seq, "ts": start + seq // 10 * step, "causes": ["join"]}
        for seq in seqs
    ]


def _changes(before: list[dict[str, Any]], after: list[dict[str, Any]]) -> Any:
    schema = TABLES["generations"].arrow_schema
    return changes(
        "generations",
        *(
            lake_rows(
                "generations",
                with_cluster("generations", pa.Table.from_pylist(rows, schema=schema), CLUSTER),
            )
            for rows in (before, after)
        ),
    )


def test_old_rows_are_retired_and_stay_away_and_files_are_compacted(
    logs: dict[str, Any], tmp_path: Path
) -> None:
    lake = DeltaTables(str(tmp_path), CLUSTER)
    for number, seqs in enumerate((range(200), range(200, 205), range(205, 210))):
        lake.merge("generations", _changes([], _generations(seqs)), number - 1, Batch("a", number))
    (stay,) = _stays([("m1", None), ("m2", 1_767_225_700_000_000)])
    lake.replace("memberships", stay, -1)
    retention = Retention(date(2026, 1, 11))
    done = {each.name: each for each in maintain(str(tmp_path), retention, vacuum_hours=0)}
    assert done["generations"].retired == 100
    # a stay that goes on is as old as its end, which is not known yet
    assert done["memberships"].retired == 1
    assert done["generations"].compacted == 2
    assert done["generations"].deleted > 0
    assert lake.count("generations") == 110
    # with the setting, a run over a log that still has them does not bring them back
    schema = TABLES["generations"].arrow_schema
    rows = pa.Table.from_pylist(_generations(range(210)), schema=schema)
    lake.replace("generations", rows, 2, retention=retention)
    assert lake.count("generations") == 110
    assert not list(maintain(str(tmp_path / "nothing")))


def _stays(ends: list[tuple[str, int | None]]) -> list[Any]:
    schema = TABLES["memberships"].arrow_schema
    rows = [
        {
            "group_id": "g",
            "member_id": member,
            "first_seq": 1,
            "start_ts": 1_767_225_600_000_000,
            "end_ts": end,
        }
        for member, end in ends
    ]
    return [pa.Table.from_pylist(rows, schema=schema)]


_RUN = """
import sys
from groupsdk.history.local import run
from groupsdk.history.sources.segment_files import segment_tasks
from tests.history.lakes import DELTA
run(segment_tasks(sys.argv[1]), sys.argv[2], DELTA)
"""


def _kill_runs(tmp_path: Path, kills: int, seed: int) -> None:
    """Kill runs when so many files are there: data that no commit names yet, or a commit; the last run ends by itself."""
    chance = random.Random(seed)
    logs = {}
    for name in ("transactions", "bad input"):
        (tmp_path / name).mkdir()
        logs[name] = str(LOGS[name](tmp_path / name))
    lake = tmp_path / "lake"
    killed = 0
    for _ in range(kills):
        command = [sys.executable, "-c", _RUN, chance.choice(list(logs.values())), str(lake)]
        killed += is_killed(command, lake, chance.randrange(1, 60))
    assert killed
    run(segment_tasks(logs["transactions"]), str(lake), DELTA)
    run(segment_tasks(logs["transactions"]), str(tmp_path / "plain"), PLAIN)
    assert delta_rows(lake) == parquet_rows(tmp_path / "plain")


def test_runs_that_are_killed_leave_the_tables_of_one_run(tmp_path: Path) -> None:
    _kill_runs(tmp_path, 4, 1)


@pytest.mark.slow
@pytest.mark.timeout(1_800)
@pytest.mark.parametrize("seed", range(2, 6))
def test_many_runs_that_are_killed_leave_the_tables_of_one_run(seed: int, tmp_path: Path) -> None:
    _kill_runs(tmp_path, 10, seed)


def test_duckdb_and_pandas_answer_from_the_tables_of_parquet(
    logs: dict[str, Any], tmp_path: Path
) -> None:
    run(logs["transactions"], str(tmp_path / "plain"), PLAIN)
    # the second run merges: its files have texts that Arrow does not compare
    for log in ("bad input", "transactions"):
        run(logs[log], str(tmp_path / "lake"), DELTA)
    answers = []
    for query in questions():
        plain = duckdb.connect()
        lake = duckdb.connect()
        for name in RUN_TABLES:
            files = f"{tmp_path}/plain/{name}/**/*.parquet"
            plain.execute(f"CREATE VIEW {name} AS FROM read_parquet('{files}')")
            table = opened(f"{tmp_path}/lake", name)
            if files := table.file_uris():
                lake.read_parquet(files, hive_partitioning=True).create_view(name)
            else:
                lake.register(name, table.to_pyarrow_table())
        # the order of equal ones is any
        found = sorted(map(str, lake.execute(query).fetchall()))
        assert found == sorted(map(str, plain.execute(query).fetchall()))
        answers.append(found)
    assert len(answers) == 5
    assert any(answers)
    frame = opened(f"{tmp_path}/lake", "generations").to_pandas()
    by_cause = frame[frame["cluster_id"] == CLUSTER].groupby("primary_cause").size().to_dict()
    counts = duckdb.connect().execute(
        f"SELECT primary_cause, count(*) FROM '{tmp_path}/plain/generations/*.parquet' GROUP BY 1"
    )
    assert by_cause == dict(counts.fetchall())


def questions() -> list[str]:
    """Return the queries of docs/history.md."""
    page = (Path(__file__).parents[3] / "docs/history.md").read_text(encoding="utf-8")
    blocks = [each.partition("```")[0] for each in page.split("```sql\n")[1:]]
    return [each for each in blocks if each.startswith("-- ")][:5]


def test_commands_write_report_and_maintain_delta_tables(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    log, lake = LOGS["transactions"](tmp_path / "log"), str(tmp_path / "lake")
    (log / "meta.properties").write_text("version=1\ncluster.id=abc-DEF_1\n", encoding="utf-8")
    words = (
        "history",
        "run",
        "--engine",
        "local",
        "--segments",
        str(log),
        "--out",
        lake,
        "--quiet",
    )
    assert main([*words, "--format", "delta"]) == 0
    assert clusters_of(lake) == ["abc-DEF_1"]
    page = (tmp_path / "lake/report.html").read_text(encoding="utf-8")
    assert main(["history", "report", "--out", lake, "--quiet"]) == 0
    assert (tmp_path / "lake/report.html").read_text(encoding="utf-8") == page
    assert main([*words, "--format", "delta", "--cluster", "another"]) == 0
    capsys.readouterr()
    assert main(["history", "report", "--out", lake, "--quiet"]) == 2
    assert "with --cluster: abc-DEF_1, another" in capsys.readouterr().err
    assert main(["history", "report", "--out", lake, "--quiet", "--cluster", "another"]) == 0
    assert main(["history", "maintain", "--out", lake, "--retention-days", "30000"]) == 0
    assert "generations: 0 rows retired" in capsys.readouterr().out
    assert main(["history", "maintain", "--out", str(tmp_path)]) == 2
    # many clusters' tables are not overwritten by mistake
    assert main(words) == 2
    assert "has tables of the format delta: give --format delta" in capsys.readouterr().err
    assert clusters_of(lake) == ["abc-DEF_1", "another"]


def test_the_rows_of_a_lakehouse_have_the_declared_columns(
    logs: dict[str, Any], tmp_path: Path
) -> None:
    run(logs["transactions"], str(tmp_path), DELTA)
    for name in RUN_TABLES:
        schema = pa.schema(opened(str(tmp_path), name).schema().to_arrow())
        assert schema.names == lake_schema(name).names
        assert set(columns_of(name)) <= set(schema.names)
