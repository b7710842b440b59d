"""Workers that are killed and paused on a real Kafka: no task with two owners, none without for long, no state lost."""

import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import ExitStack
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path
from random import Random

import pytest

from groupsdk.clock import SystemClock
from groupsdk.testing import LocalKafka
from tests.conftest import StartKafka
from tests.connect.test_worker import COUNTING, Group
from tests.connect.workers import count, eventually, states
from tests.support.brokers import STEADY


ROOT = Path(__file__).resolve().parents[2]
TASKS = 12
_SESSION_MS = 2_000
_APP = "tests.connect.ledger_app:app"


@dataclass(frozen=True)
class Entry:
    """A line of a ledger."""

    pid: int
    token: int
    at_ms: int
    count: int


class Crew:
    """Workers as processes, and what they wrote."""

    def __init__(self, servers: str, group: str, directory: Path, stack: ExitStack) -> None:
        self.processes: list[subprocess.Popen[bytes]] = []
        self._command = [sys.executable, "-m", "groupsdk.connect", _APP, "--group", group]
        self._command += ["--bootstrap-servers", servers, "--log-level", "warning"]
        self._directory = directory
        self._stack = stack

    def start(self) -> "subprocess.Popen[bytes]":
        log = self._stack.enter_context((self._directory / "log").open("ab"))
        process = subprocess.Popen(
            self._command,
            cwd=ROOT,
            stderr=log,
            env={**os.environ, "LEDGER": str(self._directory), "TASKS": str(TASKS)},
        )
        self._stack.callback(process.wait)
        self._stack.callback(process.kill)
        self.processes.append(process)
        return process

    def ledger(self, task: str) -> list[Entry]:
        """What was written for a task, in the order of the writes."""
        path = self._directory / task
        text = path.read_text() if path.exists() else ""
        return [Entry(*map(int, line.split())) for line in text.splitlines()]

    def owners(self) -> dict[str, int]:
        """Who wrote last for each task, if that is not long ago."""
        now_ms = SystemClock().now_ms()
        last = {f"t{n}": self.ledger(f"t{n}")[-1:] for n in range(TASKS)}
        return {
            task: each[0].pid
            for task, each in last.items()
            if each and each[0].at_ms > now_ms - 500
        }

    def all_owned_by(self, *pids: int) -> bool:
        """Whether all tasks run, on just these workers."""
        owners = self.owners()
        return len(owners) == TASKS and set(owners.values()) == set(pids)

    def log(self) -> str:
        return f"{self.owners()}\n" + (self._directory / "log").read_text()[-3_000:]

    def check(self) -> int:
        """Check the ledgers: one owner at a time, tokens that grow, states that go on. Returns the hand-overs."""
        handovers = 0
        for number in range(TASKS):
            entries = self.ledger(f"t{number}")
            for old, new in pairwise(entries):
                if old.pid == new.pid and old.token == new.token:
                    continue
                handovers += 1
                assert new.token >= old.token, (number, old, new)
                # what was written last may not have been committed; nothing before it is done twice
                assert old.count <= new.count <= old.count + 1, (number, old, new)
            spans: dict[tuple[int, int], list[int]] = {}
            for entry in entries:
                spans.setdefault((entry.pid, entry.token), []).append(entry.at_ms)
            ends = [(times[0], times[-1], owner) for owner, times in spans.items()]
            for (_, end, old_owner), (begin, _, new_owner) in pairwise(ends):
                assert end <= begin, (number, old_owner, new_owner)
        return handovers


@pytest.fixture
def crew(kafka: LocalKafka, group_id: str, tmp_path: Path) -> Iterator[Crew]:
    """A crew of nobody yet."""
    with ExitStack() as stack:
        yield Crew(kafka.bootstrap_servers, group_id, tmp_path, stack)


