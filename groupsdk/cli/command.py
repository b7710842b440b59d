"""The base of all commands: examples in their help, groups that import lazily, suggestions, exit codes."""

import math
import sys
from collections.abc import Callable, Mapping, Sequence
from difflib import get_close_matches
from enum import IntEnum
from importlib import import_module
from typing import Any, Final, TypeVar

import click

from groupsdk.errors import GroupSdkError, ResolveError
from groupsdk.lazy_imports import override
from groupsdk.printable import printable


F = TypeVar("F", bound=Callable[..., Any])

_CONTEXT: Final = {"help_option_names": ["-h", "--help"], "max_content_width": 110}


class ExitCode(IntEnum):
    """The exit codes of every command. docs/commands.md lists them."""

    OK = 0
    FAILED = 1
    """The cluster refused, could not be reached, or the program ended by itself with an error."""
    WRONG_USE = 2
    """An option, an argument, a file or a setting is wrong."""
    NOT_IN_ORDER = 3
    """The process could not end in order in the time that it had."""
    FINDINGS = 4
    """`doctor` found something to change."""
    CRITICAL = 5
    """`doctor` found a group whose records are not read, or will be lost to it."""
    INTERRUPTED = 130
    """Ctrl-C ended the command."""


class SecondsRange(click.FloatRange):
    """A number of seconds in a range; NaN, which compares with nothing, is not in it."""

    name = "number"

    @override
    def convert(
        self, value: Any, param: click.Parameter | None, ctx: click.Context | None
    ) -> float:
        try:
            number = float(value)
        except ValueError:
            number = math.nan
        if math.isnan(number):
            self.fail(f"{value!r} is not a number of seconds, such as 5 or 0.5.", param, ctx)
        found: float = super().convert(value, param, ctx)
        return found


class Command(click.Command):
    def __init__(
        self, *arguments: Any, examples: Sequence[tuple[str, str]] = (), **options: Any
    ) -> None:
        super().__init__(*arguments, **{"context_settings": _CONTEXT, **options})
        self.examples = tuple(examples)
        for each in self.params:
            if isinstance(each, click.Option):
                each.show_envvar = True  # where an option has one
                if isinstance(each.type, click.IntRange):
                    each.type.name = "integer"  # errors call it an integer range

    @override
    def format_epilog(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        if self.examples:
            with formatter.section("Examples"):
                for line, sentence in self.examples:
                    formatter.write(f"{'':{formatter.current_indent}}# {sentence}\n")
                    formatter.write(f"{'':{formatter.current_indent}}{line}\n")
        super().format_epilog(ctx, formatter)


class CommandGroup(click.Group):
    """A command with commands of its own, such as `groupsdk groups`. It suggests names for unknown ones.

    `places` are "module:attribute" of commands that are imported when they are asked for, and what they do in a line.
    """

    command_class = Command

    def __init__(
        self, *arguments: Any, places: Mapping[str, tuple[str, str]] | None = None, **options: Any
    ) -> None:
        super().__init__(*arguments, **{"context_settings": _CONTEXT, **options})
        self._places = dict(places or {})

    @override
    def list_commands(self, ctx: click.Context) -> list[str]:
        return [*self._places, *(each for each in self.commands if each not in self._places)]

    @override
    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        if cmd_name not in self.commands and cmd_name in self._places:
            module, _, name = self._places[cmd_name][0].partition(":")
            self.add_command(getattr(import_module(module), name), cmd_name)
        return super().get_command(ctx, cmd_name)

    @override
    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        name = args[0] if args else ""
        if name and not name.startswith("-") and self.get_command(ctx, name) is None:
            known = self.list_commands(ctx)
            close = get_close_matches(name, known, n=1)
            hint = f"did you mean {close[0]!r}?" if close else f"there is {', '.join(known)}."
            ctx.fail(f"No such command {name!r}: {hint}")
        return super().resolve_command(ctx, args)

    @override
    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        # without importing those that are only listed
        rows = [(name, self._line_of(name)) for name in self.list_commands(ctx)]
        with formatter.section("Commands"):
            formatter.write_dl(rows)

    def _line_of(self, name: str) -> str:
        if name in self._places:
            return self._places[name][1]
        return self.commands[name].get_short_help_str(120)


def together(*options: Callable[[Any], Any]) -> Callable[[F], F]:
    """Return a decorator that adds options, in the order in which the help shows them."""

    def decorate(function: F) -> F:
        decorated: Any = function
        for each in reversed(options):
            decorated = each(decorated)
        result: F = decorated
        return result

    return decorate


def exit_with(code: ExitCode | int) -> None:
    click.get_current_context().exit(int(code))


def complain(text: str) -> None:
    """Write one line to standard error, as all commands write their errors."""
    sys.stderr.write(f"groupsdk: {printable(text)}\n")
    sys.stderr.flush()


class Outage:
    """A time in which a cluster that was reached before is out of reach; a person is told of its begin and its end."""

    def __init__(self, every_s: float) -> None:
        self.every_s = every_s
        """How long the command waits before it tries again, in seconds."""
        self.goes_on = False

    @staticmethod
    def is_one(error: GroupSdkError) -> bool:
        """Whether an error may be one: its names may be unknown as long as none of its brokers runs."""
        return error.retriable or isinstance(error, ResolveError)

    def begin(self, why: str) -> None:
        """Tell of it, unless it goes on."""
        if not self.goes_on:
            complain(f"{why}; trying again every {self.every_s:g} s")
        self.goes_on = True

    def end(self) -> None:
        if self.goes_on:
            complain("reading goes on")
        self.goes_on = False
