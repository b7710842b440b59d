"""Processes of a test: one writes what it does into a file, another is told by lines what to do."""

import contextlib
import json
import os
import signal
import subprocess
import sys
from collections.abc import Iterator, Mapping, Sequence
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


class LineProgram:
    """A program that reads lines from its input and writes lines; a context manager that kills it at the end."""

    def __init__(
        self,
        command: Sequence[str],
        *,
        environment: Mapping[str, str] | None = None,
        quiet: bool = False,
    ) -> None:
        self.process = subprocess.Popen(
            command,
            cwd=_ROOT,
            env=environment,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL if quiet else None,
            text=True,
            start_new_session=True,
        )
        WATCHDOG.watch(self.process.pid)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.kill()
        WATCHDOG.forget(self.pid)
        for stream in (self.process.stdin, self.process.stdout):
            if stream is not None:
                with contextlib.suppress(BrokenPipeError):
                    stream.close()

    @property
    def pid(self) -> int:
        """The process id."""
        return self.process.pid

    def kill(self) -> None:
        """End it at once (SIGKILL)."""
        self.process.kill()
        self.process.wait()

    def await_end(self, timeout_s: float) -> None:
        """Wait until it ends by itself, without an error."""
        if self.process.wait(timeout_s):
            raise RuntimeError(f"the program ended with status {self.process.returncode}")

    def send(self, *lines: str) -> None:
        """Write lines to its input."""
        assert self.process.stdin is not None
        self.process.stdin.write("".join(f"{line}\n" for line in lines))
        self.process.stdin.flush()

    def lines(self) -> Iterator[str]:
        """Go through the lines that it writes, until it ends."""
        assert self.process.stdout is not None
        for line in self.process.stdout:
            yield line.rstrip("\n")

    def ask(self, line: str) -> str:
        """Send a line and return the next one that it writes, "" at its end; the test's own timeout bounds it."""
        self.send(line)
        return next(self.lines(), "")
