"""Tests that the members of mixed groups stay within their sessions on a machine that is very busy.

The members are of six libraries and of both group protocols, with sessions of six seconds.
"""

import contextlib
import logging
import os
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Final, Self

import pytest

from groupsdk.broker.embedded import EmbeddedBroker
from groupsdk.testing.watchdog import WATCHDOG
from tests.support.go import built_go
from tests.survival.storm.playing import PROPERTIES, Storm


_MEMBER = Path(__file__).parent / "storm" / "go" / "stormmember"
_ATTEMPTS: Final = 3
_HALT_S: Final = 2.0
_COORDINATORS: Final = "groupsdk.broker.coordinator"


@contextlib.contextmanager
def load(processes: int) -> Iterator[None]:
    """Keep the machine busy with so many processes, those of others included."""
    missing = max(processes - int(os.getloadavg()[0]), 0)
    started = [subprocess.Popen([sys.executable, "-c", "while True: pass"]) for _ in range(missing)]
    try:
        for each in started:
            WATCHDOG.watch(each.pid)
        yield
    finally:
        for each in started:
            each.kill()
            each.wait()
            WATCHDOG.forget(each.pid)


class LongestHalt:
    """Measures for how long the whole process stood still at most, as the machine or its hypervisor did something else."""

    def __init__(self) -> None:
        self.seconds = 0.0
        self._ends = threading.Event()
        self._thread = threading.Thread(target=self._watch)

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._ends.set()
        self._thread.join()

    def _watch(self) -> None:
        last = time.monotonic()  # noqa: TID251
        while not self._ends.wait(0.05):
            now = time.monotonic()  # noqa: TID251
            self.seconds, last = max(self.seconds, now - last), now


def ended_sessions(
    folder: Path, member: Path, caplog: pytest.LogCaptureFixture, processes: int, seconds: float
) -> tuple[list[str], float]:
    """Play one group under load; return the ends of sessions in the broker's log, and the machine's longest halt."""
    caplog.clear()
    folder.mkdir()
    with EmbeddedBroker(PROPERTIES) as broker, LongestHalt() as halt:
        storm = Storm(broker.bootstrap_servers, folder, member, seed=processes)
        with storm:
            with load(processes):
                storm.blow(seconds)
            storm.settle()
            messages = [each.getMessage() for each in caplog.records]
    return [each for each in messages if "its session" in each], halt.seconds


def check(tmp_path: Path, caplog: pytest.LogCaptureFixture, processes: int, seconds: float) -> None:
    """Play it again where the machine itself halted."""
    caplog.set_level(logging.INFO, _COORDINATORS)
    member = built_go(_MEMBER, tmp_path)
    found, halted_s = list[str](), 0.0
    for attempt in range(_ATTEMPTS):
        found, halted_s = ended_sessions(
            tmp_path / str(attempt), member, caplog, processes, seconds
        )
        if not found:
            return
        if halted_s < _HALT_S:
            break
    pytest.fail(f"{found} (longest halt of the machine: {halted_s:.1f} s)")


@pytest.mark.go
@pytest.mark.usefixtures("kafka_installed")
def test_members_of_a_mixed_group_keep_their_sessions_on_a_busy_machine(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    check(tmp_path, caplog, processes=4, seconds=8.0)


@pytest.mark.go
@pytest.mark.slow
@pytest.mark.timeout(600)
@pytest.mark.usefixtures("kafka_installed")
def test_members_of_a_mixed_group_keep_their_sessions_at_a_load_of_20(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    check(tmp_path, caplog, processes=20, seconds=60.0)
