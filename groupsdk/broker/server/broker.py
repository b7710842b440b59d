"""Assemble a broker on one event loop: files, catalogue, cluster and nodes."""

import asyncio
import logging
import threading
from collections import deque
from collections.abc import Callable, Iterable, Mapping
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from groupsdk.broker.catalogue import partitions_problem, topic_name_problem
from groupsdk.broker.cluster import AfterLoading, Cluster
from groupsdk.broker.coordinator.runtime.loop_share import Activity, Lane, Share
from groupsdk.broker.coordinator.runtime.scheduler import Scheduler
from groupsdk.broker.log.files import DiskFiles, MemoryFiles
from groupsdk.broker.log_manager import LogManager
from groupsdk.broker.server.listener import Limits, node_addresses
from groupsdk.broker.server.node import Node
from groupsdk.broker.server.storage import Storage, open_storage
from groupsdk.broker.settings.table import BrokerConfig
from groupsdk.broker.store import MemoryStore
from groupsdk.clock import Clock, WallClock
from groupsdk.errors import ConfigError
from groupsdk.limits import MAX_INT32


if TYPE_CHECKING:
    from groupsdk.assignment import PartitionAssignor
    from groupsdk.broker.coordinator.consumer.assignors import ServerAssignor
    from groupsdk.broker.server.faults import Faults
    from groupsdk.broker.server.sasl_servers import Authentication, TokenValidator


logger = logging.getLogger(__name__)
_LOOK_AGAIN_S: Final = 0.001
_LONG_REQUESTS_PERCENT: Final = 33
"""The share of the loop's time of long requests, and of loading coordinators, while there are short requests."""
_UPKEEP_PERCENT: Final = 10
"""The share of the loop's time of compaction and retention while there are requests."""


class Memory:
    """The data of a broker without a data directory; pass it to the next broker of the process to keep the data."""

    def __init__(self) -> None:
        self.store = MemoryStore()
        self.files = MemoryFiles()


