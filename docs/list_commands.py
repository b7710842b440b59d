#!/usr/bin/env python
"""List every command, option, default and exit code in docs/command-reference.md: `python -m docs.list_commands`.

All of it is read from the commands themselves (click).
"""

import ast
import inspect
import textwrap
from collections import Counter
from collections.abc import Collection, Iterator
from typing import Any, Final

import click

from docs.regions import DOCS, Pages, table, write
from groupsdk.cli.command import Command, ExitCode
from groupsdk.cli.main import groupsdk


PAGE: Final = DOCS / "command-reference.md"
_HEAD: Final = """# Command reference

Every command of `groupsdk` with its arguments, options and defaults, made from the code by `python -m docs.list_commands`.
[Commands](commands.md) is the guide. An option can also be given as the environment variable under it. Every command
has `-h` and `--help`. [Common options](#common-options) and [exit codes](#exit-codes) are at the end.
"""
_COMMON: Final = 8
"""An option that at least so many commands have, with the same text, is listed once."""

Row = tuple[str, str, str]
"""An option: names with the environment variable, default, text."""


def commands(group: click.Group, before: str) -> Iterator[tuple[str, click.Command]]:
    """Yield the full name and the command for each command below a group, in their order in the help."""
    context = click.Context(group, info_name=before)
    for name in group.list_commands(context):
        command = group.get_command(context, name)
        assert command is not None
        if command.hidden:
            continue
        yield f"{before} {name}", command
        if isinstance(command, click.Group):
            yield from commands(command, f"{before} {name}")


def option_rows(command: click.Command, name: str) -> list[Row]:
    """Return a row for each option of a command that its help shows."""
    with click.Context(command, info_name=name) as context:
        return [
            row
            for each in command.params
            if isinstance(each, click.Option) and (row := option_row(each, context))
        ]


def command_section(name: str, command: click.Command, common: Collection[Row]) -> str:
    """Return the section of one command: what it does, its usage, options and examples."""
    with click.Context(command, info_name=name) as context:
        usage = " ".join([name, *command.collect_usage_pieces(context)])
    parts = [f"## {name}", _paragraphs(command.help or ""), f"```text\n{usage}\n```"]
    rows = option_rows(command, name)
    if own := [row for row in rows if row not in common]:
        parts.append(table(("Option", "Default", "What it does"), own))
    if shared := [row[0].split("`")[1].split(",")[0].split()[0] for row in rows if row in common]:
        listed = ", ".join(f"`{each}`" for each in shared)
        parts.append(f"[Common options](#common-options): {listed}.")
    if isinstance(command, click.Group):
        links = [f"[{each}](#{name.replace(' ', '-')}-{each})" for each in command.commands]
        parts.append(f"Commands: {', '.join(links)}.")
    if isinstance(command, Command) and command.examples:
        lines = [line for example, said in command.examples for line in (f"# {said}", example)]
        parts.append("```text\n" + "\n".join(lines) + "\n```")
    return "\n\n".join(each for each in parts if each) + "\n"


def option_row(option: click.Option, context: click.Context) -> Row | None:
    """Return the row of an option; None for a hidden one."""
    record = option.get_help_record(context)
    if record is None or "--help" in option.opts:
        return None
    variables = [option.envvar] if isinstance(option.envvar, str) else option.envvar or ()
    shown = "<br>".join(f"`{each}`" for each in (record[0], *variables))
    text = " ".join((option.help or "").split())
    if option.required:
        text = f"{text} Required."
    if option.multiple and "repeatable" not in text:
        text = f"{text} Repeatable."
    return shown, default_of(option, context), text.strip()


def default_of(option: click.Option, context: click.Context) -> str:
    """Return the default of an option as a reader would write it; an empty string without one."""
    if isinstance(option.show_default, str):
        return option.show_default
    default: Any = option.get_default(context, call=False)
    if default in (None, False, (), ""):
        return ""
    if option.is_flag or callable(default) or "UNSET" in repr(default):
        return ""
    return f"`{default:g}`" if isinstance(default, float) else f"`{default}`"


def exit_codes() -> str:
    """Return the exit codes with what they mean."""
    (definition,) = ast.parse(textwrap.dedent(inspect.getsource(ExitCode))).body
    assert isinstance(definition, ast.ClassDef)
    rows: list[tuple[str, str]] = []
    for node in definition.body:
        if isinstance(node, ast.Assign) and isinstance(node.value, ast.Constant):
            rows.append((str(node.value.value), "done"))
        elif isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant) and rows:
            rows[-1] = (rows[-1][0], str(node.value.value))
    return table(("Exit code", "Meaning"), rows)


def pages() -> Pages:
    """Return the page, as it has to be."""
    every = list(commands(groupsdk, "groupsdk"))
    counts = Counter(row for name, each in every for row in option_rows(each, name))
    common = [row for row, count in counts.items() if count >= _COMMON]
    parts = [
        _HEAD,
        *(command_section(name, each, common) for name, each in every),
        "## Common options\n",
        table(("Option", "Default", "What it does"), common) + "\n",
        "Secrets have no option: `GROUPSDK_SASL_PASSWORD`, `GROUPSDK_SSL_KEY_PASSWORD`.\n",
        "## Exit codes\n",
        exit_codes() + "\n",
    ]
    return {PAGE: "\n".join(parts)}


def _paragraphs(text: str) -> str:
    """Return the help of a command as Markdown: paragraphs on one line each."""
    paragraphs = inspect.cleandoc(text).replace("\b\n", "").split("\n\n")
    return "\n\n".join(" ".join(each.split()) for each in paragraphs)


if __name__ == "__main__":
    write(pages)
