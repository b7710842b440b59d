"""What every command's process does alike: log lines to standard error, signals that end it, programs that it loads."""

import importlib
import logging
import os
import signal
import sys
import threading
from collections.abc import Callable
from difflib import get_close_matches
from pathlib import Path
from textwrap import indent
from typing import Any, Final, NoReturn, TypeVar

import click

from groupsdk.cli.command import SecondsRange
from groupsdk.errors import ConfigError
from groupsdk.lazy_imports import override
from groupsdk.printable import printable, printable_lines


F = TypeVar("F", bound=Callable[..., Any])

STOP_SIGNALS: Final = (signal.SIGTERM, signal.SIGINT)
FORMAT: Final = "%(asctime)s %(levelname)s %(name)s: %(message)s"
_LEVELS: Final = ("debug", "info", "warning", "error")


def log_level_option(default: str, set_up: Callable[[str], None] | None = None) -> Callable[[F], F]:
    """Add `--log-level`, which sets up the log before the command runs: by `set_up`, or else by `set_up_logging`."""
    return click.option(
        "--log-level",
        type=click.Choice(_LEVELS, case_sensitive=False),
        default=default,
        show_default=True,
        envvar="GROUPSDK_LOG_LEVEL",
        help="The level of the log on standard error.",
        expose_value=False,
        callback=lambda _, __, level: (set_up or set_up_logging)(level),
    )


def group_option(text: str) -> Callable[[F], F]:
    return click.option("--group", envvar="GROUPSDK_GROUP", metavar="NAME", help=text)


def shutdown_timeout_option(function: F) -> F:
    return click.option(
        "--shutdown-timeout",
        type=SecondsRange(0, 1e6),
        default=30.0,
        show_default=True,
        metavar="SECONDS",
        envvar="GROUPSDK_SHUTDOWN_TIMEOUT",
        help="How long a graceful shutdown may take.",
    )(function)


_TRACEBACKS: Final = ("Traceback (most recent", "Exception Group Traceback (most recent")
"""How the traceback of a task begins, which is text by the time that it is logged."""


class PrintableFormatter(logging.Formatter):
    """Formats log lines for a terminal: names in them neither steer it nor begin a line of their own."""

    @override
    def formatMessage(self, record: logging.LogRecord) -> str:
        """Return the line of a record. A program's own records may have several lines."""
        text = super().formatMessage(record)
        if record.name.partition(".")[0] != "groupsdk":
            return printable_lines(text)
        line, _, more = text.partition("\n")
        if not more.lstrip(" +").startswith(_TRACEBACKS):
            return printable(text)
        return f"{printable(line)}\n{indent(printable_lines(more), '  ')}"

    @override
    def format(self, record: logging.LogRecord) -> str:
        record.exc_text = None  # formatted for another handler, perhaps, which does not escape
        return super().format(record)

    @override
    def formatException(self, ei: Any) -> str:
        """Return a traceback, indented: a line feed in an exception's text cannot begin a line of the log."""
        return indent(printable_lines(super().formatException(ei)), "  ")

    @override
    def formatStack(self, stack_info: str) -> str:
        return indent(printable_lines(super().formatStack(stack_info)), "  ")


def set_up_logging(level: str, handler: logging.Handler | None = None, form: str = FORMAT) -> None:
    """Configure the root logger to write to standard error, replacing its handlers."""
    handler = logging.StreamHandler(sys.stderr) if handler is None else handler
    handler.setFormatter(PrintableFormatter(form))
    logging.basicConfig(level=level.upper(), handlers=[handler], force=True)


class StopSignals:
    """SIGTERM and SIGINT: the first asks the process to end in order, the second ends it at once.

    Use it as a context manager on the main thread; elsewhere it takes no signals. The handlers from before are put
    back at the end.
    """

    def __init__(self) -> None:
        self.first = threading.Event()
        """Set by the first signal."""
        self._before: dict[signal.Signals, Any] = {}

    def __enter__(self) -> "StopSignals":
        if threading.current_thread() is threading.main_thread():
            for each in STOP_SIGNALS:
                self._before[each] = signal.signal(each, self._received)
        return self

    def __exit__(self, *_: object) -> None:
        for each, handler in self._before.items():
            signal.signal(each, handler)

    def _received(self, number: int, _: object) -> None:
        if self.first.is_set():
            os._exit(128 + number)
        self.first.set()


def end_at_once(code: int) -> NoReturn:
    """End the process without waiting for threads, which a pool's threads would otherwise delay for ever.

    Output and logs are flushed. No `finally` block and no `atexit` function runs."""
    logging.shutdown()
    sys.stdout.flush()
    sys.stderr.flush()
    os._exit(code)


def put_on_path() -> None:
    """Put the current directory on the import path, as `python -m` does."""
    if "" not in sys.path and str(Path.cwd()) not in sys.path:
        sys.path.insert(0, str(Path.cwd()))


def load(place: str, example: str = "crawler:app") -> Any:
    """Import "module:name", with the current directory on the path; `example` is a right place, for the error."""
    module_name, colon, name = place.partition(":")
    if not colon or not module_name or not name:
        raise ConfigError(f"{place!r} is not module:name, for example {example}")
    put_on_path()
    try:
        found: Any = importlib.import_module(module_name)
    except ModuleNotFoundError as error:
        if error.name is not None and module_name.startswith(error.name):
            raise ConfigError(f"there is no module {error.name!r} for {place!r}") from None
        raise
    for part in name.split("."):
        if not hasattr(found, part):
            close = get_close_matches(part, dir(found), n=1)
            hint = f"; did you mean {close[0]}?" if close else ""
            raise ConfigError(f"{place!r}: {module_name} has no {name!r}{hint}")
        found = getattr(found, part)
    return found
