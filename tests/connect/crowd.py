"""Many workers in one process, for tests and measurements."""

from collections.abc import Iterable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from typing import Any

from typing_extensions import override

from groupsdk.connect.app import Worker
from groupsdk.connect.errors import ConnectError
from groupsdk.connect.tasks.task import AsyncTaskContext, Connector, Task
from groupsdk.connect.worker import ConnectWorker
from tests.connect.workers import eventually


SETTINGS: dict[str, Any] = {
    "offset_storage_partitions": 4,
    "status_storage_partitions": 1,
    "scheduled_rebalance_max_delay_ms": 0,
    "retry_backoff_ms": 20,
}


class Idle(Connector):
    """As many tasks as `count` says, which commit once and wait, as coroutines."""

    required = ("count",)

    @override
    def plan(self) -> Iterable[Task]:
        return [Task(f"t{number}") for number in range(int(self.config["count"]))]

    @override
    async def run(self, task: Task, context: AsyncTaskContext) -> None:
        await context.stop.wait()


@dataclass
class Crowd:
    """Workers of one group."""

    servers: str
    count: int
    tasks: int
    group_id: str = "crowd"
    settings: dict[str, Any] = field(default_factory=dict)
    workers: list[ConnectWorker] = field(default_factory=list)

    def start(self) -> None:
        """Start all, and return when each owns its share of the tasks."""
        with ThreadPoolExecutor(4) as pool:
            self.workers = list(pool.map(self.start_one, range(self.count)))
        eventually(self._put, lambda: "nobody leads", 120)
        eventually(self.shared_out, self.shares, 120)

    def start_one(self, number: int) -> ConnectWorker:
        app = Worker(self.group_id, **{**SETTINGS, **self.settings})
        app.connector(Idle)
        return app.start(bootstrap_servers=self.servers, worker_id=f"w{number}")

    def _put(self) -> bool:
        leader = next((each for each in self.workers if each.is_leader), None)
        try:
            config = {"connector.class": "Idle", "count": str(self.tasks)}
            return leader is not None and leader.admin.put_connector("c", config).result(60)
        except ConnectError as error:
            if not error.retriable:
                raise
            return False

    def shares(self) -> list[int]:
        return sorted(len(worker.owned.tasks) for worker in self.workers)

    def shared_out(self) -> bool:
        """Whether each has its share, and no more."""
        shares = self.shares()
        return sum(shares) == self.tasks and shares[-1] - shares[0] <= 1

    def stop(self) -> None:
        with ThreadPoolExecutor(16) as pool:
            stopped = list(pool.map(lambda worker: worker.stop(60), self.workers))
        assert all(stopped)
        assert [worker.error for worker in self.workers] == [None] * len(self.workers)
