"""Choose a command by its name and run it."""

import argparse
import logging
import sys
from collections.abc import Sequence
from typing import Final

from groupsdk.cli.broker import BrokerCommand
from groupsdk.cli.command import Command
from groupsdk.errors import ConfigError, GroupSdkError
from groupsdk.version import __version__


_LOG = logging.getLogger(__name__)
_WRONG_USE: Final = 2
_FORMAT: Final = "%(asctime)s %(levelname)s %(name)s: %(message)s"


def commands() -> tuple[Command, ...]:
    """Return all commands."""
    return (BrokerCommand(),)


def parser() -> argparse.ArgumentParser:
    """Build the parser of the whole command line."""
    made = argparse.ArgumentParser(
        prog="groupsdk", description="Kafka's group membership: tools for local work and tests."
    )
    made.add_argument("--version", action="version", version=f"groupsdk {__version__}")
    chosen = made.add_subparsers(dest="command", required=True, metavar="COMMAND")
    for command in commands():
        sub = chosen.add_parser(command.name, help=command.help, description=command.help)
        sub.add_argument(
            "--log-level",
            default="info",
            choices=["debug", "info", "warning", "error"],
            help="how much is written to standard error (default: info)",
        )
        command.add_arguments(sub)
        sub.set_defaults(run=command.run)
    return made


def main(argv: Sequence[str] | None = None) -> int:
    """Run a command; return the exit status: 0, 1 where it failed, 2 where it was used wrongly."""
    arguments = parser().parse_args(argv)
    logging.basicConfig(
        level=arguments.log_level.upper(), format=_FORMAT, stream=sys.stderr, force=True
    )
    try:
        return int(arguments.run(arguments))
    except ConfigError as error:
        # its text says what would be right, so no traceback
        _LOG.error("%s", error)
        return _WRONG_USE
    except (GroupSdkError, OSError) as error:
        _LOG.error("%s", error)
        return 1
