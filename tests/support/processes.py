"""A process of a test, which writes what it does into a file, and which the test can pause and kill."""

import contextlib
import json
import os
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any, Self

from groupsdk.testing.watchdog import WATCHDOG


_ROOT = Path(__file__).resolve().parents[2]
_EXIT_S = 60.0


class LedgerProcess:
    """Runs a module of the tests as a process; a context manager that kills it at the end.

    Args:
        module: run as `python -m module ledger arguments...`.
        ledger: the file that the process writes one JSON value a line to.
        arguments: what else the module is given.
    """

    def __init__(self, module: str, ledger: Path, *arguments: str) -> None:
        self._ledger = ledger
        self._command = [sys.executable, "-m", module, str(ledger), *arguments]
        self._process: subprocess.Popen[bytes] | None = None

    def __enter__(self) -> Self:
        self._process = subprocess.Popen(self._command, cwd=_ROOT, start_new_session=True)
        WATCHDOG.watch(self._process.pid)
        return self

    def __exit__(self, *_: object) -> None:
        if self._process is not None:
            with contextlib.suppress(ProcessLookupError):
                os.killpg(self.pid, signal.SIGKILL)  # its child as well, which may be stopped
        self.kill()

    @property
    def pid(self) -> int:
        assert self._process is not None
        return self._process.pid

    @property
    def children(self) -> list[int]:
        """The ids of its child processes."""
        tasks = Path(f"/proc/{self.pid}/task").glob("*/children")
        return [int(child) for task in tasks for child in task.read_text().split()]

    def pause(self, *, with_children: bool = False) -> None:
        """Stop it from running (SIGSTOP), and wait until all its threads stand still."""
        (os.killpg if with_children else os.kill)(self.pid, signal.SIGSTOP)
        os.waitid(os.P_PID, self.pid, os.WSTOPPED | os.WEXITED | os.WNOWAIT)

    def resume(self) -> None:
        """Let it and its children run on (SIGCONT)."""
        os.killpg(self.pid, signal.SIGCONT)

    def send(self, number: int) -> int:
        """Send it a signal that ends it, and return its exit status."""
        assert self._process is not None
        self._process.send_signal(number)
        return self._process.wait(_EXIT_S)

    def kill(self) -> None:
        """End it at once (SIGKILL)."""
        if self._process is not None:
            self._process.kill()
            self._process.wait()
            WATCHDOG.forget(self._process.pid)

    def lines(self) -> list[Any]:
        """Return what it has written so far, without a last line that is not complete."""
        try:
            lines = self._ledger.read_text(encoding="utf-8").split("\n")[:-1]
        except FileNotFoundError:
            return []
        return [json.loads(line) for line in lines]
