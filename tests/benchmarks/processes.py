"""Run what is measured in processes of their own: members of a client, programs in Go; and count what a process costs."""

import contextlib
import json
import os
import re
import shutil
import subprocess
import sys
import threading
import time
from dataclasses import asdict
from pathlib import Path
from typing import Any, Final

from typing_extensions import override

from tests.benchmarks.members import Settings
from tests.benchmarks.report import DIRECTORY
from tests.support.processes import LineProgram


ROOT = Path(__file__).resolve().parents[2]
_ANSWER_S: Final = 60.0
"""How long a worker may take to answer, beyond what it was asked to spend: a client that hangs ends its own run only."""


def compiled_environment() -> dict[str, str]:
    """Return an environment in which modules are compiled once, as those of an installed package are."""
    environment = {k: v for k, v in os.environ.items() if k != "PYTHONDONTWRITEBYTECODE"}
    return environment | {"PYTHONPYCACHEPREFIX": str(DIRECTORY / "pycache")}


def go_program(name: str) -> Path | None:
    """Build a program of the folder `go`; None where that cannot be done, which is told."""
    go, program = shutil.which("go"), DIRECTORY / name
    if go is None:
        print(f"without {name}: there is no Go", file=sys.stderr)
        return None
    DIRECTORY.mkdir(exist_ok=True)
    source = Path(__file__).parent / "go" / name
    done = subprocess.run(
        [go, "build", "-o", str(program), "."],
        cwd=source,
        capture_output=True,
        text=True,
        check=False,
    )
    if done.returncode:
        print(f"without {name}: {done.stderr}", file=sys.stderr)
        return None
    return program


class WorkerError(Exception):
    """A worker ended, or a member of it raised."""


class Worker(LineProgram):
    """A process with the members of one client; use it as a context manager."""

    def __init__(self, client: str, settings: Settings) -> None:
        self.client = client
        command = [sys.executable, "-m", "tests.benchmarks.clients", client]
        super().__init__(command, environment=compiled_environment())
        self.call("ready")
        self.empty = cost_of(self.pid)
        """What the process costs before it has imported its client."""
        self.call("open", **asdict(settings))

    def call(self, what: str, **arguments: Any) -> dict[str, Any]:
        """Have the worker do something and return what it answers."""
        spent_s = arguments.get("count", 0) * arguments.get("gap_s", 0.0)
        watch = threading.Timer(_ANSWER_S + spent_s, self.process.kill)
        watch.start()
        try:
            line = self.ask(json.dumps({"do": what, **arguments}))
        except BrokenPipeError:
            line = ""
        finally:
            watch.cancel()
        if not line:
            raise WorkerError(f"{self.client}: the worker ended ({self.process.wait(10)})")
        answer: dict[str, Any] = json.loads(line)
        if answer.get("errors"):
            raise WorkerError(f"{self.client}: {answer['errors'][0]}")
        return answer

    @override
    def __exit__(self, *raised: object) -> None:
        if raised[:1] == (None,) and self.process.poll() is None:
            with contextlib.suppress(WorkerError):
                self.call("close")
        super().__exit__()


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
