"""Measure Connect-style workers on the embedded broker: a hundred in one process, a crash, a rolling restart.

`python -m tests.benchmarks.connect_workers` prints a table. The crash is that of a process (SIGKILL), one of three
with a dozen tasks that each write every 50 ms, and no delay: the time from the kill to the first write of another
worker, for the last of the tasks. The rolling restart stops each of ten workers in good order and starts it again,
one after the other, with a delay that is longer than that takes.
"""

import argparse
import statistics
import tempfile
from pathlib import Path

from groupsdk.broker.embedded import EmbeddedBroker
from groupsdk.clock import SystemClock
from groupsdk.connect.worker import ConnectWorker
from groupsdk.wire.connect_protocol import ConnectorTaskId
from tests.benchmarks.report import Result, spread
from tests.connect.crew import Crew
from tests.connect.crowd import Crowd
from tests.connect.workers import eventually


_SESSION_MS = 6_000
_TASKS = 12


def hundred_workers(workers: int = 100, tasks: int = 1_000) -> tuple[float, float]:
    """Return in how many seconds so many workers have started, and own their shares."""
    with EmbeddedBroker() as broker:
        crowd = Crowd(broker.bootstrap_servers, workers, tasks)
        try:
            crowd.start()
        finally:
            crowd.stop()
    return crowd.starts_ms / 1000, (crowd.starts_ms + crowd.settles_ms) / 1000


def crash() -> float:
    """Return how many seconds after a worker's kill the last of its tasks writes elsewhere."""
    with tempfile.TemporaryDirectory() as directory, EmbeddedBroker() as broker:
        servers = broker.bootstrap_servers
        with Crew(servers, Path(directory), _TASKS, SESSION_MS=_SESSION_MS) as crew:
            for name in "abc":
                crew.start(name)
            crew.settled(by=3)
            owners = crew.ledger.owners(_TASKS, 0)
            crew.processes["b"].kill()
            killed_ms = SystemClock().now_ms()
            crew.settled(by=2)
            crew.ledger.audit(_TASKS)
            firsts = [
                min(
                    e.at_ms
                    for e in crew.ledger.entries(task)
                    if e.worker != worker and e.at_ms > killed_ms
                )
                for task, worker in owners.items()
                if worker == "b-0"
            ]
    return (max(firsts) - killed_ms) / 1000


def rolling_restart(workers: int = 10) -> int:
    """Return how many tasks are elsewhere after a restart of one worker after the other."""
    settings = {"scheduled_rebalance_max_delay_ms": 3_000}
    with EmbeddedBroker() as broker:
        crowd = Crowd(broker.bootstrap_servers, workers, workers * 4, settings=settings)
        try:
            crowd.start()
            before = {number: set(_tasks(each)) for number, each in enumerate(crowd.workers)}
            for number, worker in enumerate(list(crowd.workers)):
                assert worker.stop(60)
                crowd.workers[number] = crowd.start_one(number)
                eventually(crowd.shared_out, crowd.shares, 60)
            return sum(len(set(_tasks(w)) - before[n]) for n, w in enumerate(crowd.workers))
        finally:
            crowd.stop()


def _tasks(worker: ConnectWorker) -> tuple[ConnectorTaskId, ...]:
    return tuple(worker.owned.tasks)


def run(*, rounds: int = 5) -> Result:
    result = Result(
        "connect_workers",
        "Connect-style workers on the embedded broker, in the same process",
        ["what", "measured", "to be"],
        notes=["Median (least to most), on a machine that does nothing else."],
        raw={},
    )
    crowds = [hundred_workers() for _ in range(rounds)]
    settled_s = [settled for _, settled in crowds]
    result.rows.append(["100 workers started, s", spread(started for started, _ in crowds), ""])
    result.rows.append(["100 workers, 1,000 tasks: all run, s", spread(settled_s), "under 5"])
    late_s = [crash() - _SESSION_MS / 1000 for _ in range(rounds)]
    result.rows.append(
        ["a crash: all its tasks run, s after the session timeout", spread(late_s), "at most 1"]
    )
    moved = rolling_restart()
    result.rows.append(["rolling restart of 10 workers: tasks moved", str(moved), "0"])
    result.raw = {"crowds": crowds, "crash": late_s, "moved": moved}
    if statistics.median(settled_s) >= 5:
        result.behind.append("a hundred workers")
    if statistics.median(late_s) > 1:
        result.behind.append("the crash")
    if moved:
        result.behind.append("the rolling restart")
    return result.finish()


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rounds", type=int, default=5)
    run(rounds=parser.parse_args().rounds)
