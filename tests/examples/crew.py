"""Workers of one example program as processes of their own, which a test may kill."""

import http.client
import json
import signal
import urllib.error
import urllib.request
from contextlib import ExitStack
from typing import Any, Self

from groupsdk.testing.ports import ReservedPorts
from tests.connect.workers import eventually
from tests.examples.process import ExampleProcess


_SETTINGS = {
    "scheduled.rebalance.max.delay.ms": 0,
    "session.timeout.ms": 4_000,
    "heartbeat.interval.ms": 200,
    "task.restart.backoff.ms": 50,
    "offset.storage.partitions": 2,
    "status.storage.partitions": 1,
}


class Crew:
    """A group of workers with REST; a context manager, which ends them by force.

    Args:
        app: the program, as module:name.
    """

    def __init__(self, app: str, group: str, servers: str) -> None:
        self._command = ["-m", "groupsdk", "worker", app, "--group", group]
        self._command += ["--bootstrap-servers", servers, "--log-level", "info"]
        for key, value in _SETTINGS.items():
            self._command += ["--set", f"{key}={value}"]
        self._stack = ExitStack()
        self._ports: dict[int, int] = {}
        self._processes: dict[int, ExampleProcess] = {}

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._stack.close()

    def start(self) -> int:
        """Start one more; returns its process id."""
        (port,) = self._stack.enter_context(ReservedPorts(1)).ports
        process = ExampleProcess(*self._command, "--rest", f"127.0.0.1:{port}")
        self._stack.enter_context(process)
        self._processes[process.pid] = process
        self._ports[process.pid] = port
        return process.pid

    def send(self, pid: int, number: signal.Signals) -> None:
        """Send one of them a signal; SIGKILL takes it out of the crew."""
        process = self._processes[pid]
        if number is not signal.SIGKILL:
            process.send(number)
            return
        process.end(number)
        del self._processes[pid]

    def put(self, name: str, config: dict[str, str]) -> None:
        """Give a connector its configuration."""
        path = f"/connectors/{name}/config"
        eventually(lambda: self._ask("PUT", path, config) is not None, self.said)

    def owners(self, name: str) -> dict[int, int]:
        """Who runs each of a connector's tasks, by their process ids."""
        status = self._ask("GET", f"/connectors/{name}/status") or {"tasks": []}
        return {
            task["id"]: int(task["worker_id"].rpartition(":")[2])
            for task in status["tasks"]
            if task["state"] == "RUNNING"
        }

    def owner(self, name: str, task: int = 0) -> int:
        """Wait until a task runs on a worker that is still there; returns its process id."""

        def found() -> int | None:
            pid = self.owners(name).get(task)
            return pid if pid in self._processes else None

        return int(eventually(found, self.said))

    def said(self) -> str:
        """What they logged, the end of it."""
        lines = [line for each in self._processes.values() for line in each.lines[-30:]]
        return "\n".join(lines)

    def _ask(self, method: str, path: str, body: dict[str, str] | None = None) -> Any:
        """Ask whichever of them answers first; None: nobody does, or only with an error."""
        data = None if body is None else json.dumps(body).encode()
        for pid in self._processes:
            request = urllib.request.Request(
                f"http://127.0.0.1:{self._ports[pid]}{path}",
                data,
                {"Content-Type": "application/json"},
                method=method,
            )
            try:
                with urllib.request.urlopen(request, timeout=5) as answer:
                    return json.load(answer)
            except urllib.error.HTTPError as error:
                error.close()
            except (OSError, http.client.HTTPException):
                continue
        return None
