"""Say what a command of `groupsdk` is."""

import argparse
from typing import Protocol


class Command(Protocol):
    """One command, such as `groupsdk broker`."""

    name: str
    """What is typed."""
    help: str
    """What it does, in a line."""
    sets_up_logging: bool
    """Whether it sets up logging by itself; otherwise it gets --log-level, and a handler for standard error."""

    def add_arguments(self, parser: argparse.ArgumentParser) -> None:
        """Declare its options."""

    def run(self, arguments: argparse.Namespace) -> int:
        """Do it; return the exit status.

        Raises:
            ConfigError: an option is wrong; the text says which, and what would be right.
        """
