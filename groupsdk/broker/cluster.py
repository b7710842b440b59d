"""The state shared by the nodes of one process: one catalogue, one set of logs, one coordinator for each group."""

import logging
from collections import Counter
from collections.abc import Callable, Collection, Generator, Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Final, Protocol
from uuid import UUID

from groupsdk.broker.catalogue import (
    INTERNAL_TOPICS,
    OFFSETS_TOPIC,
    TRANSACTIONS_TOPIC,
    Catalogue,
    Topic,
)
from groupsdk.broker.coordinator.runtime.loop_share import Activity, InSteps
from groupsdk.broker.coordinator.runtime.scheduler import Scheduler
from groupsdk.broker.log.errors import StorageError
from groupsdk.broker.log_manager import LogManager
from groupsdk.broker.settings.table import BrokerConfig
from groupsdk.error_code import ErrorCode
from groupsdk.errors import GroupSdkError


if TYPE_CHECKING:
    from groupsdk.broker.assignor_threads import AssignorThreads
    from groupsdk.broker.authorizer import Authorizer
    from groupsdk.broker.coordinator.consumer.assignors import ServerAssignor
    from groupsdk.broker.coordinator.runtime.coordinator_runtime import ConnectionLoad
    from groupsdk.broker.coordinator.transactions.producer_ids import ProducerIdAllocator
    from groupsdk.broker.coordinators import CatalogueImage, Coordinators
    from groupsdk.broker.log.partition_log import PartitionLog


logger = logging.getLogger(__name__)
TopicPartition = tuple[str, int]
_MIB: Final = 1024 * 1024
_DELETED_AT_ONCE: Final = 2
"""How many topics lose their committed offsets in a step."""
_NAMED: Final = 5
"""The most partitions named in one log message."""
_NO_WAITERS: Final[frozenset[Callable[[], None]]] = frozenset()


class ClusterError(GroupSdkError):
    """An operation that the cluster's state does not allow.

    Args:
        text: the error message for clients; "": the one of the code.
    """

    def __init__(self, error_code: ErrorCode, text: str = "") -> None:
        self.error_code = error_code
        super().__init__(text or error_code.text)


def _none_waits(_group: str) -> bool:
    return False


def _in_order(defer: Callable[[Callable[[], Any]], Any]) -> InSteps:
    return lambda step, _group="": defer(step)


class ClusterNode(Protocol):
    """A node, as used by the cluster."""

    node_id: int
    running: bool

    def endpoint(self, listener: str) -> tuple[str, int]:
        """Return the host and port that clients of a listener connect to."""


AfterLoading = Callable[[BaseException | None], Any]
"""Is told what a function raised that ran on another thread, or None."""


OffLoop = Callable[[Callable[[], Any], AfterLoading], Any]
"""Runs functions that take long, one after the other, on another thread; the second one is called on the broker's
thread, later.
"""