class Broker:
    """A cluster in one process, on one event loop.

    Call `open` first, then `serve` on the running loop, and `close` at the end. Not thread-safe: every method must be
    called on the loop's thread.

    Args:
        data_dir: the data directory; None: everything is kept in `memory`.
        memory: the data of a broker without a data directory; None: new data.
        clock: the clock of timers and timestamps; None: the machine's. With any other clock, timers run in `run_due`
            only, except those of clients waiting for records, which follow the machine's clock.

    Attributes:
        virtual: whether a clock was passed.
    """

    def __init__(
        self,
        config: BrokerConfig,
        *,
        nodes: int = 1,
        first_node_id: int = 1,
        data_dir: Path | None = None,
        memory: Memory | None = None,
        clock: Clock | None = None,
        ports: Mapping[int, Mapping[str, int]] | None = None,
        users: Mapping[str, str] | None = None,
        token_validator: "TokenValidator | None" = None,
        faults: "Faults | None" = None,
        assignors: "Iterable[ServerAssignor | PartitionAssignor]" = (),
    ) -> None:
        for name, given in (("nodes", nodes), ("first_node_id", first_node_id)):
            if type(given) is not int:
                raise ConfigError(f"{name} must be an integer, not {given!r}")
        if nodes < 1:
            raise ConfigError(f"nodes must be at least 1, not {nodes}")
        if not 0 <= first_node_id <= MAX_INT32 - nodes:
            raise ConfigError(
                f"first_node_id must be from 0 to {MAX_INT32 - nodes}, not {first_node_id}"
            )
        config.check_replication(nodes)
        self.config = config
        self.virtual = clock is not None
        self.scheduler = Scheduler(clock or WallClock(), self._timer_failed)
        self._client_scheduler = self.scheduler
        if self.virtual:
            self._client_scheduler = Scheduler(WallClock(), self._timer_failed)
        self._node_ids = range(first_node_id, first_node_id + nodes)
        self._data_dir = data_dir
        self._memory = memory or Memory()
        self._ports = ports or {}
        self._users = dict(users or {})
        self._token_validator = token_validator
        self._users_known: Authentication | None = None
        self.faults = faults
        self._assignors = tuple(assignors)
        self._loop: asyncio.AbstractEventLoop | None = None
        self._timers: list[LoopTimer] = []
        self._deferred: list[Callable[[], Any]] = []
        self.deferred = 0
        """How many calls were deferred to the next iteration of the loop."""
        self.nodes: dict[int, Node] = {}
        self.limits = Limits(config)
        self._activity = Activity()
        self._cluster: Cluster | None = None
        self._requests: Lane | None = None

    @property
    def cluster(self) -> Cluster:
        """The state shared by the nodes; available after `open`."""
        assert self._cluster is not None, "the broker is not open"
        return self._cluster

    def open(self, topics: Mapping[str, int] | None = None) -> None:
        """Open the data directory, bind the ports, and create topics that do not exist."""
        wanted = topics or {}
        for name, count in wanted.items():
            _check_topic(name, count)
        assignors = self._loaded_assignors()
        storage = self._storage()
        upkeep = self._lane(_UPKEEP_PERCENT, is_for_clients=False)
        requests = self._requests = self._lane(_LONG_REQUESTS_PERCENT, is_for_clients=True)
        self._cluster = cluster = Cluster(
            self.config,
            storage.catalogue,
            LogManager(
                storage.directory,
                self.config,
                storage.catalogue,
                self.scheduler,
                self._defer if upkeep is None else upkeep.add,
            ),
            self.scheduler,
            self._defer,
            client_scheduler=self._client_scheduler,
            in_steps=None if requests is None else requests.add,
            has_waiting=None if requests is None else requests.has_waiting,
        )
        cluster.activity = self._activity
        cluster.assignors = assignors
        cluster.from_any_thread = self._from_any_thread
        if not self.virtual:
            cluster.off_loop = LoadingThread(self._from_any_thread)
        cluster.connection_load = self.limits
        cluster.on_reconfigured.append(self.limits.reconfigure)
        catalogue = storage.catalogue
        try:
            for position, node_id in enumerate(self._node_ids):
                addresses = node_addresses(self.config, position, len(self._node_ids))
                node = Node(node_id, cluster, self.limits, addresses, faults=self.faults)
                node.known_ports(self._ports.get(node_id, {}))
                self.nodes[node_id] = cluster.nodes[node_id] = node
                node.authentication = self._authentication(node)
                node.bind()
                node.running = True
            if catalogue.configured("broker"):
                cluster.apply_broker_configs()
            self._elect_leaders(cluster)
            missing = {
                name: count for name, count in wanted.items() if name not in catalogue.topics
            }
            if missing:
                cluster.create_topics(missing)
        except BaseException:
            self.close()
            raise

    def _storage(self) -> Storage:
        if self._data_dir is not None:
            return open_storage(DiskFiles(), self._data_dir, None)
        return open_storage(self._memory.files, None, self._memory.store)

    def _loaded_assignors(self) -> "Mapping[str, ServerAssignor] | None":
        """Load the assignors, as a wrong one must not wait for the first group; None: only Kafka's own."""
        names = self.config.group_consumer_assignors
        if not self._assignors and names == BrokerConfig.group_consumer_assignors:
            return None
        from groupsdk.broker.coordinator.consumer.assignor_registry import load_assignors

        return load_assignors(names, self._assignors)

    def _authentication(self, node: Node) -> "Authentication | None":
        if not any(address.uses_sasl for address in node.addresses):
            return None
        if self._users_known is None:
            from groupsdk.broker.server.sasl_servers import Authentication
            from groupsdk.broker.server.token_threads import TokenThreads

            self._users_known = Authentication(
                self.config,
                self.cluster.catalogue.store,
                self.scheduler,
                self._users,
                self._token_validator,
                TokenThreads(self._client_scheduler, self._from_any_thread),
            )
        return self._users_known

    async def serve(self) -> None:
        """Start serving clients. Return when all listeners accept connections."""
        self._loop = loop = asyncio.get_running_loop()
        for call in self._deferred:
            loop.call_soon(call)
        self._deferred.clear()
        self._timers.append(
            LoopTimer(loop, self.scheduler, self._after_requests, waits=not self.virtual)
        )
        if self.virtual:
            self._timers.append(LoopTimer(loop, self._client_scheduler))
        for node in self.nodes.values():
            node.serve()
        self.cluster.load_coordinators()
        self.cluster.logs.start_upkeep()

    def _elect_leaders(self, cluster: Cluster) -> None:
        """Elect a leader for each existing partition, under a new leader epoch.

        Kafka's controller does so when a broker restarts. Clients that were connected before then get FENCED_LEADER_EPOCH
        until they have refreshed their metadata. A partition whose node no longer exists gets another leader.
        """
        elected = {
            (topic.name, partition): (
                state.leader if state.leader in self.nodes else self._node_for(partition)
            )
            for topic in cluster.catalogue.topics.values()
            for partition, state in enumerate(topic.partitions)
        }
        if elected:
            cluster.catalogue.move_leaders(elected)

    def _node_for(self, partition: int) -> int:
        ids = list(self.nodes)
        return ids[partition % len(ids)]

    def _defer(self, call: Callable[[], Any]) -> None:
        self.deferred += 1
        if self._loop is None:
            self._deferred.append(call)
        else:
            self._loop.call_soon(call)

    def _lane(self, percent: int, *, is_for_clients: bool) -> Lane | None:
        """Return a lane for the steps of long tasks; None: by a manual clock each is run in an iteration of its own."""
        if self.virtual:
            return None
        return Lane(
            Share(percent),
            self._activity,
            self._defer_after_polling,
            self._later,
            is_for_clients=is_for_clients,
        )

    def _after_requests(self, call: Callable[[], Any]) -> None:
        """Call a function after the requests that wait now: a heartbeat among them comes before the session's end."""
        if self._requests is None:
            call()
        else:
            self._requests.after_waiting(call)

    def _defer_after_polling(self, call: Callable[[], Any]) -> None:
        # the next iteration starts with the calls of this one, and only then serves what it polled
        self._defer(partial(self._defer, call))

    def _later(self, delay_s: float, call: Callable[[], Any]) -> None:
        assert self._loop is not None, "no client is served before the loop runs"
        self._loop.call_later(delay_s, call)

    def _from_any_thread(self, call: Callable[[], Any]) -> None:
        assert self._loop is not None, "the broker does not serve yet"
        self._loop.call_soon_threadsafe(call)

    async def settled(self) -> None:
        """Wait until no assignor is running; assignors run in real time, whatever the clock."""
        threads = self.cluster.assignor_threads
        while threads is not None and threads.is_busy:  # noqa: ASYNC110 - assignor threads have no event to await
            await asyncio.sleep(_LOOK_AGAIN_S)

    def run_due(self) -> None:
        """Run the timers that are due; call it after advancing a manual clock."""
        self.scheduler.run_due()

    def _timer_failed(self, error: Exception) -> None:
        logger.error("a timer failed", exc_info=error)

    def stop_node(self, node_id: int) -> None:
        """Stop a node as in a crash: its connections are closed, and the other nodes take over its partitions."""
        node = self._node(node_id)
        if node.running:
            node.stop()
            self.cluster.take_over(node_id)
            logger.info("node %d: stopped", node_id)

    async def start_node(self, node_id: int) -> None:
        """Restart a stopped node on its former ports; it leads the partitions that no other node took over."""
        node = self._node(node_id)
        if not node.running:
            node.bind()
            self.cluster.come_back(node_id)
            node.serve()

    def _node(self, node_id: int) -> Node:
        node = self.nodes.get(node_id)
        if node is None:
            raise ConfigError(
                f"there is no node {node_id}; the nodes are {', '.join(map(str, self.nodes))}"
            )
        return node

    def close(self) -> None:
        """Answer parked requests, close all connections and flush everything to disk."""
        for node in self.nodes.values():
            node.stop()
        for timer in self._timers:
            timer.close()
        if self._cluster is not None:
            self._cluster.close()


