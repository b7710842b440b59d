"""Record groups of Kafka Connect's workers: `python -m tests.history.recording.connect_workers DIRECTORY`.

Starts a real broker and Java's distributed workers: one group of the cooperative protocol and one of the eager one. Workers
come, leave and are killed; connectors are made, given more tasks and deleted. DIRECTORY gets what the broker wrote,
`segments` and `coordinator-log.txt`; `deeds.txt`, what was done when; and `runs.jsonl`, which worker ran which connectors and
tasks after each deed, as the workers' own REST interface says.
"""

import json
import subprocess
import sys
import urllib.error
import urllib.request
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

from groupsdk.clock import Deadline
from groupsdk.testing.jars import fetch
from groupsdk.testing.jvm import find_java
from groupsdk.testing.ports import ReservedPorts
from tests.history.recording.record import CLOCK, Deeds, recorded, sleep


RELEASE: Final = "4.3.1"
_JARS: Final = [f"org.apache.kafka:connect-{name}:{RELEASE}" for name in ("runtime", "file")]
_PATIENCE_MS: Final = 180_000
_DELAY_MS: Final = 3_000
"""For how long work is held back for a worker that is gone (scheduled.rebalance.max.delay.ms)."""
_CONVERTER: Final = "org.apache.kafka.connect.storage.StringConverter"
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
        properties = {
            "bootstrap.servers": self.servers,
            "group.id": self.group,
            "connect.protocol": self.protocol,
            "key.converter": _CONVERTER,
            "value.converter": _CONVERTER,
            **{
                f"{name}.storage.{key}": value
                for name in ("config", "offset", "status")
                for key, value in (("topic", f"{self.group}-{name}"), ("replication.factor", 1))
            },
            "offset.storage.partitions": 1,
            "status.storage.partitions": 1,
            "session.timeout.ms": 6_000,
            "heartbeat.interval.ms": 500,
            "scheduled.rebalance.max.delay.ms": _DELAY_MS,
            "listeners": f"http://127.0.0.1:{port}",
            "plugin.discovery": "service_load",
        }
        settings = self.folder / f"{self.group}-{port}.properties"
        settings.write_text("".join(f"{key}={value}\n" for key, value in properties.items()))
        command = [str(find_java().java), "-Xmx256m", "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1"]
        command += ["-cp", ":".join(map(str, fetch(_JARS)))]
        command += ["org.apache.kafka.connect.cli.ConnectDistributed", str(settings)]
        with settings.with_suffix(".log").open("wb") as output:
            self.workers[port] = subprocess.Popen(command, stdout=output, stderr=output)
        self.tell("start", port)
        self.settle(port)
        return port

    def leave(self, port: int) -> None:
        """Stop a worker, which says that it leaves."""
        self.tell("leave", port)
        worker = self.workers.pop(port)
        worker.terminate()
        worker.wait()
        self.settle()

    def kill(self, port: int) -> None:
        """Kill a worker."""
        self.tell("kill", port)
        worker = self.workers.pop(port)
        worker.kill()
        worker.wait()
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
        while not self.ask(next(iter(self.workers)), path, method, body):
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
            is_up = all(self.ask(port, "/connectors") is not None for port in needed)
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
            status = self.ask(port, f"/connectors/{name}/status")
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

    def ask(self, port: int, path: str, method: str = "GET", body: Any = None) -> Any:
        """Ask a worker; returns its answer, True for an empty one, and None where it refuses or is not there."""
        request = urllib.request.Request(
            f"http://127.0.0.1:{port}{path}",
            None if body is None else json.dumps(body).encode(),
            {"Content-Type": "application/json"},
            method=method,
        )
        try:
            with urllib.request.urlopen(request, timeout=30) as answer:
                data = answer.read()
                return json.loads(data) if data else True
        except urllib.error.HTTPError as error:
            error.close()
            return None
        except OSError:
            return None

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
            worker.kill()
            worker.wait()


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
