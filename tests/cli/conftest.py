"""Gives the tests of commands a cluster, and a way to run a command and read what it wrote."""

import json
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import click
import pytest

from groupsdk.broker.embedded import EmbeddedBroker
from groupsdk.cli.command import CommandGroup
from groupsdk.cli.main import groupsdk, main


@dataclass(frozen=True, slots=True)
class Ran:
    """What a command did."""

    code: int
    out: str
    err: str

    @property
    def json(self) -> Any:
        """The JSON document that it wrote."""
        return json.loads(self.out)

    @property
    def lines(self) -> list[Any]:
        """The JSON objects that it wrote, one on each line."""
        return [json.loads(line) for line in self.out.splitlines()]


Run = Callable[..., Ran]


def commands() -> list[tuple[str, ...]]:
    """Lists every command by its words."""
    context = click.Context(groupsdk)
    found: list[tuple[str, ...]] = []
    waiting: list[tuple[str, ...]] = [(name,) for name in groupsdk.list_commands(context)]
    while waiting:
        words = waiting.pop()
        command = command_of(words)
        if isinstance(command, CommandGroup):
            waiting += [(*words, name) for name in command.list_commands(context)]
        else:
            found.append(words)
    return sorted(found)


def command_of(words: tuple[str, ...]) -> click.Command:
    """Finds a command by its words."""
    command: click.Command = groupsdk
    for word in words:
        assert isinstance(command, CommandGroup)
        found = command.get_command(click.Context(command), word)
        assert found is not None
        command = found
    return command


@pytest.fixture
def run(capsys: pytest.CaptureFixture[str]) -> Run:
    """Runs a command; `code` is the exit code that it must have, None for any."""

    def command(*words: str, code: int | None = 0) -> Ran:
        capsys.readouterr()
        found = main(list(words))
        out, err = capsys.readouterr()
        assert code is None or found == code, err
        return Ran(found, out, err)

    return command


@pytest.fixture(scope="module")
def broker() -> Iterator[EmbeddedBroker]:
    """Two nodes, so that groups and partitions are on different ones."""
    with EmbeddedBroker(nodes=2) as running:
        yield running