def _check_topic(name: str, count: int) -> None:
    problem = topic_name_problem(name) or partitions_problem(count)
    if problem is not None:
        raise ConfigError(f"the topic {name!r}: {problem}")


_MS_PER_S: Final = 1000


_STALL_MS: Final = 100
_TURNS_AFTER_STALL: Final = 3
"""How many iterations of the loop read everything that clients sent during a stall: one accepts connections, the next
reads from them, and a call comes before what its own iteration reads.
"""


def _at_once(call: Callable[[], Any]) -> None:
    call()


class LoopTimer:
    """Runs a scheduler on an event loop, with one loop timer for the earliest call.

    If the loop stalled (the process was stopped, or something held the loop), what clients sent meanwhile is read
    before any deadline counts as over: otherwise members would lose their sessions whose heartbeats have arrived.

    Args:
        after_requests: calls a function once the requests that wait in the broker have had their turn.
        waits: whether the loop wakes up by the machine's clock. False, for a clock that a test advances: only calls
            that are due at once are made, and the others by `Scheduler.run_due`.
    """

    def __init__(
        self,
        loop: asyncio.AbstractEventLoop,
        scheduler: Scheduler,
        after_requests: Callable[[Callable[[], Any]], None] = _at_once,
        *,
        waits: bool = True,
    ) -> None:
        self._loop = loop
        self._scheduler = scheduler
        self._after_requests = after_requests
        self._waits = waits
        self._wake: asyncio.Handle | None = None
        self._wake_ms = 0
        self._is_reading = False
        self._closed = False
        scheduler.on_earlier = self._arm
        if scheduler.next_ms is not None:
            self._arm(scheduler.next_ms)

    def close(self) -> None:
        """Stop making calls."""
        self._closed = True
        self._scheduler.on_earlier = None
        if self._wake is not None:
            self._wake.cancel()
            self._wake = None

    def _arm(self, at_ms: int) -> None:
        now_ms = self._scheduler.now_ms()
        delay_ms = max(at_ms - now_ms, 0)
        if self._is_reading or (delay_ms and not self._waits):
            return
        self._wake_ms = now_ms + delay_ms
        if self._wake is not None:
            self._wake.cancel()
        self._wake = self._loop.call_later(delay_ms / _MS_PER_S, self._run_due)

    def _run_due(self) -> None:
        now_ms = self._scheduler.now_ms()
        if self._waits and now_ms - self._wake_ms > _STALL_MS:
            self._run_after(_TURNS_AFTER_STALL, now_ms)
        else:
            self._run_after(0, now_ms)

    def _run_after(self, turns: int, until_ms: int) -> None:
        self._is_reading = True
        if turns:
            self._wake = self._loop.call_soon(self._run_after, turns - 1, until_ms)
        else:
            self._after_requests(partial(self._run_if_open, until_ms))

    def _run_if_open(self, until_ms: int) -> None:
        if not self._closed:
            self._run(until_ms)

    def _run(self, until_ms: int) -> None:
        self._is_reading = False
        self._wake = None
        self._scheduler.run_due(until_ms)
        next_ms = self._scheduler.next_ms
        if next_ms is not None and not (self._closed or self._wake):
            self._arm(next_ms)


