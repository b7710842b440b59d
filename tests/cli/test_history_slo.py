"""`groupsdk history slo`, for people, programs and Prometheus."""

import json
from pathlib import Path

import pytest

from groupsdk.cli.main import main
from groupsdk.history import local
from groupsdk.history.pipeline import Options
from groupsdk.history.sources.segment_files import segment_tasks
from tests.history.fleet.fleets import write_cluster


SLOS = '[[slo]]\ngroups = "orders"\npercent = 99\n'


def test_budgets_are_shown_of_tables_that_are_there(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    log = write_cluster(tmp_path / "log", stopped=True)
    out, slos, metrics = (str(tmp_path / name) for name in ("out", "slo.toml", "slo.prom"))
    Path(slos).write_text(SLOS, encoding="utf-8")
    local.run(segment_tasks(str(log)), out, Options(assignors=()))
    assert main(["history", "slo", "--out", out]) == 0
    assert "No group has an objective: give --slos FILE." in capsys.readouterr().out
    command = ["history", "slo", "--out", out, "--slos", slos, "--metrics", metrics]
    assert main(command) == 0
    assert "99 % within 30 s" in capsys.readouterr().out
    assert main([*command, "--json"]) == 0
    (orders,) = json.loads(capsys.readouterr().out)
    assert (orders["group_id"], orders["late"]) == ("orders", 3)
    text = Path(metrics).read_text(encoding="utf-8")
    assert 'groupsdk_history_slo_late_partitions{group="orders"} 3' in text
    assert 'groupsdk_history_slo_burn_rate{group="orders",window="1h"}' in text
    assert 'groupsdk_history_slo_objective_ratio{group="orders"} 0.99' in text


def test_a_run_writes_the_budgets_that_are_shown_later(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    log = write_cluster(tmp_path / "log", stopped=True)
    slos = tmp_path / "slo.toml"
    slos.write_text(SLOS, encoding="utf-8")
    out = str(tmp_path / "out")
    run = ["history", "run", "--segments", str(log), "--out", out, "--slos", str(slos), "--quiet"]
    assert main([*run, "--engine", "local"]) == 0
    capsys.readouterr()
    assert main(["history", "slo", "--out", out, "--json"]) == 0
    told = json.loads(capsys.readouterr().out)
    assert [each["group_id"] for each in told] == ["orders"]
    assert "Objectives that are missed" in (tmp_path / "out" / "report.html").read_text("utf-8")
