"""Tests the command line as a whole."""

import logging

import pytest

from groupsdk.cli.main import commands, main
from groupsdk.version import __version__


def test_each_command_says_what_it_does(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as ended:
        main(["--help"])
    assert ended.value.code == 0
    shown = capsys.readouterr().out
    for command in commands():
        assert command.name in shown
        with pytest.raises(SystemExit):
            main([command.name, "--help"])
        assert f"groupsdk {command.name}" in capsys.readouterr().out


def test_the_version_is_told(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit):
        main(["--version"])
    assert __version__ in capsys.readouterr().out


def test_no_command_is_wrong_use(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as ended:
        main([])
    assert ended.value.code == 2
    assert "COMMAND" in capsys.readouterr().err


@pytest.fixture
def _own_logging() -> object:
    """Puts the root logger back as it was."""
    root = logging.getLogger()
    kept, level = root.handlers[:], root.level
    yield
    root.handlers[:] = kept
    root.setLevel(level)


@pytest.mark.usefixtures("_own_logging")
def test_mistakes_are_told_without_a_traceback(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["broker", "--listen", "0.0.0.0:0"]) == 2
    told = capsys.readouterr().err
    assert "open to the network" in told
    assert "Traceback" not in told
    assert main(["broker", "--listen", "127.0.0.1:0", "--properties", "/no/such/file"]) == 1
    assert "No such file" in capsys.readouterr().err
