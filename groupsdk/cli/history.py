"""`groupsdk history`: explain a cluster's groups from its own log."""

import argparse


class HistoryCommand:
    """Turn the log of a group coordinator into tables and a report; needs the extra groupsdk[spark]."""

    name = "history"
    help = "explain a cluster's groups from its own log: tables, causes, what-if, a report"
    # of Spark's own lines nobody wants to see those of level INFO
    sets_up_logging = True

    def add_arguments(self, parser: argparse.ArgumentParser) -> None:
        """Declare its commands and their options."""
        from groupsdk.history.command import add_arguments

        add_arguments(parser)

    def run(self, arguments: argparse.Namespace) -> int:
        """Run what was chosen.

        Raises:
            GroupSdkError: the input cannot be read.
        """
        from groupsdk.history.command import run

        return run(arguments)
