"""Start a Kafka of the time before KRaft: one broker and its ZooKeeper, from the jars of Maven Central."""

import contextlib
import shutil
import socket
import subprocess
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Final, Self

from groupsdk.clock import Deadline, SystemClock
from groupsdk.testing.jars import fetch
from groupsdk.testing.jvm import find_java
from groupsdk.testing.ports import LOOPBACK, ReservedPorts
from groupsdk.testing.probe import UNKNOWN_MEMBER_ID, Probe
from groupsdk.testing.watchdog import WATCHDOG


_START_S: Final = 50
_LOG_PROVIDER: Final = "org.slf4j:slf4j-simple:1.7.36"
_ZOOKEEPER: Final = "org.apache.zookeeper:zookeeper:3.5.9"
"""In place of 3.4, whose client reads addresses wrongly on Java 14 and later."""
_JAVA: Final = (
    *("-Xmx256m", "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1"),
    "-Dzookeeper.jmx.log4j.disable=true",
)
_PROPERTIES: Final = {
    "broker.id": "1",
    "num.network.threads": "1",
    "num.io.threads": "2",
    "offsets.topic.num.partitions": "1",
    "offsets.topic.replication.factor": "1",
    "transaction.state.log.num.partitions": "1",
    "transaction.state.log.replication.factor": "1",
    "transaction.state.log.min.isr": "1",
    "group.initial.rebalance.delay.ms": "0",
    "group.min.session.timeout.ms": "1",
    "auto.create.topics.enable": "false",
    "log.cleaner.enable": "false",
}


class OldKafka:
    """A broker of a release before 3.3, with a ZooKeeper of its own; a context manager.

    Args:
        version: such as "2.1.1".
        scala: the version of Scala that its jar is built with.
    """

    def __init__(self, version: str, scala: str = "2.12") -> None:
        self._coordinate = f"org.apache.kafka:kafka_{scala}:{version}"
        self._ports = ReservedPorts(2)
        self._directory = Path(tempfile.mkdtemp(prefix="groupsdk-old-kafka-"))
        self._processes: list[subprocess.Popen[bytes]] = []
        self.bootstrap_servers = f"{LOOPBACK}:{self._ports.ports[0]}"

    def __enter__(self) -> Self:
        WATCHDOG.remove_at_end(self._directory)
        jars = fetch([self._coordinate, _LOG_PROVIDER])
        if any(jar.name.startswith("zookeeper-3.4") for jar in jars):
            kept = [jar for jar in jars if not jar.name.startswith("zookeeper-3.4")]
            jars = [*kept, *fetch([_ZOOKEEPER])]
        jars = [jar for jar in jars if "slf4j-log4j12" not in jar.name]
        port, zookeeper_port = self._ports.ports
        self._start(
            *(jars, "org.apache.zookeeper.server.quorum.QuorumPeerMain"),
            {
                "dataDir": str(self._directory / "zookeeper"),
                "clientPort": str(zookeeper_port),
                "clientPortAddress": LOOPBACK,
                "admin.enableServer": "false",
            },
        )
        self._await(self._zookeeper_answers)
        self._start(
            *(jars, "kafka.Kafka"),
            {
                **_PROPERTIES,
                "listeners": f"PLAINTEXT://{LOOPBACK}:{port}",
                "log.dirs": str(self._directory / "log"),
                "zookeeper.connect": f"{LOOPBACK}:{zookeeper_port}",
            },
        )
        self._await(self._coordinates)
        return self

    def __exit__(self, *_: object) -> None:
        for process in reversed(self._processes):
            process.kill()
            process.wait()
            WATCHDOG.forget(process.pid)
        self._ports.close()
        shutil.rmtree(self._directory, ignore_errors=True)

    def _start(self, jars: list[Path], main: str, properties: dict[str, str]) -> None:
        file = self._directory / f"{main}.properties"
        file.write_text("".join(f"{key}={value}\n" for key, value in properties.items()))
        classpath = ":".join(map(str, jars))
        command = [str(find_java().java), *_JAVA, "-cp", classpath, main, str(file)]
        self._processes.append(WATCHDOG.spawn(command, self._directory / "output"))

    def _zookeeper_answers(self) -> bool:
        with socket.create_connection((LOOPBACK, self._ports.ports[1]), 5):
            return True

    def _coordinates(self) -> bool:
        with Probe(LOOPBACK, self._ports.ports[0]) as probe:
            found = probe.find_coordinator("a")
            return found.error_code == 0 and probe.heartbeat_error("a") == UNKNOWN_MEMBER_ID

    def _await(self, ready: Callable[[], bool]) -> None:
        deadline = Deadline(SystemClock(), _START_S * 1000)
        while not deadline.expired and self._processes[-1].poll() is None:
            with contextlib.suppress(OSError):
                if ready():
                    return
            time.sleep(0.05)
        output = (self._directory / "output").read_text(errors="replace")
        self.__exit__()
        raise AssertionError(
            f"{self._coordinate} did not start; the end of its output:\n{output[-2000:]}"
        )
