"""Tests that `groupsdk history` reaches the history's own command."""

import pytest

from groupsdk.cli.main import main


def test_its_commands_are_told(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as ended:
        main(["history", "--help"])
    assert ended.value.code == 0
    shown = capsys.readouterr().out
    assert all(command in shown for command in ("run", "report", "archive"))


def test_a_run_without_a_source_is_wrong_use(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as ended:
        main(["history", "run", "--out", "there"])
    assert ended.value.code == 2
    assert "--segments" in capsys.readouterr().err
