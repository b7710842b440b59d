"""Record groups of Kafka Connect's workers: `python -m tests.history.recording.connect_workers DIRECTORY`.

Starts a real broker and Java's distributed workers: one group of the cooperative protocol and one of the eager one. Workers
come, leave and are killed; connectors are made, given more tasks and deleted. DIRECTORY gets what the broker wrote,
`segments` and `coordinator-log.txt`; `deeds.txt`, what was done when; and `runs.jsonl`, which worker ran which connectors and
tasks after each deed, as the workers' own REST interface says.
"""

import json
import subprocess
import sys
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

from groupsdk.clock import Deadline
from groupsdk.testing.jars import fetch
from groupsdk.testing.ports import ReservedPorts
from tests.history.recording.record import CLOCK, Deeds, recorded, sleep
from tests.support.connect import RELEASE, ask_worker, end_worker, start_worker


_JARS: Final = [f"org.apache.kafka:connect-{name}:{RELEASE}" for name in ("runtime", "file")]
_PATIENCE_MS: Final = 180_000
_DELAY_MS: Final = 3_000
"""For how long work is held back for a worker that is gone (scheduled.rebalance.max.delay.ms)."""
_PROPERTIES: Final = {
    "offsets.topic.num.partitions": "2",
    "group.initial.rebalance.delay.ms": "200",
}


@dataclass
class Crew:
    """The workers of one group."""

    group: str
    protocol: str
    servers: str
    folder: Path
    deeds: Deeds
    runs: Path
    workers: dict[int, "subprocess.Popen[bytes]"] = field(default_factory=dict)
    wanted: dict[str, int] = field(default_factory=dict)
    """How many tasks each connector is to have."""

    def start(self) -> int:
        """Start a worker; returns its port once all work runs on workers that are there."""
        with ReservedPorts(1) as reserved:
            (port,) = reserved.ports
        self.workers[port] = start_worker(
            self.folder / f"{self.group}-{port}.properties",
            fetch(_JARS),
            self.servers,
            self.group,
            port,
            connect_protocol=self.protocol,
            offset_storage_partitions=1,
            status_storage_partitions=1,
            session_timeout_ms=6_000,
            heartbeat_interval_ms=500,
            scheduled_rebalance_max_delay_ms=_DELAY_MS,
        )
        self.tell("start", port)
        self.settle(port)
        return port

    def leave(self, port: int) -> None:
        """Stop a worker, which says that it leaves."""
        self.tell("leave", port)
        worker = self.workers.pop(port)
        worker.terminate()
        worker.wait()
        end_worker(worker)
        self.settle()

    def kill(self, port: int) -> None:
        """Kill a worker."""
        self.tell("kill", port)
        end_worker(self.workers.pop(port))
        self.settle()

    def configure(self, name: str, tasks: int) -> None:
        """Make a connector, or change how many tasks it has; 0 deletes it."""
        self.tell(f"configure {name} with {tasks} tasks", 0)
        config = {
            "connector.class": "FileStreamSink",
            "file": str(self.folder / f"{name}.txt"),
            "topics": "lines",
            "tasks.max": str(tasks),
        }
        method, body = ("PUT", config) if tasks else ("DELETE", None)
        path = f"/connectors/{name}{'/config' if tasks else ''}"
        if tasks:
            self.wanted[name] = tasks
        else:
            del self.wanted[name]
        until = Deadline(CLOCK, _PATIENCE_MS)
        while not ask_worker(next(iter(self.workers)), path, body, method):
            assert not until.expired, f"{self.group} did not take the configuration of {name}"
            sleep(0.3)
        self.settle()

    def settle(self, *needed: int) -> None:
        """Wait until all work runs, twice alike, and write down where."""
        until = Deadline(CLOCK, _PATIENCE_MS)
        last: dict[str, str] | None = None
        alike = 0
        while alike < 3:
            assert not until.expired, f"{self.group} did not settle: {last}"
            sleep(0.7)
            found = self.running()
            is_up = all(ask_worker(port, "/connectors") is not None for port in needed)
            # once somebody else is there, somebody else has some of it, if there is enough for all
            shared = found is not None and len({*found.values()}) >= min(
                len(self.workers), len(found)
            )
            alike = alike + 1 if is_up and shared and found == last else 0
            last = found
        with self.runs.open("a", encoding="utf-8") as file:
            line = {"ts_ms": CLOCK.now_ms(), "group": self.group, "runs": last}
            file.write(json.dumps(line, sort_keys=True) + "\n")

    def running(self) -> dict[str, str] | None:
        """Ask which worker runs what: "connector/task" by worker, -1 for the connector; None while not all of it runs."""
        found: dict[str, str] = {}
        port = next(iter(self.workers))
        for name, tasks in self.wanted.items():
            status = ask_worker(port, f"/connectors/{name}/status")
            if not status or len(status["tasks"]) != tasks:
                return None
            for number, each in (
                (-1, status["connector"]),
                *((t["id"], t) for t in status["tasks"]),
            ):
                if each["state"] != "RUNNING" or int(each["worker_id"].rpartition(":")[2]) not in (
                    self.workers
                ):
                    return None
                found[f"{name}/{number}"] = each["worker_id"]
        return found

    def tell(self, deed: str, port: int) -> None:
        """Write down what was done."""
        self.deeds.tell(self.group, deed, str(port))

    def play(self) -> None:
        """Do all of it."""
        first = self.start()
        self.configure("sink", 3)
        second = self.start()
        self.configure("other", 2)
        self.kill(second)
        third = self.start()
        self.configure("sink", 5)
        self.leave(first)
        self.configure("other", 0)
        self.start()
        self.leave(third)

    def close(self) -> None:
        """Kill the workers that are left."""
        for worker in self.workers.values():
            end_worker(worker)


def record(out: Path) -> None:
    """Make the log."""
    with recorded(out, _PROPERTIES) as (kafka, deeds):
        crews = [
            Crew(
                f"workers-{name}", protocol, kafka.bootstrap_servers, out, deeds, out / "runs.jsonl"
            )
            for name, protocol in (("cooperative", "sessioned"), ("eager", "eager"))
        ]
        for crew in crews:
            try:
                crew.play()
            finally:
                crew.close()


if __name__ == "__main__":
    record(Path(sys.argv[1]))
