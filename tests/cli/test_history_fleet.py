"""`groupsdk history fleet`, from its file to its page and metrics."""

from pathlib import Path

import pytest

from groupsdk.cli.main import main
from groupsdk.history import local
from groupsdk.history.sources.segment_files import segment_tasks
from groupsdk.history.tables.delta_tables import opened
from tests.history.fleet.fleets import STOPPED_S, write_cluster
from tests.history.lakes import delta_rows, parquet_rows


def test_a_fleet_is_read_summed_up_and_measured(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    for name in ("sick", "well"):
        write_cluster(tmp_path / name, stopped=name == "sick")
    (tmp_path / "fleet.toml").write_text(
        """
        [clusters.sick]
        segments = "sick"
        [clusters.well]
        segments = "well"
        [clusters.gone]
        segments = "gone"
        [[owners]]
        groups = "*"
        team = "platform"
        """,
        encoding="utf-8",
    )
    out, metrics = tmp_path / "out", tmp_path / "groups.prom"
    arguments = ["history", "fleet", "--clusters", str(tmp_path / "fleet.toml"), "--out", str(out)]
    assert main([*arguments, "--metrics", str(metrics)]) == 1
    said = capsys.readouterr().err
    assert "gone: FAILED" in said
    assert "3 partitions of 1 groups stand still" in said
    assert "sick" in (out / "fleet.html").read_text(encoding="utf-8")
    assert (out / "cluster_id=well" / "report.html").is_file()
    text = metrics.read_text(encoding="utf-8")
    labels = '{cluster="sick",group="orders",team="platform"}'
    assert f"groupsdk_history_standing_partitions{labels} 3" in text
    assert f"groupsdk_history_standing_seconds{labels} {STOPPED_S}" in text
    assert 'groupsdk_history_read{cluster="gone"} 0' in text


def test_a_fleet_in_delta_tables_has_the_rows_of_its_clusters(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    names = ("sick", "well", "third")
    for name in names:
        log = write_cluster(tmp_path / name, stopped=name == "sick")
        local.run(segment_tasks(str(log)), str(tmp_path / "plain" / name))
    text = "".join(f'[clusters.{name}]\nsegments = "{name}"\n' for name in (*names, "gone"))
    (tmp_path / "slo.toml").write_text('[[slo]]\ngroups = "*"\npercent = 99.5\n', encoding="utf-8")
    (tmp_path / "fleet.toml").write_text(f'{text}[defaults]\nslos = "slo.toml"\n', encoding="utf-8")
    lake = tmp_path / "lake"
    arguments = ["history", "fleet", "--clusters", str(tmp_path / "fleet.toml"), "--out", str(lake)]
    # all make the tables at the same time
    assert main([*arguments, "--format", "delta", "--processes", "4"]) == 1
    said = capsys.readouterr().err
    assert said.count("FAILED") == said.count("gone: FAILED") == 1
    assert "3 partitions of 1 groups stand still" in said
    for name in names:
        found, expected = delta_rows(lake, name), parquet_rows(tmp_path / "plain" / name)
        assert len(found.pop("slo")) == 2
        expected.pop("slo")
        assert found == expected
        assert f'href="reports/{name}.html"' in (lake / "fleet.html").read_text(encoding="utf-8")
        assert (lake / "reports" / f"{name}.html").is_file()
    standing = opened(str(lake / "fleet"), "standing").to_pyarrow_table().to_pylist()
    assert [(each["cluster_id"], each["group_id"]) for each in standing] == [("sick", "orders")]
    assert opened(str(lake / "fleet"), "clusters").count() == 4
    assert main(["history", "slo", "--out", str(lake), "--cluster", "sick"]) == 0
    assert "orders" in capsys.readouterr().out


def test_a_wrong_file_is_an_error_of_use(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "fleet.toml").write_text("[clusters.a]", encoding="utf-8")
    assert main(["history", "fleet", "--clusters", str(tmp_path / "fleet.toml"), "--out", "o"]) == 2
    assert "needs exactly one of segments" in capsys.readouterr().err
