"""What commands write: tables for people or JSON for programs to standard output, progress to standard error."""

import json
import sys
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import fields, is_dataclass
from enum import Enum
from typing import Any, Final, TypeVar

import click


F = TypeVar("F", bound=Callable[..., Any])

_WIDE: Final = 10_000
"""Columns of a table that no terminal reads: its rows are never broken."""
_CONTROLS: Final = {code: f"\\x{code:02x}" for code in (*range(32), 127, *range(128, 160))}
"""Names come from the cluster: no character of theirs may steer a terminal."""


def json_option(function: F) -> F:
    """Give a command `--json`, as the parameter `as_json`."""
    return click.option(
        "--json",
        "as_json",
        is_flag=True,
        envvar="GROUPSDK_JSON",
        help="Write JSON instead of a table.",
    )(function)


def plain(value: Any) -> Any:
    """Turn values into what JSON can carry: data classes into objects, enums into their values."""
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
    """Write one JSON document."""
    click.echo(json.dumps(plain(value), indent=2, ensure_ascii=False))


def write_json_line(value: Any) -> None:
    """Write one JSON object on a line of its own, as commands do that go on writing."""
    click.echo(json.dumps(plain(value), separators=(",", ":"), ensure_ascii=False))


def cell(value: Any) -> str:
    """Return the text of a table's cell: "-" for nothing, and no control characters."""
    if value is None or value == "":
        return "-"
    return str(value).translate(_CONTROLS)


def write_table(columns: Sequence[str], rows: Iterable[Sequence[Any]], *, title: str = "") -> None:
    """Write a table; numbers stand right.

    Needs the package rich: the extra groupsdk[cli].
    """
    from rich.box import SIMPLE_HEAD
    from rich.console import Console
    from rich.table import Table
    from rich.text import Text

    rows = [tuple(row) for row in rows]
    table = Table(
        box=SIMPLE_HEAD, title=title or None, title_justify="left", pad_edge=False, show_edge=False
    )
    for number, name in enumerate(columns):
        values = [row[number] for row in rows if row[number] is not None]
        numeric = bool(values) and all(isinstance(each, (int, float)) for each in values)
        table.add_column(name, justify="right" if numeric else "left", overflow="fold")
    for row in rows:
        table.add_row(*(Text(cell(each)) for each in row))
    console = Console(file=sys.stdout, highlight=False, soft_wrap=False)
    if not console.is_terminal:
        console = Console(file=sys.stdout, highlight=False, width=_WIDE)
    console.print(table)


@contextmanager
def progress(what: str, *, after_s: float = 1.0) -> Iterator[Callable[[str], None]]:
    """Tell a person at a terminal, on standard error, how far long work is; silent where it is quick.

    The value is a function that takes the newest line of progress.
    """
    shows = sys.stderr.isatty()
    begun = time.perf_counter()
    written = 0

    def say(text: str) -> None:
        nonlocal written
        if shows and time.perf_counter() - begun >= after_s:
            line = f"{what}: {text}"
            sys.stderr.write(f"\r{line:<{written}}")
            sys.stderr.flush()
            written = len(line)

    try:
        yield say
    finally:
        if written:
            sys.stderr.write(f"\r{'':<{written}}\r")
            sys.stderr.flush()
