"""Run an example as a process and read what it prints."""

import os
import re
import signal
import sys
from collections.abc import Mapping
from pathlib import Path

from typing_extensions import override

from docs.run_pages import Started
from groupsdk.clock import Deadline, SystemClock


ROOT = Path(__file__).resolve().parents[2]
_TIMEOUT_MS = 120_000


class ExampleProcess(Started):
    """One running example; a context manager, which ends it by force.

    Args:
        command: what comes after `python`: a script's path, or `-m` and a module; then arguments.
        environment: variables besides those of this process.
    """

    def __init__(
        self, *command: str, cwd: Path = ROOT, environment: Mapping[str, str] | None = None
    ) -> None:
        variables = {**os.environ, "PYTHONPATH": str(ROOT), **(environment or {})}
        super().__init__([sys.executable, *command], cwd, variables)

    def wait_for(self, pattern: str) -> re.Match[str]:
        """Return the match of the first new line in which `pattern` is found."""
        found = self.find(pattern, _soon())
        assert found is not None, f"no line with {pattern!r} among:\n" + "\n".join(self.lines)
        return found

    def status(self) -> int | None:
        """Return its exit status; None while it runs."""
        return self._process.poll()

    @override
    def send(self, number: signal.Signals) -> None:
        """Send the process alone a signal, without its children."""
        self._process.send_signal(number)

    def end(self, number: signal.Signals | None = None) -> int:
        """Send a signal, if one is given, and return the exit status."""
        if number is not None:
            self.send(number)
        status = self.exit_code(_soon())
        assert status is not None, "it runs on"
        return status


def _soon() -> Deadline:
    return Deadline(SystemClock(), _TIMEOUT_MS)
