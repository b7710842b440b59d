"""`groupsdk worker`: run a program's connectors and tasks as one worker of a group."""

import argparse


class WorkerCommand:
    """Run a worker until SIGTERM or SIGINT."""

    name = "worker"
    help = "run the connectors and tasks of a program, module:app, as one worker of a group"
    sets_up_logging = True

    def add_arguments(self, parser: argparse.ArgumentParser) -> None:
        """Declare its options, which fall back to the environment."""
        from groupsdk.connect.command import add_arguments

        add_arguments(parser)

    def run(self, arguments: argparse.Namespace) -> int:
        """Run the worker; return its exit status."""
        from groupsdk.connect.command import run

        return run(arguments)
