"""Simulate the broker's process: its nodes, its disk, and their failures."""

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any, Final, cast
from uuid import UUID

from groupsdk.broker.catalogue import OFFSETS_TOPIC, Topic
from groupsdk.broker.cluster import Cluster
from groupsdk.broker.coordinator.group.shard import GroupCoordinatorShard
from groupsdk.broker.coordinator.runtime.coordinator_runtime import CoordinatorRuntime
from groupsdk.broker.coordinators import Coordinators
from groupsdk.broker.log.errors import StorageError
from groupsdk.broker.log.files import MemoryFiles
from groupsdk.broker.log.partition_log import PartitionLog
from groupsdk.broker.log_manager import LogManager
from groupsdk.broker.server.apis import APIS
from groupsdk.broker.server.call import Call, route
from groupsdk.broker.server.pace import at_once
from groupsdk.broker.server.storage import open_storage
from groupsdk.broker.settings.table import BrokerConfig
from groupsdk.broker.store import MemoryStore
from groupsdk.lazy_imports import override
from groupsdk.testing.simulation.timeline import ProcessTimers, Timeline
from groupsdk.wire.api import decode_request, decode_response, encode_request, encode_response
from groupsdk.wire.schema import Request, Response


if TYPE_CHECKING:
    from groupsdk.broker.server.connection import Connection
    from groupsdk.testing.simulation.world import World


Reply = Callable[[Response], None]
_LISTENER: Final = "PLAINTEXT"
_PREFIX: Final = 4
"""The bytes of a frame's length."""


class PowerLossError(BaseException):
    """The power fails in the middle of a call to the disk: nothing of the process goes on."""


class SimulatedNode:
    """A node as the cluster sees it."""

    def __init__(self, node_id: int, cluster: Cluster) -> None:
        self.node_id = node_id
        self.cluster = cluster
        self.running = True

    def endpoint(self, _listener: str) -> tuple[str, int]:
        """Return a host and a port."""
        return f"broker-{self.node_id}", 9092


class _Peer:
    """Stands for the connection over which a request came, as far as handlers look at it."""

    principal: Final = "User:ANONYMOUS"
    client_host: Final = "/127.0.0.1"
    listener_name: Final = _LISTENER
    closed: Final = False

    def __init__(self, node: SimulatedNode, reply: Reply) -> None:
        self.node = node
        self._reply = reply

    def answered(self, _call: Call, response: Response) -> None:
        self._reply(response)


class SimulatedCluster(Cluster):
    """A cluster whose group coordinators are made by the simulation."""

    make_shard: Callable[[int], GroupCoordinatorShard]
    new_topic_id: Callable[[str], UUID]
    loads_slowly: bool

    @override
    def create_topics(
        self,
        partitions: Mapping[str, int],
        configs: Mapping[str, Mapping[str, str]] | None = None,
        topic_ids: Mapping[str, UUID] | None = None,
    ) -> list[Topic]:
        ids = {name: self.new_topic_id(name) for name in partitions}
        return super().create_topics(partitions, configs, {**ids, **(topic_ids or {})})

    @property
    @override
    def groups(self) -> Coordinators:
        if self._groups is None:
            at_once = 0 if self.loads_slowly else None
            self._groups = Coordinators(self, OFFSETS_TOPIC, self.make_shard, at_once=at_once)
        return self._groups