class Cluster:
    """The state that all nodes of one process share.

    A partition has one replica, on storage that all nodes share; its leader is stored in the catalogue. Not
    thread-safe: every method must be called on the event loop's thread.

    Args:
        defer: calls a function in the next iteration of the event loop.
        client_scheduler: the timers of waiting clients, by the machine's clock; None: `scheduler`.
        in_steps: calls one step of a task that clients wait for, so that short requests go first; None: `defer`.
        has_waiting: returns whether steps of a group wait for their turn; None: none ever does.
    """

    def __init__(
        self,
        config: BrokerConfig,
        catalogue: Catalogue,
        logs: LogManager,
        scheduler: Scheduler,
        defer: Callable[[Callable[[], Any]], Any],
        client_scheduler: Scheduler | None = None,
        in_steps: InSteps | None = None,
        has_waiting: Callable[[str], bool] | None = None,
    ) -> None:
        self.static_config = config
        """The settings that the broker was started with."""
        self.config = config
        """The settings in effect: `static_config` with the dynamic changes."""
        self.catalogue = catalogue
        self.logs = logs
        self.scheduler = scheduler
        # an empty one would be falsy
        self.client_scheduler = scheduler if client_scheduler is None else client_scheduler
        self.defer = defer
        self.in_steps: InSteps = _in_order(defer) if in_steps is None else in_steps
        self.has_waiting = has_waiting or _none_waits
        self.activity = Activity()
        """The requests served, counted by the connections."""
        self.connection_load: ConnectionLoad | None = None
        """Decides whether small commits are batched; None: each is written by itself."""
        self.on_reconfigured: list[Callable[[BrokerConfig], None]] = []
        """Called with the settings in effect when they changed."""
        self.nodes: dict[int, ClusterNode] = {}
        self.changes = 0
        """How often records were appended or a leader changed; for readers that pause between steps."""
        self._waiters: dict[TopicPartition, set[Callable[[], None]]] = {}
        self._groups: Coordinators | None = None
        self._topic_image: CatalogueImage | None = None
        self._transactions: Coordinators | None = None
        self._authorizer: Authorizer | None = None
        self.scram: Any = None
        """The credentials of SCRAM users if no listener uses SASL; created by the first request for them."""
        self._producer_ids: ProducerIdAllocator | None = None
        self.assignors: Mapping[str, ServerAssignor] | None = None
        """The assignors of consumer groups, the default one first; None: Kafka's, in the default order."""
        self.assignor_threads: AssignorThreads | None = None
        """The threads of assignors; None: assignors run at once."""
        self.from_any_thread: Callable[[Callable[[], Any]], Any] | None = None
        """Calls a function on the broker's thread, from any thread; None: assignors do not use threads."""
        self.off_loop: OffLoop | None = None
        """Runs a function on another thread; None: all run at once."""
        self._next_leader = 0
        # deletions interrupted by a crash: offsets that groups committed for the topics are still in the logs
        self._half_deleted = set(catalogue.deleted)

    @property
    def cluster_id(self) -> str:
        return self.catalogue.cluster_id

    def now_ms(self) -> int:
        """Return the time, in milliseconds since 1970."""
        return self.scheduler.now_ms()

    @property
    def running_nodes(self) -> list[ClusterNode]:
        """The running nodes, by id."""
        return [
            self.nodes[node_id] for node_id in sorted(self.nodes) if self.nodes[node_id].running
        ]

    @property
    def controller_id(self) -> int:
        """The running node with the lowest id; -1 if there is none."""
        return next((node.node_id for node in self.running_nodes), -1)

    def apply_broker_configs(self) -> None:
        """Apply the dynamic broker settings (`DYNAMIC`) set by AlterConfigs.

        Settings for all brokers apply to all nodes. Settings for one broker apply only if it is the only node, as the
        nodes share their logs.
        """
        from groupsdk.broker.settings.effective import (
            effective_config,  # most brokers never need it
        )

        layers = [self.catalogue.config("broker", "")]
        if len(self.nodes) == 1:
            layers += [self.catalogue.config("broker", str(node)) for node in self.nodes]
        self.config = effective_config(self.static_config, layers)
        self.logs.reconfigure(self.config)
        for each in self.on_reconfigured:
            each(self.config)

    def create_topics(
        self,
        partitions: Mapping[str, int],
        configs: Mapping[str, Mapping[str, str]] | None = None,
        topic_ids: Mapping[str, UUID] | None = None,
    ) -> list[Topic]:
        """Create topics, all or none, with leaders spread over the running nodes. Return them.

        The names must be valid and new. A topic without an id gets a random one.
        """
        leaders = {name: self._deal(count) for name, count in partitions.items()}
        return self.create_placed_topics(leaders, configs, topic_ids)

    def create_placed_topics(
        self,
        leaders: Mapping[str, Sequence[int]],
        configs: Mapping[str, Mapping[str, str]] | None = None,
        topic_ids: Mapping[str, UUID] | None = None,
    ) -> list[Topic]:
        """Create topics as `create_topics` does, with these leaders of their partitions. Return them."""
        for name in self.catalogue.deleted & leaders.keys():
            # deleting it failed because of the disk, or goes on
            for _ in self.logs.deletion((name,)):
                pass
            self._drop_offsets((name,))
            if name not in self._half_deleted:
                self.catalogue.forget_deleted(name)
        made = self.catalogue.create_topics(leaders, configs, topic_ids)
        for topic in made:
            logger.info("topic %s: created with %d partitions", topic.name, len(topic.partitions))
        return made

    def add_partitions(self, name: str, count: int) -> None:
        """Increase a topic, which must exist, to `count` partitions."""
        topic = self.catalogue.topics[name]
        before = len(topic.partitions)
        self.catalogue.add_partitions(name, self._deal(count - before))
        logger.info("topic %s: now has %d partitions, before %d", name, count, before)

    def delete_topics(self, names: Collection[str]) -> None:
        """Delete existing topics at once; see `deletion`."""
        for _ in self.deletion(names):
            pass

    def deletion(self, names: Collection[str]) -> Generator[None, None, None]:
        """Delete existing topics with their records and committed offsets, in steps; the first one takes the topics away.

        Records that cannot be removed are when the topic is created again, or at the next start.
        """
        yield from self.records_deletion([self.catalogue.delete_topic(name) for name in names])

    def records_deletion(self, topics: Sequence[Topic]) -> Generator[None, None, None]:
        """Delete, in steps, records and committed offsets of topics that were taken from the catalogue."""
        failure = None
        try:
            # one that was created again has logs of its own by now
            names = {topic.name for topic in topics} & self.catalogue.deleted
            yield from self.logs.deletion(names)
        except StorageError as error:
            failure = error
        for start in range(0, len(topics), _DELETED_AT_ONCE):
            if start:
                yield
            some = topics[start : start + _DELETED_AT_ONCE]
            for topic in some:
                for partition in range(len(topic.partitions)):
                    self.appended((topic.name, partition))
            # one that was created again meanwhile may have offsets again
            gone = [topic.name for topic in some if topic.name in self.catalogue.deleted]
            self._drop_offsets(gone)
            if failure is None:
                for name in gone:
                    self.catalogue.forget_deleted(name)
                for topic in some:
                    logger.info("topic %s: deleted", topic.name)
        if failure is not None:
            raise failure

    def _drop_offsets(self, topics: Collection[str]) -> None:
        if self._groups is not None:
            self._groups.topics_deleted(topics)

    def _deal(self, count: int) -> list[int]:
        ids = [node.node_id for node in self.running_nodes] or sorted(self.nodes) or [1]
        start = self._next_leader
        self._next_leader += count
        return [ids[(start + index) % len(ids)] for index in range(count)]

    def internal_topic(self, name: str) -> Topic:
        """Return an internal topic by its name, creating it on first use."""
        topic = self.catalogue.topics.get(name)
        if topic is None:
            config = self.config
            if name == OFFSETS_TOPIC:
                count, segment = (
                    config.offsets_topic_num_partitions,
                    config.offsets_topic_segment_bytes,
                )
                entries = {"compression.type": "producer"}
            else:
                count = config.transaction_state_log_num_partitions
                segment = config.transaction_state_log_segment_bytes
                entries = {"compression.type": "uncompressed"}
            # as for log.segment.bytes, a value below the minimum of a topic is allowed
            key = "segment.bytes" if segment >= _MIB else "internal.segment.bytes"
            entries |= {"cleanup.policy": "compact", key: str(segment)}
            (topic,) = self.create_topics({name: count}, {name: entries})
        return topic

    def leader(self, name: str, partition: int) -> int | None:
        """Return the node id of a partition's leader, running or not; None if the partition does not exist."""
        topic = self.catalogue.topics.get(name)
        if topic is None or not 0 <= partition < len(topic.partitions):
            return None
        return topic.partitions[partition].leader

    @property
    def has_virtual_time(self) -> bool:
        """Whether time only passes when a test moves the clock."""
        return self.client_scheduler is not self.scheduler

    def leader_epoch(self, name: str, partition: int) -> int:
        return self.catalogue.topics[name].partitions[partition].leader_epoch

    def log(self, name: str, partition: int) -> "PartitionLog":
        """Return the log of an existing partition, opening it on first use."""
        return self.logs.get(self.catalogue.topics[name], partition)

    def led_log(
        self, node_id: int, name: str, partition: int, leader_epoch: int = -1
    ) -> "PartitionLog":
        """Return a partition's log for a node that must lead it.

        Args:
            leader_epoch: the leader epoch that the client knows; -1: unknown (KIP-320).

        Raises:
            ClusterError: with UNKNOWN_TOPIC_OR_PARTITION, FENCED_LEADER_EPOCH, UNKNOWN_LEADER_EPOCH or
                NOT_LEADER_OR_FOLLOWER.
        """
        topic = self.catalogue.topics.get(name)
        if topic is None or not 0 <= partition < len(topic.partitions):
            raise ClusterError(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)
        state = topic.partitions[partition]
        if leader_epoch >= 0 and leader_epoch != state.leader_epoch:
            if leader_epoch < state.leader_epoch:
                raise ClusterError(ErrorCode.FENCED_LEADER_EPOCH)
            raise ClusterError(ErrorCode.UNKNOWN_LEADER_EPOCH)
        if state.leader != node_id:
            raise ClusterError(ErrorCode.NOT_LEADER_OR_FOLLOWER)
        return self.logs.get(topic, partition)

    def move_leaders(self, moves: Mapping[TopicPartition, int]) -> None:
        """Move partitions that exist to other leaders; the coordinators of internal partitions move with them."""
        real = {
            place: node for place, node in moves.items() if self.leader(*place) not in (None, node)
        }
        if not real:
            return
        for place in real:
            coordinators = self.coordinators(place[0], create=False)
            if coordinators is not None:
                coordinators.unload(place[1], ErrorCode.NOT_COORDINATOR)
        self.catalogue.move_leaders(real)
        for place in real:
            self.appended(place)
            coordinators = self.coordinators(place[0], create=False)
            if coordinators is not None:
                coordinators.load_written(place[1])
        for node, led in sorted(Counter(real.values()).items()):
            places = [f"{name}-{partition}" for (name, partition), to in real.items() if to == node]
            logger.info(
                "node %d: leads %d more partitions: %s%s",
                node,
                led,
                ", ".join(places[:_NAMED]),
                ", ..." if led > _NAMED else "",
            )

    def take_over(self, gone: int) -> None:
        """Move the partitions of a stopped node to the running ones; without any, its coordinators are closed."""
        others = [node.node_id for node in self.running_nodes if node.node_id != gone]
        if others:
            led = self._led_by(gone)
            self.move_leaders({place: others[n % len(others)] for n, place in enumerate(led)})
            return
        for coordinators in (self._groups, self._transactions):
            if coordinators is not None:
                coordinators.close()

    def come_back(self, node_id: int) -> None:
        """Let a restarted node lead the partitions that it still has, under new leader epochs."""
        self.catalogue.move_leaders(dict.fromkeys(self._led_by(node_id), node_id))
        self.load_coordinators()

    def _led_by(self, node_id: int) -> list[TopicPartition]:
        return [
            (topic.name, partition)
            for topic in self.catalogue.topics.values()
            for partition, state in enumerate(topic.partitions)
            if state.leader == node_id
        ]

    @property
    def groups(self) -> "Coordinators":
        """The coordinators of groups, one for each partition of `__consumer_offsets`."""
        if self._groups is None:
            from groupsdk.broker.coordinators import group_coordinators

            self._groups = group_coordinators(self)
        return self._groups

    @property
    def topic_image(self) -> "CatalogueImage":
        """The topics as consumer groups see them."""
        if self._topic_image is None:
            from groupsdk.broker.coordinators import CatalogueImage

            self._topic_image = CatalogueImage(self)
        return self._topic_image

    @property
    def transactions(self) -> "Coordinators":
        """The coordinators of transactions, one for each partition of `__transaction_state`."""
        if self._transactions is None:
            from groupsdk.broker.coordinators import transaction_coordinators

            self._transactions = transaction_coordinators(self)
        return self._transactions

    @property
    def producer_ids(self) -> "ProducerIdAllocator":
        """The allocator of producer ids, which are unique across restarts."""
        if self._producer_ids is None:
            from groupsdk.broker.coordinator.transactions.producer_ids import ProducerIdAllocator
            from groupsdk.broker.coordinators import CatalogueBlockStore

            self._producer_ids = ProducerIdAllocator(CatalogueBlockStore(self.catalogue.store))
        return self._producer_ids

    def coordinators(self, topic: str, *, create: bool = True) -> "Coordinators | None":
        """Return the coordinators of an internal topic; None for other topics."""
        if topic == OFFSETS_TOPIC:
            return self.groups if create else self._groups
        if topic == TRANSACTIONS_TOPIC:
            return self.transactions if create else self._transactions
        return None

    def load_coordinators(self) -> None:
        """Load the coordinators with a log from an earlier run, and complete interrupted deletions of topics."""
        for name in sorted(INTERNAL_TOPICS & self.catalogue.topics.keys()):
            topic = self.catalogue.topics[name]
            written = [p for p in range(len(topic.partitions)) if self.logs.exists(name, p)]
            for partition in written:
                coordinators = self.coordinators(name)
                assert coordinators is not None
                coordinators.load_written(partition)
        for name in sorted(self._half_deleted):
            # its records were deleted when the data directory was opened
            self.groups.topics_deleted((name,))
            self.catalogue.forget_deleted(name)
            logger.info("topic %s: deletion completed", name)
        self._half_deleted.clear()

    @property
    def authorizer(self) -> "Authorizer | None":
        """The authorizer; None if authorization is disabled."""
        if self._authorizer is None and self.config.authorizer_class_name:
            from groupsdk.broker.authorizer import Authorizer

            self._authorizer = Authorizer(self.catalogue, self.config)
        return self._authorizer

    def wait(self, places: Iterable[TopicPartition], wake: Callable[[], None]) -> None:
        """Call `wake` whenever one of these partitions changes, until `unwait` is called with the same arguments."""
        for place in places:
            self._waiters.setdefault(place, set()).add(wake)

    def unwait(self, places: Iterable[TopicPartition], wake: Callable[[], None]) -> None:
        """Stop calling `wake` for these partitions."""
        for place in places:
            found = self._waiters.get(place)
            if found is not None:
                found.discard(wake)
                if not found:
                    del self._waiters[place]

    def appended(self, place: TopicPartition) -> None:
        """Wake the waiters of a (topic, partition): it has new records or another leader, or was deleted."""
        self.changes += 1
        for wake in tuple(self._waiters.get(place, _NO_WAITERS)):
            wake()

    def close(self) -> None:
        """Answer parked requests, flush everything, and close the files."""
        for coordinators in (self._groups, self._transactions):
            if coordinators is not None:
                coordinators.close()
        self.logs.close()
        self.catalogue.store.close()
