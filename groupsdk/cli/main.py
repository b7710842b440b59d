"""Choose a command by its name and run it."""

import argparse
import logging
import sys
from collections.abc import Sequence
from typing import Final

from groupsdk.cli.broker import BrokerCommand
from groupsdk.cli.command import Command
from groupsdk.cli.history import HistoryCommand
from groupsdk.cli.worker import WorkerCommand
from groupsdk.errors import ConfigError, GroupSdkError
from groupsdk.version import __version__


_LOG = logging.getLogger(__name__)
_WRONG_USE: Final = 2
_FORMAT: Final = "%(asctime)s %(levelname)s %(name)s: %(message)s"


def commands() -> tuple[Command, ...]:
    """Return all commands."""
    return BrokerCommand(), WorkerCommand(), HistoryCommand()


def parser(asked: str | None = None) -> argparse.ArgumentParser:
    """Build the parser of the whole command line.

    Args:
        asked: the command whose options are declared; those of the others would only be imported.
    """
    made = argparse.ArgumentParser(
        prog="groupsdk",
        description="Kafka's group membership: workers, a broker, a group's history.",
    )
    made.add_argument("--version", action="version", version=f"groupsdk {__version__}")
    chosen = made.add_subparsers(dest="command", required=True, metavar="COMMAND")
    for command in commands():
        sub = chosen.add_parser(command.name, help=command.help, description=command.help)
        if command.name != asked:
            continue
        if not command.sets_up_logging:
            sub.add_argument(
                "--log-level",
                default="info",
                choices=["debug", "info", "warning", "error"],
                help="how much is written to standard error (default: info)",
            )
        command.add_arguments(sub)
        sub.set_defaults(chosen=command)
    return made


def main(argv: Sequence[str] | None = None) -> int:
    """Run a command; return the exit status: 0, 1 where it failed, 2 where it was used wrongly."""
    given = sys.argv[1:] if argv is None else argv
    arguments = parser(given[0] if given else None).parse_args(given)
    command: Command = arguments.chosen
    if not command.sets_up_logging:
        logging.basicConfig(
            level=arguments.log_level.upper(), format=_FORMAT, stream=sys.stderr, force=True
        )
    try:
        return int(command.run(arguments))
    except ConfigError as error:
        # its text says what would be right, so no traceback
        _LOG.error("%s", error)
        return _WRONG_USE
    except (GroupSdkError, OSError) as error:
        _LOG.error("%s", error)
        return 1
