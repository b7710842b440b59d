"""A program for kill tests: each task writes to a ledger that all its owners share, in the order of the writes."""

import os
import time
from collections.abc import Iterable
from pathlib import Path

from groupsdk.clock import SystemClock
from groupsdk.connect import Task, TaskContext, Worker


app = Worker(
    session_timeout_ms=2_000,
    heartbeat_interval_ms=200,
    rebalance_timeout_ms=10_000,
    scheduled_rebalance_max_delay_ms=0,
    retry_backoff_ms=20,
    offset_storage_partitions=4,
    status_storage_partitions=1,
)
DIRECTORY = Path(os.environ["LEDGER"])
COUNT = int(os.environ.get("TASKS", "12"))


@app.tasks
def plan() -> Iterable[Task]:
    return [Task(f"t{number}") for number in range(COUNT)]


@app.task
def work(task: Task, context: TaskContext) -> None:
    clock = SystemClock()
    count = (context.state or {"count": 0})["count"]
    # one write call for each line, to the end of the file: lines of several processes do not mix
    ledger = os.open(DIRECTORY / task.id, os.O_WRONLY | os.O_CREAT | os.O_APPEND)
    try:
        while not context.stop.is_set():
            line = f"{os.getpid()} {context.generation} {clock.now_ms()} {count}\n"
            os.write(ledger, line.encode())
            count += 1
            context.commit({"count": count})
            time.sleep(0.02)
    finally:
        os.close(ledger)
