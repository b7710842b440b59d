"""Tests that `groupsdk worker` reaches the worker's own command."""

import logging
from collections.abc import Iterator

import pytest

from groupsdk.cli.main import main


@pytest.fixture
def _own_logging() -> Iterator[None]:
    """Puts the root logger back as it was."""
    root = logging.getLogger()
    kept, level = root.handlers[:], root.level
    yield
    root.handlers[:] = kept
    root.setLevel(level)


def test_without_a_program_it_is_wrong_use(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as ended:
        main(["worker"])
    assert ended.value.code == 2
    assert "module:app" in capsys.readouterr().err


@pytest.mark.usefixtures("_own_logging")
def test_a_program_that_is_nowhere_is_told(
    caplog: pytest.LogCaptureFixture, capsys: pytest.CaptureFixture[str]
) -> None:
    assert (
        main(["worker", "no_such_module:app", "--group", "g", "--bootstrap-servers", "127.0.0.1:1"])
        == 2
    )
    assert "no_such_module" in caplog.text + capsys.readouterr().err
