"""Two processes that would write into one directory of tables: the second one is refused, whatever the file system."""

import json
import os
import signal
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from pyarrow import fs

from groupsdk.errors import ConfigError
from groupsdk.history import local
from groupsdk.history.follow.updater import Updater
from groupsdk.history.tables.lease import LOCK, RENEW_S, STALE_S, RenewedFile, held, take
from tests.history.expected_tables import LOGS, digests
from tests.history.follow.log_parts import RawTask, follow, pieces, raw_of


_FOLLOW = """
import sys
from groupsdk.history.follow.updater import Updater
updater = Updater(sys.argv[1], "log")
print(updater.state.update, flush=True)
sys.stdin.read()
"""


def start(out: Path) -> subprocess.Popen[str]:
    """Start a process that holds the tables, and wait until it does."""
    process = subprocess.Popen(
        [sys.executable, "-c", _FOLLOW, str(out)],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    )
    assert process.stdout is not None
    assert process.stdout.readline() == "0\n"
    return process


def test_a_second_process_is_refused_until_the_first_is_killed(tmp_path: Path) -> None:
    raw = raw_of(LOGS["transactions"](tmp_path / "log"))
    out = tmp_path / "out"
    process = start(out)
    try:
        refused = rf"process {process.pid} on \S+ writes into {out}"
        with pytest.raises(ConfigError, match=refused):
            Updater(str(out), "log")
        # a run would put its tables in the place of files that the other one accounts for
        with pytest.raises(ConfigError, match=refused):
            local.run([RawTask(raw)], str(out))
        process.send_signal(signal.SIGKILL)
        process.wait()
        follow(Updater(str(out), "log"), pieces(raw, 2, 1))
    finally:
        process.kill()
        process.communicate()
    local.run([RawTask(raw)], str(tmp_path / "once"))
    assert digests(out) == digests(tmp_path / "once")


def test_two_in_one_process_exclude_each_other_until_one_is_closed(tmp_path: Path) -> None:
    first = Updater(str(tmp_path), "log")
    with pytest.raises(ConfigError, match=f"process {os.getpid()}"):
        Updater(str(tmp_path), "log")
    first.close()
    first.close()
    with pytest.raises(ConfigError, match="writes into"):
        first.update(lambda _: None)
    second = Updater(str(tmp_path), "log")
    assert second.update(lambda _: None)
    second.close()
    with held(str(tmp_path)):
        pass


class Remote:
    """A file system without locks, and a clock on which what others do happens while somebody waits."""

    def __init__(self, root: Path) -> None:
        self.root = root
        self.system = fs.SubTreeFileSystem(str(root), fs.LocalFileSystem())
        self.now = 0.0
        self.events: list[tuple[float, Callable[[], Any]]] = []

    def wait(self, seconds: float) -> None:
        """Let the time pass."""
        self.now += seconds
        due = [event for at, event in self.events if at <= self.now]
        self.events = [each for each in self.events if each[0] > self.now]
        for event in due:
            event()

    def take(self) -> RenewedFile:
        """Take the lease."""
        return RenewedFile(self.system, "tables", wait=self.wait, renew=False)


def test_a_renewed_file_keeps_others_out_while_its_holder_lives(tmp_path: Path) -> None:
    remote = Remote(tmp_path)
    first = remote.take()
    remote.events = [(remote.now + RENEW_S, first.renew)]
    with pytest.raises(ConfigError, match=f"process {os.getpid()} on .* writes into tables"):
        remote.take()
    first.check()
    first.release()
    before = remote.now
    second = remote.take()
    assert remote.now - before < RENEW_S
    # what the first still does harms nobody
    with pytest.raises(ConfigError, match="writes into"):
        first.renew()
    first.release()
    second.check()


def test_the_file_of_a_process_that_is_gone_is_taken_over(tmp_path: Path) -> None:
    remote = Remote(tmp_path)
    gone = remote.take()
    before = remote.now
    second = remote.take()
    assert STALE_S <= remote.now - before < 2 * STALE_S
    with pytest.raises(ConfigError, match="writes into"):
        gone.check()
    second.check()


def test_of_two_that_take_over_together_one_remains(tmp_path: Path) -> None:
    remote = Remote(tmp_path)
    remote.take()
    others: list[RenewedFile] = []
    # the other one has seen the same file for as long, and writes while the first waits whether anybody does
    path = tmp_path / "tables" / LOCK

    def write() -> None:
        path.write_text(json.dumps({"id": "x", "holder": "process 7 on other", "renewals": 1}))

    remote.events = [(remote.now + STALE_S + 1, write)]
    with pytest.raises(ConfigError, match="process 7 on other writes into"):
        others.append(remote.take())
    assert not others


def test_a_file_that_is_being_written_counts_as_one_of_its_writer(tmp_path: Path) -> None:
    remote = Remote(tmp_path)
    path = tmp_path / "tables" / LOCK
    path.parent.mkdir()
    path.write_bytes(b"")

    def write() -> None:
        path.write_text(json.dumps({"id": "x", "holder": "process 7 on other", "renewals": 1}))

    remote.events = [(RENEW_S, write)]
    with pytest.raises(ConfigError, match="process 7 on other writes into"):
        remote.take()
    # its writer died over it
    path.write_bytes(b"")
    remote.take().check()


def test_a_lease_is_renewed_by_a_thread_and_ends_with_it(tmp_path: Path) -> None:
    system = fs.SubTreeFileSystem(str(tmp_path), fs.LocalFileSystem())
    lease = RenewedFile(system, "tables", wait=lambda _: None)
    lease.check()
    lease.release()
    lease.release()
    assert not (tmp_path / "tables" / LOCK).exists()
    taken = take(str(tmp_path / "here"))
    taken.check()
    taken.release()