@pytest.mark.timeout(180)
def test_killed_workers_leave_their_tasks_to_others(crew: Crew) -> None:
    one, two, three = (crew.start() for _ in range(3))
    eventually(lambda: crew.all_owned_by(one.pid, two.pid, three.pid), crew.log)
    two.send_signal(signal.SIGKILL)
    killed_ms = SystemClock().now_ms()
    eventually(lambda: crew.all_owned_by(one.pid, three.pid), crew.log)
    # a session timeout, and far less than Connect's delay of five minutes until the last of them has written
    orphans = [f"t{n}" for n in range(TASKS) if any(e.pid == two.pid for e in crew.ledger(f"t{n}"))]
    assert orphans
    for task in orphans:
        first = min(e.at_ms for e in crew.ledger(task) if e.at_ms > killed_ms and e.pid != two.pid)
        assert first - killed_ms <= _SESSION_MS + 20_000, task
    assert crew.check() > 0


@pytest.mark.timeout(180)
def test_a_paused_worker_writes_nothing_once_others_have_its_tasks(crew: Crew) -> None:
    one, two = crew.start(), crew.start()
    eventually(lambda: crew.all_owned_by(one.pid, two.pid), crew.log)
    one.send_signal(signal.SIGSTOP)
    eventually(lambda: crew.all_owned_by(two.pid), crew.log)
    one.send_signal(signal.SIGCONT)
    eventually(lambda: crew.all_owned_by(one.pid, two.pid), crew.log)
    late = 0
    for number in range(TASKS):
        entries = crew.ledger(f"t{number}")
        for old, new in pairwise(entries):
            late += new.token < old.token
    # nothing can stop a write that was under way when the process was stopped; the token tells it
    assert late <= TASKS


@pytest.mark.timeout(180)
def test_a_worker_that_is_told_to_end_hands_over_and_ends_with_0(crew: Crew) -> None:
    one, two = crew.start(), crew.start()
    eventually(lambda: crew.all_owned_by(one.pid, two.pid), crew.log)
    one.send_signal(signal.SIGTERM)
    assert one.wait(60) == 0
    eventually(lambda: crew.all_owned_by(two.pid), crew.log)
    crew.check()


@pytest.mark.timeout(300)
@pytest.mark.parametrize("seed", range(2))
def test_churn_of_all_kinds(crew: Crew, seed: int) -> None:
    chance = Random(seed)
    for _ in range(3):
        crew.start()
    eventually(lambda: crew.all_owned_by(*(each.pid for each in crew.processes)), crew.log)
    for _ in range(5):
        victim = crew.processes.pop(chance.randrange(len(crew.processes)))
        victim.send_signal(chance.choice((signal.SIGKILL, signal.SIGTERM)))
        victim.wait(60)
        crew.start()
        eventually(lambda: crew.all_owned_by(*(each.pid for each in crew.processes)), crew.log, 60)
    assert crew.check() >= 10


@pytest.mark.timeout(300)
def test_workers_go_on_after_a_restart_of_kafka(own_kafka: StartKafka, group_id: str) -> None:
    kafka = own_kafka(properties=STEADY)
    with ExitStack() as stack:
        group = Group(kafka.bootstrap_servers, group_id, stack)
        group.start("w0", client_id="w0")
        group.start("w1", client_id="w1")
        group.ask(lambda leader: leader.admin.put_connector("c", COUNTING))
        eventually(lambda: group.shares() == [2, 2], group.shares)
        kafka.restart()
        eventually(lambda: group.shares() == [2, 2], group.shares, 60)
        before = {f"t{n}": count(group.workers[0], "c", f"t{n}") for n in range(4)}

        def all_go_on() -> bool:
            now = {task: count(group.workers[0], "c", task) for task in before}
            return all(now[task] > before[task] + 3 for task in before)

        eventually(all_go_on, lambda: states(group.workers[0]), 60)
        # configurations are read and written as well
        group.ask(lambda leader: leader.admin.put_connector("d", {**COUNTING, "count": "2"}))
        eventually(lambda: group.shares() == [3, 3], group.shares, 60)
