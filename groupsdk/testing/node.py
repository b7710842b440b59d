"""One broker process: start, stop, kill, pause, resume, restart."""

import contextlib
import logging
import os
import signal
import subprocess
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

from groupsdk.clock import Deadline, SystemClock
from groupsdk.lazy_imports import override
from groupsdk.testing.errors import BrokerStartError, LocalKafkaError
from groupsdk.testing.ports import LOOPBACK
from groupsdk.testing.probe import Probe
from groupsdk.testing.properties import INTERNAL, NodeLayout
from groupsdk.testing.watchdog import WATCHDOG


logger = logging.getLogger(__name__)
_POLL_S = 0.02
_TAIL_BYTES = 4096


class Node:
    """One broker of a `LocalKafka`, which is also a controller. Not thread-safe.

    Made by `LocalKafka`; kill, pause and restart it freely, the cluster's `stop` ends it in any state.
    """

    def __init__(
        self,
        layout: NodeLayout,
        command: Sequence[str],
        log_file: Path,
        *,
        on_restart: Mapping[str, str],
    ) -> None:
        self.layout = layout
        self.log_file = log_file
        self._command = list(command)
        self._on_restart = dict(on_restart)
        self._started_before = False
        self._process: subprocess.Popen[bytes] | None = None
        self._owner = os.getpid()
        self._paused = False

    @override
    def __repr__(self) -> str:
        return f"Node({self.node_id}, pid={self.pid}, paused={self._paused})"

    @property
    def node_id(self) -> int:
        """The broker id, from 1 on."""
        return self.layout.node_id

    @property
    def pid(self) -> int | None:
        """The process id, None while the node is not running."""
        return self._process.pid if self._process is not None and self.running else None

    @property
    def running(self) -> bool:
        """Whether the process is there; a paused one is."""
        return self._process is not None and self._process.poll() is None

    @property
    def paused(self) -> bool:
        """Whether the process is stopped by `pause`."""
        return self._paused

    def address(self, listener: str) -> str:
        """Return host:port where the node itself listens, even if another address is advertised."""
        if listener == INTERNAL:
            return f"{LOOPBACK}:{self.layout.internal_port}"
        try:
            return f"{LOOPBACK}:{self.layout.listener_ports[listener]}"
        except KeyError:
            names = ", ".join(self.layout.listener_ports)
            raise ValueError(f"no listener {listener!r}; there are: {names}") from None

    def start(self, *, options: Sequence[str] = ()) -> None:
        """Start the process and return at once; `LocalKafka.wait_ready` waits until it answers.

        `options` are added for the Java runtime in this run only.
        """
        if self.running:
            raise LocalKafkaError(f"node {self.node_id} is already running")
        self._reap()
        command = [self._command[0], *options, *self._command[1:]]
        if self._started_before:
            for key, value in self._on_restart.items():
                command += ["--override", f"{key}={value}"]
        self._process = WATCHDOG.spawn(command, self.log_file)
        self._owner = os.getpid()
        self._paused = False
        logger.debug("node %d started as process %d", self.node_id, self._process.pid)

    def stop(self, timeout_ms: int = 30_000) -> None:
        """Stop the process in an orderly way (SIGTERM), and by SIGKILL if that takes longer."""
        if self._process is None or not self._ours():
            return
        if self.running:
            self.resume()
            self._process.terminate()
            with contextlib.suppress(subprocess.TimeoutExpired):
                self._process.wait(timeout_ms / 1000)
        self.kill()

    def kill(self) -> None:
        """End the process at once (SIGKILL), paused or not; nothing happens when it is not running."""
        if self._process is None or not self._ours():
            return
        if self.running:
            self._process.kill()
        self._reap()

    def pause(self) -> None:
        """Stop the process from running (SIGSTOP), and wait until it stands still: its connections stay open and answer nothing."""
        self._signal(signal.SIGSTOP)
        self._paused = True
        assert self._process is not None
        # Its threads run on until the one that gets the signal is scheduled.
        if hasattr(os, "waitid"):
            os.waitid(os.P_PID, self._process.pid, os.WSTOPPED | os.WEXITED | os.WNOWAIT)

    def resume(self) -> None:
        """Let the process run on (SIGCONT)."""
        self._signal(signal.SIGCONT)
        self._paused = False

    def restart(self) -> None:
        """End the process in an orderly way when it runs, and start it with the same ports and data."""
        self.stop()
        self.start()

    def probe(self) -> Probe:
        """Connect to the node's internal listener."""
        return Probe(LOOPBACK, self.layout.internal_port)

    def log_tail(self) -> str:
        """Return the last lines that the process wrote."""
        try:
            with self.log_file.open("rb") as log:
                log.seek(max(0, self.log_file.stat().st_size - _TAIL_BYTES))
                return log.read().decode(errors="replace")
        except FileNotFoundError:
            return ""

    def await_registered(self, node_ids: set[int], deadline: Deadline) -> None:
        """Wait until the node answers and knows the brokers `node_ids`."""

        def problem(probe: Probe) -> str | None:
            known = probe.broker_ids()
            return None if known >= node_ids else f"it only knows the brokers {sorted(known)}"

        self._await(problem, deadline)

    def await_in_sync(self, topic: str, node_ids: set[int], deadline: Deadline) -> None:
        """Wait until the node knows all replicas of `topic` on the brokers `node_ids` as in sync."""

        def problem(probe: Probe) -> str | None:
            partitions = probe.in_sync(topic)
            behind = [p for p in partitions if not p[1] >= p[0] & node_ids]
            return None if partitions and not behind else f"replicas of {topic} lag: {partitions}"

        self._await(problem, deadline)

    def _await(self, ask: Callable[[Probe], str | None], deadline: Deadline) -> None:
        problem: object = "not asked yet"
        while True:
            if not self.running:
                status = None if self._process is None else self._process.returncode
                raise self.failure(f"ended with status {status}")
            try:
                with self.probe() as probe:
                    problem = ask(probe)
                if problem is None:
                    return
            except OSError as error:
                problem = error
            if deadline.expired:
                raise self.failure(f"is not ready: {problem}")
            time.sleep(_POLL_S)

    def failure(self, what: str) -> BrokerStartError:
        """Return an error that names the node and its problem, and shows the tail of its log."""
        tail = self.log_tail().strip() or "(nothing)"
        return BrokerStartError(f"node {self.node_id} {what}; end of {self.log_file}:\n{tail}")

    def _ours(self) -> bool:
        # A forked copy of this object, in a child process, must not end its parent's broker.
        return self._owner == os.getpid()

    def signal_if_running(self, number: signal.Signals) -> None:
        """Send the signal `number` to the process, if it is running."""
        if self._process is not None and self._ours() and self.running:
            self._process.send_signal(number)

    def _signal(self, number: signal.Signals) -> None:
        if self._process is None or not self.running:
            raise LocalKafkaError(f"node {self.node_id} is not running")
        self._process.send_signal(number)

    def _reap(self) -> None:
        if self._process is not None:
            self._process.wait()
            self._started_before = True
            WATCHDOG.forget(self._process.pid)
            self._process = None
            self._paused = False


def deadline_in(timeout_ms: int) -> Deadline:
    """Return a limit of `timeout_ms` from now."""
    return Deadline(SystemClock(), timeout_ms)
