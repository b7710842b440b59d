"""Workers that are killed and paused on a real Kafka: no task with two owners, none without for long, no state lost."""

import signal
import subprocess
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path
from random import Random

import pytest

from groupsdk.clock import SystemClock
from groupsdk.testing import LocalKafka
from tests.conftest import StartKafka
from tests.connect.crew import Crew
from tests.connect.test_worker import COUNTING, Group
from tests.connect.workers import count, eventually, states
from tests.support.brokers import STEADY


TASKS = 12
_SESSION_MS = 2_000


@pytest.fixture
def crew(kafka: LocalKafka, group_id: str, tmp_path: Path) -> Iterator[Crew]:
    more = {"GROUP": group_id, "SESSION_MS": _SESSION_MS, "INTERVAL_MS": 20}
    with Crew(kafka.bootstrap_servers, tmp_path, TASKS, **more) as crew:
        yield crew


def began(crew: Crew, *names: str) -> list["subprocess.Popen[bytes]"]:
    """Start workers, and wait until all tasks run on them."""
    processes = [crew.start(name) for name in names]
    eventually(lambda: crew.runs_on(*names), crew.log)
    return processes


def handovers(crew: Crew) -> int:
    """Check that each task had one owner at a time, and lost no state; return how often it got another."""
    audit = crew.ledger.audit(TASKS)
    assert audit.refused == []
    return audit.handovers


@pytest.mark.timeout(180)
def test_killed_workers_leave_their_tasks_to_others(crew: Crew) -> None:
    _, two, _ = began(crew, "one", "two", "three")
    two.send_signal(signal.SIGKILL)
    killed_ms = SystemClock().now_ms()
    eventually(lambda: crew.runs_on("one", "three"), crew.log)
    # a session timeout, and far less than Connect's delay of five minutes until the last of them has written
    written = [crew.ledger.entries(f"t{n}") for n in range(TASKS)]
    orphans = [each for each in written if any(entry.worker == "two-0" for entry in each)]
    assert orphans
    for entries in orphans:
        later = (e.at_ms for e in entries if e.at_ms > killed_ms and e.worker != "two-0")
        assert min(later) - killed_ms <= _SESSION_MS + 20_000, entries[0].task
    assert handovers(crew) > 0


@pytest.mark.timeout(180)
def test_a_paused_worker_writes_nothing_once_others_have_its_tasks(crew: Crew) -> None:
    one, _ = began(crew, "one", "two")
    one.send_signal(signal.SIGSTOP)
    eventually(lambda: crew.runs_on("two"), crew.log)
    one.send_signal(signal.SIGCONT)
    eventually(lambda: crew.runs_on("one", "two"), crew.log)
    # nothing can stop a write that was under way when the process was stopped; the token tells it
    assert len(crew.ledger.audit(TASKS).refused) <= TASKS


@pytest.mark.timeout(180)
def test_a_worker_that_is_told_to_end_hands_over_and_ends_with_0(crew: Crew) -> None:
    one, _ = began(crew, "one", "two")
    one.send_signal(signal.SIGTERM)
    assert one.wait(60) == 0
    eventually(lambda: crew.runs_on("two"), crew.log)
    assert handovers(crew) > 0


@pytest.mark.timeout(300)
@pytest.mark.parametrize("seed", range(2))
def test_churn_of_all_kinds(crew: Crew, seed: int) -> None:
    chance = Random(seed)
    there = ["w0", "w1", "w2"]
    began(crew, *there)
    for number in range(3, 8):
        victim = crew.processes[there.pop(chance.randrange(len(there)))]
        victim.send_signal(chance.choice((signal.SIGKILL, signal.SIGTERM)))
        victim.wait(60)
        there.append(f"w{number}")
        crew.start(there[-1])
        eventually(lambda: crew.runs_on(*there), crew.log, 60)
    assert handovers(crew) >= 10


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
