"""Run one client's members in a process of its own, and talk with it in lines of JSON."""

import contextlib
import json
import logging
import os
import re
import subprocess
import sys
import tempfile
import threading
import time
from dataclasses import asdict
from pathlib import Path
from typing import Any, Final, Self

from tests.benchmarks.members import Members, Settings
from tests.benchmarks.report import DIRECTORY


ROOT = Path(__file__).resolve().parents[2]
_ANSWER_S: Final = 60.0
"""How long a worker may take to answer, beyond what it was asked to spend: a client that hangs ends its own run only."""


def compiled_environment() -> dict[str, str]:
    """Return an environment in which modules are compiled once, as those of an installed package are."""
    environment = {k: v for k, v in os.environ.items() if k != "PYTHONDONTWRITEBYTECODE"}
    return environment | {"PYTHONPYCACHEPREFIX": str(DIRECTORY / "pycache")}


class WorkerError(Exception):
    """A worker ended, or a member of it raised."""


class Worker:
    """A process with the members of one client; use it as a context manager."""

    def __init__(self, client: str, settings: Settings) -> None:
        self.client = client
        stderr, name = tempfile.mkstemp()
        self._stderr = Path(name)
        self._process = subprocess.Popen(
            [sys.executable, "-m", "tests.benchmarks.worker", client],
            cwd=ROOT,
            env=compiled_environment(),
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=stderr,
            text=True,
        )
        os.close(stderr)
        self.call("ready")
        self.empty = cost_of(self.pid)
        """What the process costs before it has imported its client."""
        self.call("open", **asdict(settings))

    @property
    def pid(self) -> int:
        return self._process.pid

    def call(self, what: str, **arguments: Any) -> dict[str, Any]:
        """Have the worker do something and return what it answers."""
        if self._process.stdin is None or self._process.stdout is None:
            raise WorkerError("no pipes")
        spent_s = arguments.get("count", 0) * arguments.get("gap_s", 0.0)
        watch = threading.Timer(_ANSWER_S + spent_s, self._process.kill)
        watch.start()
        try:
            self._process.stdin.write(json.dumps({"do": what, **arguments}) + "\n")
            self._process.stdin.flush()
            line = self._process.stdout.readline()
        except BrokenPipeError:
            line = ""
        finally:
            watch.cancel()
        if not line:
            self._process.wait(10)
            tail = self._stderr.read_text(errors="replace")[-300:].strip().replace("\n", " ")
            raise WorkerError(f"{self.client}: the worker ended ({self._process.poll()}) {tail}")
        answer: dict[str, Any] = json.loads(line)
        if answer.get("errors"):
            raise WorkerError(f"{self.client}: {answer['errors'][0]}")
        return answer

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, *_: object) -> None:
        if kind is None and self._process.poll() is None:
            with contextlib.suppress(WorkerError):
                self.call("close")
        self._process.kill()
        self._process.wait()
        self._stderr.unlink()
        for pipe in (self._process.stdin, self._process.stdout):
            if pipe is not None:
                with contextlib.suppress(OSError):
                    pipe.close()


class _Service:
    """What the process does for its `Worker`."""

    def __init__(self, client: str) -> None:
        self._client = client
        self._members: Members | None = None
        self._began = 0.0

    @property
    def members(self) -> Members:
        if self._members is None:
            raise WorkerError("open comes first")
        return self._members

    def ready(self) -> dict[str, Any]:
        return {}

    def open(self, **settings: Any) -> dict[str, Any]:
        # Here, so that a worker imports nothing but its own client.
        from tests.benchmarks.clients import CLIENTS

        self._members = CLIENTS[self._client](Settings(**settings))
        return {}

    def start(self, first: int, count: int, gap_s: float = 0.0) -> dict[str, Any]:
        self._began = time.perf_counter()
        for index in range(first, first + count):
            due_s = self._began + (index - first) * gap_s - time.perf_counter()
            if due_s > 0:
                time.sleep(due_s)
            self.members.start(index)
        return {}

    def taken(self) -> dict[str, Any]:
        """Return for each member the seconds from the start to its last assignment, and how old that is."""
        last = dict(self.members.taken.copy())
        now = time.perf_counter()
        return {
            "members": len(last),
            "after_s": {index: at - self._began for index, at in last.items()},
            "quiet_s": now - max(last.values(), default=now),
            "left_s": {index: at - self._began for index, at in self.members.left.items()},
        }

    def leave(self, index: int) -> dict[str, Any]:
        self.members.leave(index)
        return {}

    def occupy(self, how: str, seconds: float) -> dict[str, Any]:
        self.members.occupy(0, how, seconds)
        return {}

    def close(self) -> dict[str, Any]:
        self.members.close()
        return {}


def cost_of(pid: int) -> tuple[float, int, int]:
    """Return CPU seconds, bytes of memory and threads of a process and its children; on Linux.

    Memory is what the process has written to and shares with no other (Private_Dirty), so that it does not
    depend on who else has the same libraries open.
    """
    # The number of a process's CPU clock, as clock_getcpuclockid computes it: exact, unlike the ticks in stat.
    cpu_s = time.clock_gettime(~pid << 3 | 2)
    rollup = Path(f"/proc/{pid}/smaps_rollup").read_text(encoding="ascii")
    found = re.search(r"^Private_Dirty: +(\d+) kB$", rollup, re.MULTILINE)
    memory = int(found[1]) * 1024 if found is not None else 0
    threads = 0
    for task in Path(f"/proc/{pid}/task").iterdir():
        threads += 1
        with contextlib.suppress(OSError):
            for child in (task / "children").read_text(encoding="ascii").split():
                more = cost_of(int(child))
                cpu_s, memory, threads = cpu_s + more[0], memory + more[1], threads + more[2]
    return cpu_s, memory, threads


def main() -> None:
    """Answer one line for each line that is read."""
    logging.disable(logging.CRITICAL)
    service = _Service(sys.argv[1])
    # What a library prints must not end up among the answers.
    answers = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)
    for line in sys.stdin:
        request = json.loads(line)
        what = request.pop("do")
        answer = getattr(service, what)(**request)
        answer["errors"] = service.members.errors if what not in ("ready", "close") else []
        answers.write(json.dumps(answer) + "\n")
        answers.flush()
        if what == "close":
            os._exit(0)


if __name__ == "__main__":
    main()
