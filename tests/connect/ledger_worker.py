"""Workers of one process whose tasks write to a fence ledger; may be told to die in a phase of a rebalance.

`python -m tests.connect.ledger_worker NAME` runs them until SIGTERM. The environment says the rest: SERVERS, GROUP,
LEDGER (a directory; `count` in it is the number of tasks), WORKERS, INTERVAL_MS between two writes of a task,
SESSION_MS, DELAY_MS, STANDBY (1: each task has one), HOST ("process": tasks run in processes), DIE_IN (a phase, see
`_arm`).
"""

import os
import signal
import sys
import threading
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

from groupsdk.connect import StandbyContext, Task, TaskContext, Worker
from groupsdk.connect.group.coordinator import ConnectCoordinator
from groupsdk.connect.worker import ConnectWorker
from tests.connect.fence_ledger import FenceLedger


def make(name: str, directory: Path, interval_s: float, *, standby: bool = False) -> Worker:
    """Make a program whose tasks count in the ledger and in their states."""
    session_ms = int(os.environ.get("SESSION_MS", "8000"))
    app = Worker(
        session_timeout_ms=session_ms,
        heartbeat_interval_ms=session_ms // 8,
        rebalance_timeout_ms=10_000,
        scheduled_rebalance_max_delay_ms=int(os.environ.get("DELAY_MS", "0")),
        retry_backoff_ms=20,
        offset_storage_partitions=4,
        status_storage_partitions=1,
        plan_interval_ms=1_000,
        worker_id=name,
    )
    ledger = FenceLedger(directory)

    app.tasks(plan)

    @app.task
    def work(task: Task, context: TaskContext) -> None:
        count = (context.state or {"count": 0})["count"]
        while True:
            count += 1
            if not ledger.write(
                task.id, name, context.generation, count, warm=context.warm == task.id
            ):
                return
            context.commit({"count": count})
            if context.stop.wait(interval_s):
                return

    if os.environ.get("HOST") == "process":
        app.task(host="process")(work_apart)
    if standby:

        @app.standby()
        def prepare(task: Task, context: StandbyContext) -> None:
            context.keep(task.id)

    return app


def plan() -> Iterable[Task]:
    """Plan as many tasks as the ledger says."""
    return [Task(f"t{n}") for n in range(int((Path(os.environ["LEDGER"]) / "count").read_text()))]


def work_apart(task: Task, context: TaskContext) -> None:
    """Write to the ledger and keep nothing: no answer of the worker's is waited for."""
    ledger, name, count = FenceLedger(Path(os.environ["LEDGER"])), os.environ["NAME"], 0
    while not context.stop.wait(0.02):
        count += 1
        ledger.write(task.id, name, context.generation, count, warm=False)


def _arm(phase: str, directory: Path) -> None:
    """Have this process die, as by kill -9, when it leads and comes to a phase once there is a file `armed`.

    The phases: "join" (as it sends JoinGroup), "assign" (as it begins to share out), "sync" (when it has shared
    out, before others can know), "start" (when it knows its assignment, before it starts it), "revoke" (as it is to
    stop what others are to have).
    """
    leads: list[bool] = []

    def die(now: str) -> None:
        if now == phase and leads and (directory / "armed").exists():
            os.kill(os.getpid(), signal.SIGKILL)

    def before(name: str, now: str) -> None:
        plain: Callable[..., Any] = getattr(ConnectCoordinator, name)

        def patched(self: ConnectCoordinator, *arguments: Any) -> Any:
            die(now)
            result = plain(self, *arguments)
            if name == "perform_assignment":
                leads.append(True)
                die("sync")
            return result

        setattr(ConnectCoordinator, name, patched)

    before("metadata", "join")
    before("perform_assignment", "assign")
    before("on_join_complete", "start")
    revoked = ConnectWorker.on_revoked

    def on_revoked(self: ConnectWorker, work: Any) -> None:
        die("revoke")
        revoked(self, work)

    ConnectWorker.on_revoked = on_revoked  # type: ignore[method-assign]  # that is what this is for


def main(name: str) -> None:
    directory = Path(os.environ["LEDGER"])
    os.environ["NAME"] = name
    if "DIE_IN" in os.environ:
        _arm(os.environ["DIE_IN"], directory)
    ended = threading.Event()
    signal.signal(signal.SIGTERM, lambda *_: ended.set())
    interval_s = int(os.environ.get("INTERVAL_MS", "50")) / 1000
    apps = [
        make(f"{name}-{n}", directory, interval_s, standby=os.environ.get("STANDBY") == "1")
        for n in range(int(os.environ.get("WORKERS", "1")))
    ]
    workers = [
        app.start(bootstrap_servers=os.environ["SERVERS"], group_id=os.environ["GROUP"])
        for app in apps
    ]
    ended.wait()
    for thread in [threading.Thread(target=worker.stop) for worker in workers]:
        thread.start()
    for worker in workers:
        worker.wait(60)


if __name__ == "__main__":
    main(sys.argv[1])
