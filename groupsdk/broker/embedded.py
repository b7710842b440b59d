"""EmbeddedBroker: a Kafka broker inside this process, for tests and local work."""

import _thread
import logging
import threading
from collections.abc import Callable, Coroutine, Iterable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, Self, TypeVar

from groupsdk.broker.server.faults import Faults
from groupsdk.broker.settings.table import BrokerConfig
from groupsdk.clock import Clock, ManualClock
from groupsdk.errors import ConfigError, GroupSdkError
from groupsdk.lazy_imports import override
from groupsdk.limits import green_library
from groupsdk.printable import address_text


if TYPE_CHECKING:
    import asyncio

    from groupsdk.assignment import PartitionAssignor
    from groupsdk.broker.coordinator.classic.views import GroupView
    from groupsdk.broker.coordinator.consumer.assignors import ServerAssignor
    from groupsdk.broker.coordinator.consumer.views import ConsumerGroupView
    from groupsdk.broker.coordinator.group_status import GroupStatus
    from groupsdk.broker.server.broker import Broker, Memory
    from groupsdk.broker.server.sasl_servers import TokenValidator


logger = logging.getLogger(__name__)
_T = TypeVar("_T")
_STOP_S: Final = 10.0
_LAST_TURNS: Final = 10
_TURN_S: Final = 0.001
FOR_TESTS: Final[Mapping[str, Any]] = {
    "group_initial_rebalance_delay_ms": 0,
    "group_min_session_timeout_ms": 1,
    "group_consumer_assignment_interval_ms": 0,
    "group_consumer_heartbeat_interval_ms": 250,
    "group_consumer_min_heartbeat_interval_ms": 1,
    "group_consumer_min_session_timeout_ms": 1,
}
"""The defaults of an embedded broker that differ from Kafka's, so that tests do not wait."""


class EmbeddedBrokerError(GroupSdkError):
    """The embedded broker is not running, or its thread has ended."""


