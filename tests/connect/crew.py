"""Processes of workers whose tasks write to one fence ledger."""

import os
import signal
import subprocess
import sys
from contextlib import ExitStack
from pathlib import Path
from typing import Self

from groupsdk.clock import SystemClock
from tests.connect.fence_ledger import FenceLedger
from tests.connect.workers import eventually


ROOT = Path(__file__).resolve().parents[2]


class Crew:
    """The processes of one group. Used as a context manager, which ends them all.

    Args:
        environment: more settings of `ledger_worker`.
    """

    def __init__(self, servers: str, directory: Path, tasks: int, **environment: object) -> None:
        self.ledger = FenceLedger(directory)
        self.processes: dict[str, subprocess.Popen[bytes]] = {}
        self._environment = {
            **os.environ,
            "SERVERS": servers,
            "GROUP": "crew",
            "LEDGER": str(directory),
            **{key: str(value) for key, value in environment.items()},
        }
        self._stack = ExitStack()
        self._log = directory / "log"
        self.want(tasks)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._stack.close()

    def want(self, tasks: int) -> None:
        """Have the leader plan so many tasks, soon."""
        path = self.ledger.directory / "count"
        new = path.with_name("count.new")
        new.write_text(str(tasks))
        new.replace(path)
        self.tasks = tasks

    def start(self, name: str, **environment: object) -> "subprocess.Popen[bytes]":
        log = self._stack.enter_context(self._log.open("ab"))
        process = subprocess.Popen(
            [sys.executable, "-m", "tests.connect.ledger_worker", name],
            cwd=ROOT,
            stderr=log,
            env={**self._environment, **{key: str(each) for key, each in environment.items()}},
        )
        self._stack.callback(process.wait)
        self._stack.callback(process.kill)
        self._stack.callback(process.send_signal, signal.SIGCONT)
        self.processes[name] = process
        return process

    def owned(self, *, since_ms: int, by: int | None = None) -> bool:
        """Whether all tasks have been written for since a time, by so many workers."""
        owners = self.ledger.owners(self.tasks, since_ms)
        return len(owners) == self.tasks and by in (None, len(set(owners.values())))

    def runs_on(self, *names: str) -> bool:
        """Whether all tasks were just written for by these workers, and by no other."""
        owners = self.ledger.owners(self.tasks, SystemClock().now_ms() - 500)
        return len(owners) == self.tasks and set(owners.values()) == {f"{each}-0" for each in names}

    def settled(self, by: int | None = None, timeout_s: float = 60) -> None:
        """Wait until all tasks run, on so many workers."""
        now_ms = SystemClock().now_ms()
        eventually(lambda: self.owned(since_ms=now_ms, by=by), self.log, timeout_s)

    def log(self) -> str:
        """What the workers logged, and who owns how much."""
        owners = list(self.ledger.owners(self.tasks, 0).values())
        counts = {each: owners.count(each) for each in sorted(set(owners))}
        return f"{counts}\n{self._log.read_text()[-3_000:]}"
