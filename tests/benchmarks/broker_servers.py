"""Start the brokers that are measured, each in a process of its own: groupsdk's, Apache Kafka, franz-go's kfake."""

import contextlib
import importlib.util
import os
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Final, TypeVar

from groupsdk.testing import LocalKafka
from tests.benchmarks.processes import ROOT, compiled_environment, go_program
from tests.support.processes import LineProgram
from tests.support.topics import create_topic


_TICKS: Final = os.sysconf("SC_CLK_TCK")
_PAGE: Final = os.sysconf("SC_PAGE_SIZE")
_READY_S: Final = 30
_API_VERSIONS: Final = bytes.fromhex("0000000a 0012 0000 00000001 ffff")
TOPIC: Final = "benchmark"
PARTITIONS: Final = 100
OURS: Final = "groupsdk"
UVLOOP: Final = "groupsdk with uvloop"
KAFKA: Final = "Apache Kafka"
KFAKE: Final = "kfake"
T = TypeVar("T")
_WITHOUT_UVLOOP: Final = "import sys; sys.modules['uvloop'] = None; "
_COMMAND: Final = "import runpy; runpy.run_module('groupsdk', run_name='__main__', alter_sys=True)"


@dataclass(frozen=True, slots=True)
class Server:
    """A broker that runs."""

    name: str
    host: str
    port: int
    pid: int
    started_ms: float
    """From the start of its process to its first answer."""
    live_heap: Callable[[], int] | None = None
    """Counts the bytes of what lives in its heap, where that can be asked."""

    @property
    def address(self) -> str:
        """As in `bootstrap.servers`."""
        return f"{self.host}:{self.port}"

    def cpu_s(self) -> float:
        """Return the CPU seconds that the process has used."""
        fields = Path(f"/proc/{self.pid}/stat").read_text().rpartition(")")[2].split()
        return (int(fields[11]) + int(fields[12])) / _TICKS

    def resident(self) -> int:
        """Return the resident bytes of the process."""
        return int(Path(f"/proc/{self.pid}/statm").read_text().split()[1]) * _PAGE


def has_uvloop() -> bool:
    """Return whether uvloop is installed."""
    return importlib.util.find_spec("uvloop") is not None


def free_port() -> int:
    """Find a port that is free now."""
    with socket.socket() as found:
        found.bind(("127.0.0.1", 0))
        return int(found.getsockname()[1])


def until_ready(host: str, port: int, process: "subprocess.Popen[bytes] | None" = None) -> None:
    """Wait for the first answer, looking every millisecond."""
    give_up = time.monotonic() + _READY_S
    while time.monotonic() < give_up:
        with contextlib.suppress(OSError), socket.create_connection((host, port), 5) as client:
            client.sendall(_API_VERSIONS)
            if client.recv(4):
                return
        if process is not None and process.poll() is not None:
            raise RuntimeError(f"the broker ended with status {process.returncode}")
        time.sleep(0.001)
    raise TimeoutError(f"no broker on {host}:{port} within {_READY_S} s")


@contextlib.contextmanager
def groupsdk(
    data_dir: Path, *, uvloop: bool = False, stderr: IO[bytes] | None = None
) -> Iterator[Server]:
    """Run `python -m groupsdk broker`, on a data directory."""
    port = free_port()
    program = ["-m", "groupsdk"] if uvloop else ["-c", _WITHOUT_UVLOOP + _COMMAND]
    command = [
        *(sys.executable, *program, "broker", "--log-level", "info" if stderr else "warning"),
        *("--listen", f"127.0.0.1:{port}", "--data-dir", str(data_dir)),
        *("--topic", f"{TOPIC}:{PARTITIONS}", "--set", "offsets.topic.num.partitions=1"),
        *("--set", "group.min.session.timeout.ms=1"),
    ]
    start = time.perf_counter()
    with subprocess.Popen(command, cwd=ROOT, env=compiled_environment(), stderr=stderr) as process:
        try:
            until_ready("127.0.0.1", port, process)
            taken_ms = (time.perf_counter() - start) * 1000
            yield Server(UVLOOP if uvloop else OURS, "127.0.0.1", port, process.pid, taken_ms)
        finally:
            process.terminate()


@contextlib.contextmanager
def kafka(data_dir: Path | None = None) -> Iterator[Server]:
    """Run Apache Kafka as `LocalKafka` tunes it, with append.linger.ms=0."""
    with running_kafka(LocalKafka(data_dir=data_dir)) as server:
        yield server


@contextlib.contextmanager
def running_kafka(local: LocalKafka, *, data_exists: bool = False) -> Iterator[Server]:
    """Run a Kafka that was made elsewhere; create the topic unless its data is there already."""
    start = time.perf_counter()
    with local:
        taken_ms = (time.perf_counter() - start) * 1000
        if not data_exists:
            create_topic(local.bootstrap_servers, TOPIC, PARTITIONS)
        host, _, port = local.bootstrap_servers.rpartition(":")
        pid = local.nodes[0].pid
        assert pid is not None
        yield Server(KAFKA, host, int(port), pid, taken_ms, lambda: _java_heap(pid))


def _java_heap(pid: int) -> int:
    """Ask a Java for what lives in its heap; the histogram makes it collect first."""
    done = subprocess.run(
        ["jcmd", str(pid), "GC.class_histogram"], capture_output=True, text=True, check=True
    )
    return int(done.stdout.splitlines()[-1].split()[2])


@contextlib.contextmanager
def kfake() -> Iterator[Server | None]:
    """Run franz-go's kfake; None without Go."""
    program = go_program("kfakeserver")
    if program is None:
        yield None
        return
    start = time.perf_counter()
    with LineProgram([str(program), TOPIC]) as process:
        host, _, port = next(process.lines()).rpartition(":")
        until_ready(host, int(port))
        taken_ms = (time.perf_counter() - start) * 1000
        yield Server(KFAKE, host, int(port), process.pid, taken_ms, lambda: int(process.ask("")))


@contextlib.contextmanager
def servers() -> Iterator[list[Server]]:
    """Run all brokers, each on a directory of its own; all but one are idle at any time."""
    with contextlib.ExitStack() as stack:

        def directory() -> Path:
            return Path(stack.enter_context(tempfile.TemporaryDirectory()))

        found = [stack.enter_context(groupsdk(directory()))]
        if has_uvloop():
            found.append(stack.enter_context(groupsdk(directory(), uvloop=True)))
        found.append(stack.enter_context(kafka()))
        fake = stack.enter_context(kfake())
        yield found if fake is None else [*found, fake]


def in_turn(
    rounds: int, steps: Mapping[str, Callable[[Server], T]], found: Sequence[Server]
) -> dict[str, dict[str, list[T]]]:
    """Measure each step with one broker after the other, in rounds; returns all by step and broker."""
    runs: dict[str, dict[str, list[T]]] = {
        step: {server.name: [] for server in found} for step in steps
    }
    for _ in range(rounds):
        for step, measure in steps.items():
            for server in found:
                runs[step][server.name].append(measure(server))
    return runs
