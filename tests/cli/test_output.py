"""Tests tables, JSON and progress."""

import asyncio
import io
import json
from collections.abc import Callable
from dataclasses import dataclass
from enum import Enum

import click
import pytest
from pytest_mock import MockerFixture
from typing_extensions import override

from groupsdk.assignment import TopicPartition
from groupsdk.cli.output import (
    StatusLine,
    cell,
    plain,
    progress,
    waiting,
    write_json_line,
    write_table,
)
from groupsdk.cli.process import load, set_up_logging


@dataclass(frozen=True, slots=True)
class _Value:
    part: TopicPartition
    data: bytes = b"\x01"


class _Color(Enum):
    RED = "red"


@pytest.fixture
def terminal(monkeypatch: pytest.MonkeyPatch) -> Callable[[int], None]:
    """Let rich take standard output for a terminal of so many columns."""

    def of(width: int) -> None:
        for name, value in (("FORCE_COLOR", "1"), ("TERM", "xterm"), ("COLUMNS", str(width))):
            monkeypatch.setenv(name, value)

    return of


def test_values_become_json(capsys: pytest.CaptureFixture[str]) -> None:
    value = {"a": _Value(TopicPartition("t", 1)), 2: [_Color.RED, frozenset({3})]}
    assert plain(value) == {
        "a": {"part": {"topic": "t", "partition": 1}, "data": "01"},
        "2": ["red", [3]],
    }
    write_json_line({"a": "é"})
    assert json.loads(capsys.readouterr().out) == {"a": "é"}


def test_a_table_has_no_control_characters_and_is_never_cut(
    capsys: pytest.CaptureFixture[str],
) -> None:
    write_table(("NAME", "COUNT"), [("[red]\x1b[2J" + "x" * 300, 7), (None, None)])
    shown = capsys.readouterr().out
    assert "[red]\\x1b[2J" + "x" * 300 in shown
    assert "\x1b" not in shown
    assert shown.splitlines()[-1].split() == ["-", "-"]
    assert cell("a\x9bb\n") == "a\\x9bb\\x0a"


_WIDE_ROWS = [("a-topic", 1, None, "m" * 45, "a-client"), ("b-topic", 2, None, "n" * 45, "c")]


@pytest.mark.parametrize(
    ("width", "left_out", "header"),
    [
        (83, (), "TOPIC LAG INSTANCE MEMBER CLIENT"),
        (82, (), "TOPIC LAG MEMBER CLIENT"),
        (72, ("MEMBER",), "TOPIC LAG MEMBER CLIENT"),
        (71, ("MEMBER",), "TOPIC LAG CLIENT"),
    ],
)
def test_a_narrow_terminal_shows_fewer_columns_with_every_cell_on_one_line(
    width: int,
    left_out: tuple[str, ...],
    header: str,
    terminal: Callable[[int], None],
    capsys: pytest.CaptureFixture[str],
) -> None:
    terminal(width)
    columns = ("TOPIC", "LAG", "INSTANCE", "MEMBER", "CLIENT")
    write_table(columns, _WIDE_ROWS, left_out=left_out)
    first, _, *rows = click.unstyle(capsys.readouterr().out).splitlines()
    assert " ".join(first.split()) == header
    assert [row.split()[0] for row in rows] == ["a-topic", "b-topic"]
    assert all(len(row) <= width for row in rows)


@pytest.mark.parametrize(("width", "lines"), [(50, 4), (30, 2)])
def test_only_long_cells_are_broken_and_none_where_there_is_no_room(
    width: int, lines: int, terminal: Callable[[int], None], capsys: pytest.CaptureFixture[str]
) -> None:
    terminal(width)
    write_table(("TOPIC", "LAG", "INSTANCE", "MEMBER", "CLIENT"), _WIDE_ROWS)
    rows = click.unstyle(capsys.readouterr().out).splitlines()[2:]
    assert len(rows) == lines
    assert [row.split()[-1] for row in rows if "-topic" in row] == ["a-client", "c"]


def test_progress_is_for_terminals(capsys: pytest.CaptureFixture[str]) -> None:
    set_up_logging("info")
    with progress("reading", after_s=0) as say:
        say("half")
    assert capsys.readouterr().err == ""
    line = StatusLine(after_s=0)
    line.write("half")
    line.erase()
    assert capsys.readouterr().err == ""
    assert load("tests.cli.test_output:_Color.RED") is _Color.RED


def test_a_person_is_told_what_is_waited_for_and_the_line_is_erased(
    mocker: MockerFixture,
) -> None:
    class Seen(io.StringIO):
        written = asyncio.Event()

        @override
        def isatty(self) -> bool:
            return True

        @override
        def flush(self) -> None:
            self.written.set()

    async def work(text: str) -> None:
        with waiting(text, after_s=0):
            await error.written.wait()

    error = Seen()
    mocker.patch("sys.stderr", error)
    asyncio.run(work("for \x1b[2Jbroker"))
    shown = "for \\x1b[2Jbroker"
    assert error.getvalue() == f"\r{shown}\r{'':<{len(shown)}}\r"


def test_quick_work_says_nothing_of_waiting(mocker: MockerFixture) -> None:
    async def work() -> None:
        with waiting("for a broker", after_s=3600):
            pass

    error = mocker.patch("sys.stderr")
    asyncio.run(work())
    assert not error.write.called
