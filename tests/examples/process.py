"""Run an example as a process and read what it prints."""

import os
import re
import signal
import subprocess
import sys
import threading
from collections.abc import Mapping
from pathlib import Path
from queue import Empty, SimpleQueue
from types import MappingProxyType
from typing import Self


ROOT = Path(__file__).resolve().parents[2]
_TIMEOUT_S = 120.0


class ExampleProcess:
    """One running example; a context manager, which ends it by force.

    Args:
        command: what comes after `python`: a script's path, or `-m` and a module; then arguments.
        environment: variables that it has besides those of the tests.
    """

    def __init__(
        self, *command: str, cwd: Path = ROOT, environment: Mapping[str, str] = MappingProxyType({})
    ) -> None:
        self.printed: list[str] = []
        self._lines: SimpleQueue[str | None] = SimpleQueue()
        self._process = subprocess.Popen(
            [sys.executable, *command],
            cwd=cwd,
            env={**os.environ, "PYTHONPATH": str(ROOT), **environment},
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
        )
        self._reader = threading.Thread(target=self._read, daemon=True)
        self._reader.start()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._process.kill()
        self._process.wait()
        self._reader.join()
        assert self._process.stdout is not None
        self._process.stdout.close()

    @property
    def pid(self) -> int:
        return self._process.pid

    def wait_for(self, pattern: str) -> re.Match[str]:
        """Return the match of the first new line in which `pattern` is found."""
        while True:
            try:
                line = self._lines.get(timeout=_TIMEOUT_S)
            except Empty:
                line = None
            if line is None:
                raise AssertionError(f"no line with {pattern!r} among:\n" + "\n".join(self.printed))
            self.printed.append(line)
            match = re.search(pattern, line)
            if match:
                return match

    def lines(self) -> list[str]:
        """Return all that it has printed so far."""
        while not self._lines.empty():
            line = self._lines.get()
            if line is None:
                self._lines.put(None)
                break
            self.printed.append(line)
        return list(self.printed)

    def status(self) -> int | None:
        """Return its exit status; None while it runs."""
        return self._process.poll()

    def send(self, number: signal.Signals) -> None:
        self._process.send_signal(number)

    def end(self, number: signal.Signals | None = None) -> int:
        """Send a signal, if one is given, and return the exit status."""
        if number is not None:
            self.send(number)
        status = self._process.wait(_TIMEOUT_S)
        self._reader.join()
        while (line := self._lines.get()) is not None:
            self.printed.append(line)
        return status

    def _read(self) -> None:
        assert self._process.stdout is not None
        for line in self._process.stdout:
            self._lines.put(line.rstrip("\n"))
        self._lines.put(None)
