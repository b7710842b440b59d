"""A cluster in memory without a network, for tests of its parts."""

from collections.abc import Callable
from typing import Any

from groupsdk.broker.cluster import Cluster
from groupsdk.broker.coordinator.runtime.scheduler import Scheduler
from groupsdk.broker.log.files import Files, MemoryFiles
from groupsdk.broker.log_manager import LogManager
from groupsdk.broker.server.storage import open_storage
from groupsdk.broker.settings.table import BrokerConfig
from groupsdk.broker.store import MemoryStore
from groupsdk.clock import ManualClock


class StandIn:
    """A node without listeners."""

    def __init__(self, node_id: int) -> None:
        self.node_id = node_id
        self.running = True

    def endpoint(self, listener: str) -> tuple[str, int]:
        """Returns an address that nobody has."""
        return f"{listener}.invalid", self.node_id


class ClusterRig:
    """A cluster of some nodes; `settle` does what was put off."""

    def __init__(
        self,
        *,
        nodes: int = 1,
        topics: dict[str, int] | None = None,
        store: MemoryStore | None = None,
        files: Files | None = None,
        **settings: Any,
    ) -> None:
        self.clock = ManualClock(1_000_000)
        self.failures: list[Exception] = []
        self.scheduler = Scheduler(self.clock, self.failures.append)
        self.deferred: list[Callable[[], Any]] = []
        self.store = store or MemoryStore()
        self.files = files or MemoryFiles()
        config = BrokerConfig.of(settings)
        directory, catalogue = open_storage(self.files, None, self.store)
        logs = LogManager(directory, config, catalogue, self.scheduler, self.deferred.append)
        self.cluster = Cluster(config, catalogue, logs, self.scheduler, self.deferred.append)
        self.nodes = {node_id: StandIn(node_id) for node_id in range(1, nodes + 1)}
        self.cluster.nodes.update(self.nodes)
        if topics:
            self.cluster.create_topics(topics)

    def settle(self) -> None:
        """Does what was put off, and what that puts off."""
        while self.deferred:
            self.deferred.pop(0)()
        assert self.failures == []

    def pass_ms(self, delta_ms: int) -> None:
        """Lets time pass."""
        until_ms = self.clock.now_ms() + delta_ms
        while (next_ms := self.scheduler.next_ms) is not None and next_ms <= until_ms:
            self.clock.advance(max(next_ms - self.clock.now_ms(), 0))
            self.scheduler.run_due()
            self.settle()
        self.clock.advance(until_ms - self.clock.now_ms())
