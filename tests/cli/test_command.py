"""Tests that the commands are what a command has to be."""

import argparse

import pytest

from groupsdk.cli.command import Command
from groupsdk.cli.main import commands


@pytest.mark.parametrize("command", commands(), ids=lambda each: each.name)
def test_a_command_has_a_name_a_line_and_options(command: Command) -> None:
    assert command.name.isidentifier()
    assert command.help
    assert "\n" not in command.help
    parser = argparse.ArgumentParser()
    command.add_arguments(parser)
    assert parser.format_usage() != argparse.ArgumentParser().format_usage()
    assert any("--log-level" in each.option_strings for each in parser._actions) <= (
        command.sets_up_logging
    )
