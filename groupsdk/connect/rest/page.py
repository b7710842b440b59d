"""The live page of a worker: all connectors and tasks of its group, as this worker has read of them."""

import asyncio
from collections.abc import Mapping
from typing import Any, Final

from groupsdk.clock import Clock, WallClock
from groupsdk.connect.status_backing_store import State, Status, status_key
from groupsdk.connect.worker import ConnectWorker
from groupsdk.errors import ConfigError
from groupsdk.web.connect_tasks import ShownTask, TaskHistory, tasks_json
from groupsdk.web.server import StateVersions
from groupsdk.wire.connect_protocol import ConnectorTaskId


_INTERVAL_S: Final = 0.5
_SAME_MS: Final = 1_000


class WorkerPage:
    """Follows a worker for the live page (`PageSource`).

    Belongs to the server's event loop.

    Args:
        worker: the worker that is shown.
        interval_s: seconds between two updates.
        clock: the time since 1970; for tests.
    """

    def __init__(
        self, worker: ConnectWorker, interval_s: float = _INTERVAL_S, clock: Clock | None = None
    ) -> None:
        self._worker = worker
        self._interval_s = interval_s
        self._clock = clock or WallClock()
        self._history = TaskHistory()
        self._tasks: list[ShownTask] = []
        self._about: dict[str, Any] = {}
        self._versions = StateVersions()

    async def follow(self) -> None:
        """Look at the worker until cancelled."""
        while True:
            await self.look()
            await asyncio.sleep(self._interval_s)

    async def look(self) -> None:
        """Read the worker's present state, and wake the waiting pages if it has changed."""
        tasks, about = self._shown(), self._described()
        if (tasks, about) == (self._tasks, self._about):
            return
        async with self._versions.next():
            self._tasks, self._about = tasks, about
            self._history.observe(self._clock.now_ms(), "", tasks)

    async def wait(self, version: int, timeout_s: float) -> int:
        """Wait until the state is newer than a version. Return the latest version.

        Args:
            version: the version that the caller has.
            timeout_s: the longest wait, in seconds.
        """
        return await self._versions.wait(version, timeout_s)

    def state(self) -> dict[str, Any]:
        """Return the state as JSON values."""
        return {
            "at_ms": self._clock.now_ms(),
            "problem": self._about.get("problem"),
            "cluster_id": self._worker.admin.cluster_id(),
            "brokers": 0,
            "assignors": [],
            "groups": [],
            "events": self._history.events,
            "tasks": tasks_json(self._tasks, self._history),
            "worker": self._about,
        }

    async def what_if(self, group_id: str, assignor: str) -> str:
        """Refuse: a worker's page does not try Connect's assignors.

        Args:
            group_id: not used.
            assignor: not used.

        Raises:
            ConfigError: always.
        """
        raise ConfigError("a worker's page tries no assignors")

    def _described(self) -> dict[str, Any]:
        worker = self._worker
        health, rebalance_at_ms = worker.health(), worker.rebalance_at_ms
        before_ms = self._about.get("rebalance_at_ms")
        if rebalance_at_ms is not None and before_ms is not None:
            # computed from two clocks: it is the same one unless it differs visibly
            is_same = abs(rebalance_at_ms - before_ms) < _SAME_MS
            rebalance_at_ms = before_ms if is_same else rebalance_at_ms
        return {
            "worker_id": worker.worker_id,
            "health": health.status,
            "problem": health.message if health.status == "unhealthy" else None,
            "is_leader": worker.is_leader,
            "leader_url": worker.leader_url,
            "protocol": worker.admin.protocol,
            "state": worker.state.value,
            "rebalance_at_ms": rebalance_at_ms,
            "kept_warm": sorted(map(str, worker.kept_warm)),
        }

    def _shown(self) -> list[ShownTask]:
        admin = self._worker.admin
        configs, statuses = admin.configs(), admin.statuses()
        # which worker another member id is of, only the leader hears
        own = {self._worker.member_id: self._worker.worker_id}
        standbys = {
            task: tuple(own.get(each, each) for each in ids)
            for task, ids in admin.standbys().items()
        }
        found = []
        for name in admin.connectors():
            found.append(_shown(name, None, statuses, ()))
            found += [
                _shown(name, task, statuses, standbys.get(task, ()))
                for task in configs.task_ids(name)
            ]
        return found


def _shown(
    connector: str,
    task: ConnectorTaskId | None,
    statuses: Mapping[str, Status],
    standbys: tuple[str, ...],
) -> ShownTask:
    number = None if task is None else task.task
    key = status_key(connector) if number is None else status_key(connector, number)
    status = statuses.get(key)
    return ShownTask(
        group_id="",
        connector=connector,
        task=number,
        state=(State.UNASSIGNED if status is None else status.state).value,
        worker="" if status is None else status.worker_id,
        owner="" if status is None else status.worker_id,
        standbys=standbys,
        trace=None if status is None else status.trace,
    )
