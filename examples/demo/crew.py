"""Start the demo's workers as processes, and signal them."""

import json
import signal
import subprocess
import sys
import threading
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path
from queue import Empty, SimpleQueue
from typing import Any, Self

from groupsdk.clock import Deadline, SystemClock


_ROOT = Path(__file__).resolve().parents[2]
_STOP_TIMEOUT_S = 10
_LEAVE_TIMEOUT_MS = 3_000

Event = dict[str, Any]
"""What a worker told, or ``{"event": "ended", "status": ...}``."""


class Crew:
    """The worker processes by name; none of them outlives the `with` statement.

    Args:
        options: the command line that all workers get.
    """

    def __init__(self, options: Sequence[str]) -> None:
        self._options = options
        self._processes: dict[str, subprocess.Popen[bytes]] = {}
        self._events: SimpleQueue[tuple[str, Event]] = SimpleQueue()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        running = [each for each in self._processes.values() if each.poll() is None]
        for process in running:
            process.terminate()
            process.send_signal(signal.SIGCONT)
        deadline = Deadline(SystemClock(), _LEAVE_TIMEOUT_MS)
        for process in running:
            with suppress(subprocess.TimeoutExpired):
                process.wait(deadline.remaining_ms(_LEAVE_TIMEOUT_MS) / 1000)
            process.kill()
            process.wait()

    def start(self, name: str) -> int:
        """Start a worker and return its process id."""
        command = [sys.executable, "-m", "examples.demo.worker", "--name", name, *self._options]
        process = subprocess.Popen(
            command, cwd=_ROOT, stdin=subprocess.PIPE, stdout=subprocess.PIPE
        )
        self._processes[name] = process
        threading.Thread(target=self._listen, args=(name, process), daemon=True).start()
        return process.pid

    def next_event(self, timeout_s: float) -> tuple[str, Event] | None:
        """Return what a worker told next, with its name; None if nothing came in time."""
        try:
            return self._events.get(timeout=timeout_s)
        except Empty:
            return None

    def send(self, name: str, number: signal.Signals) -> None:
        """Send a worker a signal."""
        self._processes[name].send_signal(number)

    def stop(self) -> None:
        """Have all workers leave, and wait for it.

        Raises:
            subprocess.TimeoutExpired: one did not.
        """
        for process in self._processes.values():
            process.terminate()
        for process in self._processes.values():
            process.wait(_STOP_TIMEOUT_S)

    def _listen(self, name: str, process: subprocess.Popen[bytes]) -> None:
        assert process.stdout is not None
        for line in process.stdout:
            self._events.put((name, json.loads(line)))
        self._events.put((name, {"event": "ended", "status": process.wait()}))