class EmbeddedBroker:
    """A broker inside this process that behaves like Apache Kafka to any client.

    Use it as a context manager, plain or async, or call `start` and `stop`::

        with EmbeddedBroker(topics={"orders": 3}) as broker:
            consumer = Consumer({"bootstrap.servers": broker.bootstrap_servers, ...})

    It runs on its own daemon thread and starts in some milliseconds. Its methods block and may be called from any
    thread but the broker's own. They raise ConfigError at a topic, listener or node that does not exist or does not fit,
    and EmbeddedBrokerError if the broker is not running, or its thread did not end within 10 seconds.

    Args:
        settings: Kafka's settings by dotted key, `{"group.max.size": 2}`.
        nodes: the number of nodes, each with its own ports; 1 or more.
        first_node_id: the id of the first node; the others have the following ids.
        data_dir: the data directory; existing data is used. None: in memory, kept over `stop` and `start` of this
            object.
        topics: topics to create if they do not exist, with their number of partitions; a name alone gets one.
        users: passwords by user name, for SASL PLAIN and SCRAM.
        token_validator: takes an OAUTHBEARER token and returns its user's name, or a `TokenUser` with the time at which
            the token, and with it the session, expires; raises any exception if it is not valid. Called on a
            thread; a token that takes longer than 10 s is refused.
        clock: a custom clock, such as a `ManualClock`, moved by `advance`; None: the machine's.
        assignors: custom assignors of consumer groups (KIP-848) in addition to `group.consumer.assignors`: each a
            `ServerAssignor`, or a client-side assignor, such as `WeightedAssignor(weights=...)`.
        **keywords: the same settings as keywords, `group_max_size=2`.

    Raises:
        ConfigError: a setting is unknown or invalid.
    """

    def __init__(
        self,
        settings: Mapping[str, Any] | None = None,
        /,
        *,
        nodes: int = 1,
        first_node_id: int = 1,
        data_dir: Path | str | None = None,
        topics: Mapping[str, int] | Iterable[str] = (),
        users: Mapping[str, str] | None = None,
        token_validator: "TokenValidator | None" = None,
        clock: Clock | None = None,
        assignors: "Iterable[ServerAssignor | PartitionAssignor]" = (),
        **keywords: Any,
    ) -> None:
        many: Any = assignors
        if isinstance(many, str) or not isinstance(many, Iterable):
            raise ConfigError(
                f"assignors must be a list of assignors, not {many!r}; names belong in group.consumer.assignors"
            )
        self._assignors: tuple[Any, ...] = tuple(many)
        given = dict(settings or {})
        taken = {key.replace(".", "_") for key in given}
        ours = {key: value for key, value in FOR_TESTS.items() if key not in taken}
        self.config = BrokerConfig.of({**ours, **given}, **keywords)
        self._count = nodes
        self._first_node_id = first_node_id
        self._data_dir = None if data_dir is None else Path(data_dir)
        if isinstance(topics, str):
            topics = (topics,)  # otherwise each letter would become a topic
        listed: object = topics
        if not isinstance(listed, Iterable):
            raise ConfigError(f"topics must be a mapping or a list of names, not {listed!r}")
        self._topics = dict(topics) if isinstance(topics, Mapping) else dict.fromkeys(topics, 1)
        self._users = dict(users or {})
        self._token_validator = token_validator
        self._clock = clock
        self._faults = Faults()
        self._memory: Memory | None = None
        self._broker: Broker | None = None
        self._loop: asyncio.AbstractEventLoop | None = None
        self._thread: threading.Thread | None = None
        self._ports: dict[int, dict[str, int]] = {}

    @override
    def __repr__(self) -> str:
        state = "running" if self._broker is not None else "not running"
        return f"EmbeddedBroker(nodes={self._count}, {state})"

    def __enter__(self) -> Self:
        self.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.stop()

    async def __aenter__(self) -> Self:
        import asyncio

        await asyncio.to_thread(self.start)
        return self

    async def __aexit__(self, *_: object) -> None:
        import asyncio

        await asyncio.to_thread(self.stop)

    def start(self) -> None:
        """Start the broker; clients can connect when this returns. Does nothing if it is running.

        Raises:
            ConfigError: a setting, topic or assignor is invalid, or a port is in use.
            LogDirectoryError: the data directory is in use, or belongs to another cluster.
            StoreError: the catalogue in the data directory cannot be used.
            EmbeddedBrokerError: gevent or eventlet has patched threads or selectors.
        """
        if self._broker is not None:
            return
        import asyncio
        import selectors

        from groupsdk.broker.server.broker import Broker, Memory

        library = green_library(_thread.start_new_thread, selectors.DefaultSelector)
        if library is not None:
            raise EmbeddedBrokerError(
                f"{library} has replaced Python's threads or selectors, without which a broker cannot"
                " run in this process; start `groupsdk broker` beside it"
            )
        if self._data_dir is None and self._memory is None:
            self._memory = Memory()
        broker = Broker(
            self.config,
            nodes=self._count,
            first_node_id=self._first_node_id,
            data_dir=self._data_dir,
            memory=self._memory,
            clock=self._clock,
            ports=self._ports,
            users=self._users,
            token_validator=self._token_validator,
            faults=self._faults,
            assignors=self._assignors,
        )
        broker.open(self._topics)
        loop = asyncio.new_event_loop()
        thread = threading.Thread(
            target=self._run, args=(loop,), name="groupsdk-broker", daemon=True
        )
        thread.start()
        self._broker, self._loop, self._thread = broker, loop, thread
        try:
            self._await(broker.serve())
        except BaseException:
            self.stop()
            raise
        self._ports = {node.node_id: node.ports for node in broker.nodes.values()}

    def _run(self, loop: "asyncio.AbstractEventLoop") -> None:
        import asyncio

        asyncio.set_event_loop(loop)
        try:
            loop.run_forever()
        finally:
            loop.run_until_complete(loop.shutdown_asyncgens())
            loop.close()

    def stop(self) -> None:
        """Stop the broker: close connections and flush everything. Does nothing if it is not running."""
        broker, loop, thread = self._broker, self._loop, self._thread
        self._broker = self._loop = self._thread = None
        if broker is None or loop is None or thread is None:
            return
        import asyncio

        asyncio.run_coroutine_threadsafe(self._end(broker), loop)
        thread.join(_STOP_S)
        if thread.is_alive():
            raise EmbeddedBrokerError(f"the broker's thread did not stop within {_STOP_S:.0f} s")

    async def _end(self, broker: "Broker") -> None:
        import asyncio

        try:
            broker.close()
            # let the closed connections run their remaining callbacks
            for _ in range(_LAST_TURNS):
                await asyncio.sleep(0)
        except Exception:  # the thread must end in any case
            logger.exception("the broker failed to close cleanly")
        finally:
            asyncio.get_running_loop().stop()

    def restart(self) -> None:
        """Restart the broker, with the same ports and data."""
        self.stop()
        self.start()

    @property
    def bootstrap_servers(self) -> str:
        """The addresses of the first listener on all nodes, in the form of `bootstrap.servers`."""
        return self.bootstrap_servers_of(
            next(iter(self._running().nodes.values())).listener_names[0]
        )

    def bootstrap_servers_of(self, listener: str) -> str:
        """Return the addresses of a listener, by its name, on all nodes, as "host:port,host:port"."""
        nodes = self._running().nodes.values()
        if listener not in next(iter(nodes)).listener_names:
            raise ConfigError(f"there is no listener named {listener}")
        pairs = [node.endpoint(listener) for node in nodes]
        return ",".join(address_text(host, port) for host, port in pairs)

    @property
    def cluster_id(self) -> str:
        """The cluster's id."""
        return self._running().cluster.cluster_id

    def create_topic(
        self, name: str, partitions: int = 1, config: Mapping[str, str] | None = None
    ) -> None:
        """Create a topic with 1 to 10,000 partitions; `config` has its own settings by Kafka's dotted keys."""
        from groupsdk.broker.catalogue import partitions_problem, topic_name_problem

        def create() -> None:
            cluster = self._running().cluster
            problem = topic_name_problem(name) or partitions_problem(partitions)
            if problem is None and name in cluster.catalogue.topics:
                problem = "already exists"
            if problem is not None:
                raise ConfigError(f"the topic {name!r}: {problem}")
            cluster.create_topics({name: partitions}, {name: config} if config else None)

        self._on_loop(create)

    def delete_topic(self, name: str) -> None:
        """Delete a topic with its records and the offsets committed for it."""

        def delete() -> None:
            cluster = self._running().cluster
            if name not in cluster.catalogue.topics:
                raise ConfigError(f"topic {name} does not exist")
            cluster.delete_topics((name,))

        self._on_loop(delete)

    def leader(self, topic: str, partition: int) -> int | None:
        """Return the id of the node that leads a partition; None if the partition does not exist."""
        return self._on_loop(lambda: self._running().cluster.leader(topic, partition))

    def move_leader(self, topic: str, partition: int, node_id: int) -> None:
        """Move a partition to another running leader; clients of the old one get NOT_LEADER_OR_FOLLOWER."""

        def move() -> None:
            broker = self._running()
            if broker.cluster.leader(topic, partition) is None:
                raise ConfigError(f"partition {topic}-{partition} does not exist")
            node = broker.nodes.get(node_id)
            if node is None or not node.running:
                raise ConfigError(f"node {node_id} does not exist or is not running")
            broker.cluster.move_leaders({(topic, partition): node_id})

        self._on_loop(move)

    def coordinator(self, group_id: str) -> int:
        """Return the id of the node that coordinates a group; creates `__consumer_offsets` on first use."""

        def find() -> int:
            groups = self._running().cluster.groups
            leader = self._running().cluster.leader(groups.topic, groups.partition_for(group_id))
            return -1 if leader is None else leader

        return self._on_loop(find)

    def move_coordinator(self, group_id: str, node_id: int) -> None:
        """Move a group, and all in its partition of `__consumer_offsets`, to a coordinator on another running node."""
        groups = self._on_loop(lambda: self._running().cluster.groups)
        partition = self._on_loop(lambda: groups.partition_for(group_id))
        self.move_leader(groups.topic, partition, node_id)

    def move_transaction_coordinator(self, transactional_id: str, node_id: int) -> None:
        """Move a transactional id, and all in its partition of `__transaction_state`, to another running node."""
        found = self._on_loop(lambda: self._running().cluster.transactions)
        partition = self._on_loop(lambda: found.partition_for(transactional_id))
        self.move_leader(found.topic, partition, node_id)

    def stop_node(self, node_id: int) -> None:
        """Stop a node as in a crash; the others take over its partitions."""
        self._on_loop(lambda: self._running().stop_node(node_id))

    def start_node(self, node_id: int) -> None:
        """Start a stopped node on its former ports; ConfigError if one is in use."""
        self._await(self._running().start_node(node_id))

    @property
    def groups(self) -> "Mapping[str, GroupView | ConsumerGroupView]":
        """A snapshot of all groups, classic and consumer groups (KIP-848), by group id."""
        from groupsdk.broker.inspection import group_views

        return self._on_loop(lambda: group_views(self._running().cluster))

    def classic_group(self, group_id: str) -> "GroupView | None":
        """Return a snapshot of a classic group; None if there is none, or it is a consumer group."""
        from groupsdk.broker.coordinator.classic.views import GroupView

        found = self.groups.get(group_id)
        return found if isinstance(found, GroupView) else None

    def consumer_group(self, group_id: str) -> "ConsumerGroupView | None":
        """Return a snapshot of a consumer group (KIP-848); None if there is none, or it is a classic one."""
        from groupsdk.broker.coordinator.consumer.views import ConsumerGroupView

        found = self.groups.get(group_id)
        return found if isinstance(found, ConsumerGroupView) else None

    @property
    def group_statuses(self) -> "Mapping[str, GroupStatus]":
        """A snapshot of the status of all groups by id: state, members waited for, and until when."""
        from groupsdk.broker.inspection import group_statuses

        return self._on_loop(lambda: group_statuses(self._running().cluster))

    def group_metrics(self) -> "Mapping[str, int]":
        """Return the number of groups, members, offsets and events under the names of Kafka's metrics.

        `NumGroups`, `NumOffsets`, and for each state `NumGroupsStable` and so on are of classic groups,
        `consumer-group-count,state=stable` and so on of consumer groups. `group-completed-rebalance-count`,
        `consumer-group-rebalance-count`, `offset-commit-count`, `offset-expiration-count` and `offset-deletion-count`
        count events since each coordinator was loaded. `NumMembers` are the members of all groups.
        """
        from groupsdk.broker.inspection import group_metrics

        return self._on_loop(lambda: group_metrics(self._running().cluster))

    @property
    def faults(self) -> "Faults":
        """The scripted faults: errors, delays, drops, disconnects; kept across `restart`."""
        return self._faults

    def advance(self, delta_ms: int) -> None:
        """Advance a `ManualClock` by milliseconds, 0 or more, running the timers that become due in order."""
        clock = self._clock
        if not isinstance(clock, ManualClock):
            raise ConfigError("advance() needs EmbeddedBroker(clock=ManualClock(...))")

        async def move(clock: ManualClock) -> None:
            import asyncio

            broker = self._running()
            until_ms = clock.now_ms() + delta_ms
            loop = asyncio.get_running_loop()
            turn_s, deferred = loop.time(), broker.deferred
            while True:
                await broker.settled()
                next_ms = broker.scheduler.next_ms
                step_ms = (
                    until_ms if next_ms is None else min(max(next_ms, clock.now_ms()), until_ms)
                )
                clock.advance(step_ms - clock.now_ms())
                broker.run_due()
                # a year has millions of timers, most of which need no further work
                last = clock.now_ms() >= until_ms
                if last or broker.deferred != deferred or loop.time() - turn_s > _TURN_S:
                    await asyncio.sleep(0)
                    turn_s, deferred = loop.time(), broker.deferred
                if clock.now_ms() >= until_ms and (next_ms is None or next_ms > until_ms):
                    await broker.settled()
                    return

        self._await(move(clock))

    def _running(self) -> "Broker":
        if self._broker is None:
            raise EmbeddedBrokerError(
                "the broker is not running: call start() or use it in a with statement"
            )
        return self._broker

    def _on_loop(self, call: Callable[[], _T]) -> _T:
        async def run() -> _T:
            return call()

        return self._await(run())

    def _await(self, work: Coroutine[Any, Any, _T]) -> _T:
        import asyncio

        loop = self._loop
        if loop is None:
            work.close()
            raise EmbeddedBrokerError("the broker is not running")
        return asyncio.run_coroutine_threadsafe(work, loop).result()
