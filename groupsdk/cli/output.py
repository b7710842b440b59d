"""What commands write: tables for people or JSON for programs to standard output, progress to standard error."""

import json
import sys
import time
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import fields, is_dataclass
from enum import Enum
from typing import Any, Final, TypeVar

import click

from groupsdk.printable import printable, printable_json


F = TypeVar("F", bound=Callable[..., Any])

_WIDE: Final = 10_000
"""Columns of a table that no terminal reads: its rows are never broken."""

_GAP: Final = 3
"""Characters between two columns of a table."""

_SHORT: Final = 16
"""The widest column whose cells are never broken; a wider one gets `_FOLDED` characters or more."""

_FOLDED: Final = 10


def json_option(function: F) -> F:
    return click.option(
        "--json",
        "as_json",
        is_flag=True,
        envvar="GROUPSDK_JSON",
        help="Write JSON instead of a table.",
    )(function)


def plain(value: Any) -> Any:
    """Convert a value to JSON types: dataclasses and named tuples to objects, enums to their values, bytes to hex."""
    if is_dataclass(value) and not isinstance(value, type):
        return {each.name: plain(getattr(value, each.name)) for each in fields(value)}
    if isinstance(value, tuple) and hasattr(value, "_asdict"):
        return plain(value._asdict())
    if isinstance(value, Enum):
        return value.value
    if isinstance(value, Mapping):
        return {str(key): plain(each) for key, each in value.items()}
    if isinstance(value, (list, tuple, set, frozenset)):
        return [plain(each) for each in value]
    if isinstance(value, bytes):
        return value.hex()
    return value


def write_json(value: Any) -> None:
    """Write one indented JSON document to standard output."""
    click.echo(printable_json(json.dumps(plain(value), indent=2, ensure_ascii=False)))


def write_json_line(value: Any) -> None:
    """Write one JSON document on a line of its own, for commands whose output goes on."""
    line = json.dumps(plain(value), separators=(",", ":"), ensure_ascii=False)
    click.echo(printable_json(line))


def cell(value: Any) -> str:
    """Return the text of a table's cell, with control characters escaped (`printable`); None and "" become "-"."""
    if value is None or value == "":
        return "-"
    return printable(str(value))


def write_table(
    columns: Sequence[str],
    rows: Iterable[Sequence[Any]],
    *,
    title: str = "",
    left_out: Sequence[str] = (),
) -> None:
    """Write a table to standard output, with columns of numbers aligned to the right.

    Needs the package rich: the extra groupsdk[cli].

    Args:
        left_out: what a terminal that is too narrow does not show, besides columns without a value.
    """
    from rich.box import SIMPLE_HEAD
    from rich.console import Console
    from rich.table import Table
    from rich.text import Text

    rows = [tuple(row) for row in rows]
    cells = [[cell(each) for each in row] for row in rows]
    console = Console(file=sys.stdout, highlight=False, soft_wrap=False)
    shown = fitting_columns(
        columns, cells, console.width if console.is_terminal else _WIDE, left_out
    )
    least = [_FOLDED if each > _SHORT else each for each in shown.values()]
    if not console.is_terminal or _width(least) > console.width:
        # such rows the terminal breaks itself, at its edge
        console = Console(file=sys.stdout, highlight=False, width=_WIDE)
    table = Table(
        box=SIMPLE_HEAD,
        # text: a string would be read as markup, as that of the cells
        title=Text(printable(title)) if title else None,
        title_justify="left",
        pad_edge=False,
        show_edge=False,
    )
    for number, width in shown.items():
        values = [row[number] for row in rows if row[number] is not None]
        numeric = bool(values) and all(isinstance(each, (int, float)) for each in values)
        table.add_column(
            columns[number],
            justify="right" if numeric else "left",
            overflow="fold",
            no_wrap=width <= _SHORT,
        )
    for row in cells:
        table.add_row(*(Text(row[number]) for number in shown))
    console.print(table)


def fitting_columns(
    columns: Sequence[str], cells: Sequence[Sequence[str]], width: int, left_out: Sequence[str]
) -> dict[int, int]:
    """Return the numbers of the columns that fit into a width, each with its own: left out are those without a value, then `left_out`."""
    from rich.cells import cell_len

    shown = {
        number: max([len(name), *(cell_len(row[number]) for row in cells)])
        for number, name in enumerate(columns)
    }
    empty = [n for n in shown if n and cells and all(row[n] == "-" for row in cells)]
    for number in (*empty, *map(columns.index, left_out)):
        if _width(shown.values()) > width:
            shown.pop(number, None)
    return shown


def unbroken(columns: Sequence[str], shown: Mapping[int, int]) -> list[str]:
    """Return the names of the columns of which no cell is broken."""
    return [columns[number] for number, width in shown.items() if width <= _SHORT]


def _width(widths: Collection[int]) -> int:
    return sum(widths) + _GAP * (len(widths) - 1)


class StatusLine:
    """A line of standard error that is written over and erased at the end; nothing where that is no terminal.

    Args:
        after_s: quick work stays silent: a line is written only after so many seconds.
    """

    def __init__(self, *, after_s: float = 1.0) -> None:
        self._shows = sys.stderr.isatty()
        self._show_at = time.perf_counter() + after_s
        self._written = 0

    def write(self, text: str) -> None:
        """Write the line over the last one."""
        if self._shows and time.perf_counter() >= self._show_at:
            line = printable(text)
            sys.stderr.write(f"\r{line:<{self._written}}")
            sys.stderr.flush()
            self._written = len(line)

    def erase(self) -> None:
        if self._written:
            sys.stderr.write(f"\r{'':<{self._written}}\r")
            sys.stderr.flush()
            self._written = 0


@contextmanager
def progress(what: str, *, after_s: float = 1.0) -> Iterator[Callable[[str], None]]:
    """Report the progress of long work on a `StatusLine`, by the function that it yields."""
    line = StatusLine(after_s=after_s)
    try:
        yield lambda text: line.write(f"{what}: {text}")
    finally:
        line.erase()


@contextmanager
def waiting(text: str, *, after_s: float = 1.0) -> Iterator[None]:
    """Write a `StatusLine` when the code within, of a coroutine, has not ended after so many seconds."""
    import asyncio  # commands without an event loop do without it

    line = StatusLine(after_s=0)
    timer = asyncio.get_running_loop().call_later(after_s, line.write, text)
    try:
        yield
    finally:
        timer.cancel()
        line.erase()