_LOADING: Final = "groupsdk-loading"


class LoadingThread:
    """Loads the code that first requests need on a thread, so that it does not block the loop.

    One at a time: two threads that import modules which import each other could see one of them half imported. Call it
    on the loop's thread.

    Args:
        on_loop: calls a function on the loop's thread; may be called from any thread.
    """

    def __init__(self, on_loop: Callable[[Callable[[], Any]], Any]) -> None:
        self._on_loop = on_loop
        self._waiting: deque[tuple[Callable[[], Any], AfterLoading]] = deque()
        self._is_running = False

    def __call__(self, work: Callable[[], Any], done: AfterLoading, /) -> None:
        """Run a function; `done` is called on the loop's thread, later, with what it raised, or None."""
        self._waiting.append((work, done))
        if not self._is_running:
            self._run()

    def _run(self) -> None:
        self._is_running = True
        work, done = self._waiting.popleft()
        thread = threading.Thread(target=self._work, args=(work, done), name=_LOADING, daemon=True)
        try:
            thread.start()
        except RuntimeError:  # the process has no more threads
            self._work(work, done)

    def _work(self, work: Callable[[], Any], done: AfterLoading) -> None:
        raised = None
        try:
            work()
        except BaseException as error:  # noqa: BLE001 - `SystemExit` too: without an end, nothing would be loaded again
            raised = error
        try:
            self._on_loop(lambda: self._ended(done, raised))
        except RuntimeError:
            logger.debug("code was loaded after the broker stopped")

    def _ended(self, done: AfterLoading, raised: BaseException | None) -> None:
        self._is_running = False
        if self._waiting:
            self._run()
        done(raised)
