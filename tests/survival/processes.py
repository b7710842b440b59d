"""Runs `groupsdk broker` as a process of its own, which a test may kill, starve and measure."""

import os
import queue
import re
import signal
import subprocess
import sys
import threading
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, Final, Self

from tests.broker.clients import Client


_READY_S: Final = 60.0
_LISTENING: Final = re.compile(r"node \d+: listening on \w+://(\S+):(\d+)")
_MIB: Final = 2**20


class BrokerProcess:
    """A broker in a process of its own; ready to serve when it is made.

    Args:
        data_dir: where it keeps everything; None: in memory.
        topics: `NAME:PARTITIONS`.
        before: called in the child before the command starts, to take something from it.
    """

    def __init__(
        self,
        data_dir: Path | None = None,
        *,
        topics: Sequence[str] = (),
        settings: dict[str, Any] | None = None,
        options: Sequence[str] = (),
        before: Callable[[], None] | None = None,
    ) -> None:
        self.lines: list[str] = []
        self.addresses: list[tuple[str, int]] = []
        self._process = subprocess.Popen(
            command(data_dir, topics=topics, settings=settings, options=options),
            stderr=subprocess.PIPE,
            preexec_fn=before,
            text=True,
        )
        self._new: queue.SimpleQueue[str | None] = queue.SimpleQueue()
        self._reader = threading.Thread(target=self._read, daemon=True)
        self._reader.start()
        try:
            match = _LISTENING.search(self.wait_for("listening on"))
            assert match is not None
            self.addresses.append((match[1], int(match[2])))
        except BaseException:
            self.kill()
            raise

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.kill()

    def _read(self) -> None:
        assert self._process.stderr is not None
        for line in self._process.stderr:
            self._new.put(line.rstrip("\n"))
        self._new.put(None)

    def wait_for(self, text: str) -> str:
        """Waits until a line of its log that was not read yet has this text, and returns the line."""
        while True:
            line = self._new.get(timeout=_READY_S)
            if line is None:
                raise AssertionError("the broker ended:\n" + "\n".join(self.lines))
            self.lines.append(line)
            if text in line:
                return line

    def log(self) -> str:
        """Returns all of its log; after it has ended."""
        self._reader.join(_READY_S)
        while not self._new.empty():
            line = self._new.get()
            if line is not None:
                self.lines.append(line)
        return "\n".join(self.lines)

    @property
    def address(self) -> tuple[str, int]:
        """Where it listens."""
        return self.addresses[0]

    @property
    def bootstrap_servers(self) -> str:
        """Where it listens, as clients want it."""
        return "{}:{}".format(*self.address)

    @property
    def pid(self) -> int:
        return self._process.pid

    def connect(self, client_id: str = "test") -> Client:
        """Connects to it."""
        return Client(self.address, client_id)

    def memory(self) -> int:
        """Returns the bytes that it has in memory now."""
        return self._memory("VmRSS")

    def peak_memory(self) -> int:
        """Returns the most bytes that it ever had in memory."""
        return self._memory("VmHWM")

    def _memory(self, name: str) -> int:
        for line in Path(f"/proc/{self.pid}/status").read_text(encoding="ascii").splitlines():
            if line.startswith(name):
                return int(line.split()[1]) * 1024
        raise AssertionError(f"no {name} of process {self.pid}")

    def kill(self) -> None:
        """Ends it as kill -9 does."""
        self._process.kill()
        self.wait()

    def stop(self) -> int:
        """Ends it as SIGTERM does; returns its exit status."""
        self._process.send_signal(signal.SIGTERM)
        return self.wait()

    def wait(self) -> int:
        """Waits for its end; returns its exit status."""
        status = self._process.wait(_READY_S)
        self._reader.join(_READY_S)
        assert self._process.stderr is not None
        self._process.stderr.close()
        return status


def command(
    data_dir: Path | None = None,
    *,
    listen: str = "127.0.0.1:0",
    topics: Sequence[str] = (),
    settings: dict[str, Any] | None = None,
    options: Sequence[str] = (),
) -> list[str]:
    """Builds the command line of a broker."""
    made = [sys.executable, "-m", "groupsdk", "broker", "--listen", listen, *options]
    if data_dir is not None:
        made += ["--data-dir", os.fspath(data_dir)]
    for topic in topics:
        made += ["--topic", topic]
    for key, value in (settings or {}).items():
        made += ["--set", f"{key}={value}"]
    return made


def mebibytes(size: int) -> float:
    """Returns a number of bytes in MiB, for messages."""
    return round(size / _MIB, 1)
