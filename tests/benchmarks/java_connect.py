"""Run groups of Java's Connect workers whose tasks write down when they start and have stopped."""

import subprocess
import time
import uuid
from pathlib import Path
from typing import Final

from groupsdk.testing.jars import fetch
from groupsdk.testing.ports import ReservedPorts
from groupsdk.testing.watchdog import WATCHDOG
from tests.support.connect import RELEASE, ask_worker, end_worker, start_worker
from tests.support.java import compiled


SOURCE: Final = Path(__file__).parent / "java" / "StandingTasks.java"
_TIMEOUT_S: Final = 300.0
_CALM_S: Final = 3.0
_END_S: Final = 60.0


class ConnectGroup:
    """Workers of one Connect cluster, one process each.

    Args:
        servers: the broker.
        folder: where settings, logs and the tasks' ledger go.
        tasks: how many there are.
        heartbeat_ms: `heartbeat.interval.ms`.
        session_ms: `session.timeout.ms`.
        delay_ms: `scheduled.rebalance.max.delay.ms`: for how long the tasks of a worker that is gone wait for it.
    """

    def __init__(
        self,
        servers: str,
        folder: Path,
        *,
        tasks: int,
        heartbeat_ms: int,
        session_ms: int,
        delay_ms: int,
    ) -> None:
        self.tasks = tasks
        self.workers: dict[int, subprocess.Popen[bytes]] = {}
        """By port."""
        self.hung = 0
        """How many workers did not end when they were told to, and were killed."""
        self._servers = servers
        self._folder = folder
        self._ledger = folder / "ledger"
        self._ledger.touch()
        self._group = f"connect-{uuid.uuid4().hex[:8]}"
        self._killed: dict[int, int] = {}
        self._settings = {
            "offset_storage_partitions": 1,
            "status_storage_partitions": 1,
            "session_timeout_ms": session_ms,
            "heartbeat_interval_ms": heartbeat_ms,
            "scheduled_rebalance_max_delay_ms": delay_ms,
        }
        jars = fetch([f"org.apache.kafka:connect-runtime:{RELEASE}"])
        self._jars = [*jars, compiled(SOURCE, jars), folder / "plugin"]
        services = folder / "plugin" / "META-INF" / "services"
        services.mkdir(parents=True)
        (services / "org.apache.kafka.connect.source.SourceConnector").write_text("StandingTasks\n")

    def start(self) -> int:
        """Start a worker; returns its port."""
        with ReservedPorts(1) as reserved:
            (port,) = reserved.ports
        settings = self._folder / f"{port}.properties"
        self.workers[port] = start_worker(
            settings, self._jars, self._servers, self._group, port, **self._settings
        )
        return port

    def configure(self) -> None:
        config = {
            "connector.class": "StandingTasks",
            "tasks.max": str(self.tasks),
            "ledger": str(self._ledger),
        }
        until = time.monotonic() + _TIMEOUT_S
        port, path = next(iter(self.workers)), "/connectors/standing/config"
        while not ask_worker(port, path, config, "PUT"):
            if time.monotonic() > until:
                raise TimeoutError(f"the connector is not taken: see {self._folder}")
            time.sleep(0.5)

    def end(self, port: int) -> None:
        """Stop a worker in good order."""
        worker = self.workers[port]
        worker.terminate()
        try:
            worker.wait(_END_S)
        except subprocess.TimeoutExpired:
            # its REST server now and then never stops (Jetty's Server.join), while the tasks go on
            self.hung += 1
            self.kill(port)
            return
        del self.workers[port]
        WATCHDOG.forget(worker.pid)

    def kill(self, port: int) -> None:
        worker = self.workers.pop(port)
        self._killed[worker.pid] = time.time_ns() // 1_000_000
        end_worker(worker)

    def rest(self) -> float:
        """Wait until each worker has its share and keeps it for some seconds; return how long it took to get there."""
        began = time.monotonic()
        since: float | None = None
        while since is None or time.monotonic() - since < _CALM_S:
            counts = self._counts()
            if time.monotonic() - began > _TIMEOUT_S:
                raise TimeoutError(f"Connect does not come to rest: {counts}, see {self._folder}")
            shared = sum(counts) == self.tasks and min(counts) >= self.tasks // len(counts)
            since = (since or time.monotonic()) if shared else None
            time.sleep(0.1)
        return since - began

    def mark(self) -> int:
        """Return how much of the ledger there is."""
        return self._ledger.stat().st_size

    def gaps_since(self, mark: int) -> list[float]:
        """Return for how many seconds each task had no worker, for all that were stopped since."""
        running = self._play(self._ledger.read_text()[:mark])[1]
        return self._play(self._ledger.read_text()[mark:], running)[0]

    def close(self) -> None:
        for port in [*self.workers]:
            self.kill(port)

    def _counts(self) -> list[int]:
        running = self._play(self._ledger.read_text())[1]
        owners = list(running.values())
        return [owners.count(worker.pid) for worker in self.workers.values()]

    def _play(
        self, ledger: str, running: dict[str, int] | None = None
    ) -> tuple[list[float], dict[str, int]]:
        """Return the gaps in a part of the ledger, and what runs at its end: task to process."""
        running = dict(running or {})
        stopped: dict[str, int] = {}
        gaps = []
        for line in ledger.splitlines():
            what, task, pid, text = line.split()
            at_ms = int(text)
            if what == "stop":
                stopped[task] = at_ms
                running.pop(task, None)
                continue
            before = running.get(task)
            ended = stopped.pop(task, None if before is None else self._killed.get(before))
            if ended is not None:
                gaps.append((at_ms - ended) / 1000)
            running[task] = int(pid)
        return gaps, running
