"""`groupsdk history fleet`, from its file to its page and metrics."""

from pathlib import Path

import pytest

from groupsdk.cli.main import main
from tests.history.fleet.fleets import STOPPED_S, write_cluster


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


def test_a_wrong_file_is_an_error_of_use(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "fleet.toml").write_text("[clusters.a]", encoding="utf-8")
    assert main(["history", "fleet", "--clusters", str(tmp_path / "fleet.toml"), "--out", "o"]) == 2
    assert "needs exactly one of segments" in capsys.readouterr().err