class BrokerProcess:
    """All that the embedded broker is made of but its sockets, on a virtual clock and a disk in memory."""

    def __init__(
        self,
        timeline: Timeline,
        host: "World[Any]",
        config: BrokerConfig,
        topics: dict[str, int],
        *,
        nodes: int,
        as_bytes: bool,
        many_connections: bool,
    ) -> None:
        self.files = MemoryFiles()
        self.store = MemoryStore()
        self.store.write([("cluster", "id", "simulated")])
        self.nodes: dict[int, SimulatedNode] = {}
        self.alive = False
        self._timeline = timeline
        self._host = host
        self._config = config
        self._topics = topics
        self._count = nodes
        self._as_bytes = as_bytes
        self.has_many_connections = many_connections
        self._timers = ProcessTimers(timeline, self.run)
        self._cluster: SimulatedCluster | None = None

    def start(self) -> None:
        """Start it on what is on the disk."""
        self.files.before = None
        self._timers = timers = ProcessTimers(self._timeline, self.run)
        storage = open_storage(self.files, None, self.store)
        logs = LogManager(storage.directory, self._config, storage.catalogue, timers, self._defer)
        cluster = SimulatedCluster(
            self._config, storage.catalogue, logs, timers, self._defer, in_steps=self._in_steps
        )
        cluster.loads_slowly = bool(self._host.load_ms)
        cluster.make_shard = self._host.make_shard
        cluster.connection_load = self
        cluster.new_topic_id = self._host.new_topic_id
        self.nodes = {each: SimulatedNode(each, cluster) for each in range(1, self._count + 1)}
        cluster.nodes.update(self.nodes)
        self._cluster = cluster
        self.alive = True
        missing = {
            name: count
            for name, count in self._topics.items()
            if name not in cluster.catalogue.topics
        }
        self._topics = {}  # one that is deleted later is not made again by the next start
        if missing:
            cluster.create_topics(missing)
        cluster.internal_topic(OFFSETS_TOPIC)
        cluster.load_coordinators()
        logs.start_upkeep()

    def kill(self) -> None:
        """Let it die as by a signal: the disk has all that was written."""
        if self.alive:
            self._die("is killed", durable=False)
            self.files.kill()

    def lose_power(self, torn: int = 0) -> None:
        """Let the machine lose power: the disk has what was synced, and some bytes more."""
        if self.alive:
            self._die("loses power", durable=True)
        self.files.crash(torn)

    def lose_power_at(self, count: int, torn: int) -> None:
        """Let the power fail instead of the next but `count` change to the disk."""
        left = count

        def before(_call: str, _path: str) -> None:
            nonlocal left
            left -= 1
            if left < 0:
                self._torn = torn
                raise PowerLossError

        self.files.before = before

    def pause(self, duration_ms: int) -> None:
        """Let nothing of it happen for so long."""
        until_ms = self._timeline.now_ms() + duration_ms
        self._timers.paused_until_ms = max(self._timers.paused_until_ms, until_ms)

    @property
    def paused_until_ms(self) -> int:
        """When its last pause ended, or ends."""
        return self._timers.paused_until_ms

    @property
    def paused(self) -> bool:
        return self._timers.paused_until_ms > self._timeline.now_ms()

    def _die(self, why: str, *, durable: bool) -> None:
        self.alive = False
        log = self.opened_log()
        if log is not None:
            self._synced_end = log.recovery_point
        end = log.log_end_offset if log is not None else None
        if durable:
            # of a log that it has not opened again since: what was safe from a kill need not be safe from this
            end = self._synced_end
        self._timers.dead = True
        self._cluster = None
        self.files.before = None
        self._host.process_died(why, end)

    _torn = 0
    _synced_end: int | None = None
    """Up to where the log was synced when it was seen last."""

    def run(self, call: Callable[[], Any]) -> None:
        if not self.alive:
            return
        try:
            call()
        except PowerLossError:
            self.lose_power(self._torn)

    def _defer(self, call: Callable[[], Any]) -> None:
        self._timers.after(0, call)

    def _in_steps(self, step: Callable[[], Any], _group: str = "") -> None:
        self._timers.after(self._host.load_ms, step)

    @property
    def cluster(self) -> SimulatedCluster:
        """What is running."""
        assert self._cluster is not None, "the process is dead"
        return self._cluster

    def opened_log(self) -> PartitionLog | None:
        """Return the log of `__consumer_offsets`, if it is in use."""
        return dict(self.cluster.logs.opened()).get((OFFSETS_TOPIC, 0))

    def runtime(self, group_id: str) -> CoordinatorRuntime | None:
        """Return the coordinator of a group where one takes requests."""
        if not self.alive:
            return None
        coordinators = self.cluster.groups
        return coordinators.find(coordinators.partition_for(group_id))

    def coordinator(self, group_id: str) -> int | None:
        """Return the node that is to coordinate a group."""
        if not self.alive:
            return None
        return self.cluster.leader(OFFSETS_TOPIC, self.cluster.groups.partition_for(group_id))

    def transaction_coordinator(self, transactional_id: str) -> int | None:
        """Return the node that is to coordinate a producer's transactions; None: it has to be asked again."""
        leaders: list[int | None] = []

        def look() -> None:
            coordinators = self.cluster.transactions
            partition = coordinators.partition_for(transactional_id)
            leaders.append(self.cluster.leader(coordinators.topic, partition))

        try:
            self.run(look)
        except StorageError:
            return None
        return leaders[0] if leaders else None

    def is_up(self, node_id: int) -> bool:
        """Whether a node takes connections."""
        return self.alive and self.nodes[node_id].running

    def handle(self, node_id: int, request: Request[Any], reply: Reply, client_id: str) -> None:
        """Have a node answer a request, now or later; never where it or the process ends before."""
        if not self.is_up(node_id):
            return
        if self.paused:
            self._timers.after(0, lambda: self.handle(node_id, request, reply, client_id))
            return
        api_key = request.api.key
        version = min(request.api.client_version, APIS[api_key].max_version)
        handled = route(api_key, version)
        assert handled is not None
        if self._as_bytes:
            request, reply = _through_bytes(request, version, reply)

        def answered(response: Response) -> None:
            self._host.answered(request, response)
            reply(response)

        peer = cast("Connection", _Peer(self.nodes[node_id], answered))
        call = Call(peer, handled, 0, client_id, 0)

        def answer() -> None:
            response = at_once(handled.handle(call, request))
            if response is not None:
                call.answer(response)

        self.run(answer)

    def stop_node(self, node_id: int, stopped: Callable[[], None]) -> None:
        """Stop one node as its crash would: `stopped` ends the connections to it, then the others lead what it led."""
        stopped()
        self.nodes[node_id].running = False
        self.run(lambda: self.cluster.take_over(node_id))

    def start_node(self, node_id: int) -> None:
        """Let a stopped node take connections again."""
        if self.alive:
            self.nodes[node_id].running = True

    def move(self, topic: str, partition: int, node_id: int) -> None:
        """Let another node lead a partition."""
        self.run(lambda: self.cluster.move_leaders({(topic, partition): node_id}))


def _through_bytes(request: Request[Any], version: int, reply: Reply) -> tuple[Request[Any], Reply]:
    """Take a request as it comes out of its bytes, and answer likewise."""
    kind = type(request)
    _, decoded = decode_request(encode_request(request, version, 1, "simulated")[_PREFIX:])

    def encoded(response: Response) -> None:
        _, back = decode_response(kind, version, encode_response(response, version, 1)[_PREFIX:])
        reply(back)

    return decoded, encoded
