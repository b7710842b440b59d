"""Find and run the group and transaction coordinators: one for each partition of their topic."""

import logging
import os
from collections.abc import Callable, Collection, Iterator, Sequence
from functools import lru_cache, partial
from itertools import chain, islice
from typing import TYPE_CHECKING, Any, Final
from uuid import UUID

from groupsdk.broker.catalogue import OFFSETS_TOPIC, TRANSACTIONS_TOPIC, Topic
from groupsdk.broker.coordinator.runtime.contract import (
    CoordinatorShard,
    LogRecord,
    MarkerPartitions,
    ProducerStamp,
    Record,
)
from groupsdk.broker.coordinator.runtime.coordinator_runtime import (
    AT_ONCE_RECORDS,
    CoordinatorRuntime,
    Marker,
    Replayed,
    RuntimeState,
)
from groupsdk.broker.store import Store, StoreError
from groupsdk.error_code import ErrorCode
from groupsdk.wire.coordinator_records.partitioner import partition_for
from groupsdk.wire.records.batch import BatchHeader, batches
from groupsdk.wire.records.control import read_marker
from groupsdk.wire.records.pairs import Pair, read_pairs
from groupsdk.wire.records.record import EncodedPairs, read_records


if TYPE_CHECKING:
    from groupsdk.broker.cluster import Cluster
    from groupsdk.broker.coordinator.consumer.assignment_jobs import AssignmentJob, Outcome
    from groupsdk.broker.coordinator.consumer.topics import TopicInfo
    from groupsdk.broker.settings.effective import EffectiveSettings


logger = logging.getLogger(__name__)
_LOAD_BYTES: Final = 5 * 1024 * 1024
_GATHER_MS: Final = 5
_NO_PRODUCER: Final = ProducerStamp(-1, -1)


class PartitionCoordinatorLog:
    """The log of one partition of an internal topic, as a `CoordinatorLog`.

    The file is opened by the first write, so a coordinator without records has none."""

    def __init__(self, cluster: "Cluster", topic: str, partition: int) -> None:
        self._cluster = cluster
        self._place = (topic, partition)
        self._is_offsets = topic == OFFSETS_TOPIC

    def append(
        self, records: Sequence[Record], producer: ProducerStamp | None, now_ms: int
    ) -> None:
        """Append records as one batch, and wake readers of the topic.

        Raises EncodeError if a field is too large for its type; nothing was written.
        """
        if len(records) == 1:
            pairs = records[0].encoded()
        else:
            first, *others = [record.encoded() for record in records]
            rest = list(chain.from_iterable(others))
            if isinstance(first, EncodedPairs):
                pairs = first.followed_by(rest)
            else:
                pairs = [*first, *rest]
        cluster, (name, partition) = self._cluster, self._place
        topic = cluster.catalogue.topics[name]
        log = cluster.logs.open.get(self._place) or cluster.logs.get(topic, partition)
        epoch = topic.partitions[partition].leader_epoch
        codec = cluster.config.offsets_topic_compression_codec if self._is_offsets else 0
        producer_id, producer_epoch = producer or _NO_PRODUCER
        log.append_records(pairs, now_ms, producer_id, producer_epoch, epoch, codec)
        cluster.appended(self._place)

    def replay(self) -> Iterator[Replayed | Marker]:
        """Yield the whole log in order: records and transaction markers."""
        for data, header, position, offset in self._batches():
            yield from _entries(data, header, position, offset)

    def load(self) -> Iterator[Replayed | Marker | list[Pair]]:
        """Yield the whole log as `replay` does, but the records of a batch in lists if that is faster."""
        for data, header, position, offset in self._batches():
            read = 0
            if not header.attributes and header.base_offset >= offset:
                for pairs in read_pairs(data, header, position):
                    read += len(pairs)
                    yield pairs
            if not read or read < header.records_count:
                yield from islice(_entries(data, header, position, offset), read, None)

    def _batches(self) -> Iterator[tuple[bytes, BatchHeader, int, int]]:
        """Yield each batch as its bytes and position, with the offset from which its records apply."""
        if not self._cluster.logs.exists(*self._place):
            return
        log = self._cluster.log(*self._place)
        offset = log.log_start_offset
        size = self._cluster.config.offsets_load_buffer_size if self._is_offsets else _LOAD_BYTES
        while offset < log.log_end_offset:
            data = log.read(offset, size, committed=False).data
            following = offset
            for header, position in batches(data):
                following = header.last_offset + 1
                yield data, header, position, offset
            if following <= offset:
                return
            offset = following


def _entries(
    data: bytes, header: BatchHeader, position: int, offset: int
) -> Iterator[Replayed | Marker]:
    """Return the entries of a batch, from an offset on."""
    producer = None
    if header.is_transactional:
        producer = ProducerStamp(header.producer_id, header.producer_epoch)
    if header.is_control:
        marker = read_marker(data, position)
        if marker is not None and producer is not None:
            yield Marker(producer, marker.committed)
        return
    new = tuple.__new__  # what NamedTuple's __new__ does, in half the time: there may be millions
    for at, _, key, value, _ in read_records(data, position):
        if key is not None and at >= offset:
            yield new(Replayed, (new(LogRecord, (key, value)), producer))


class Coordinators:
    """The coordinators of one internal topic, created on first use.

    Args:
        write_markers: starts writing the end of a transaction to its partitions; None: for groups.
        at_once: logs of fewer records are loaded where a request asks for their coordinator, others in steps; None:
            `AT_ONCE_RECORDS`.
    """

    def __init__(
        self,
        cluster: "Cluster",
        topic: str,
        make: Callable[[int], CoordinatorShard],
        write_markers: Callable[[MarkerPartitions], None] | None = None,
        at_once: int | None = None,
    ) -> None:
        self.topic = topic
        self._cluster = cluster
        self._make = make
        self._write_markers = write_markers
        self._runtimes: dict[int, CoordinatorRuntime] = {}
        # of all coordinators that start in this iteration of the loop together
        self._left_at_once = AT_ONCE_RECORDS if at_once is None else at_once

    def partition_for(self, key: str) -> int:
        """Return the partition of a group or transactional id; creates the internal topic on first use."""
        return _partition(key, len(self._cluster.internal_topic(self.topic).partitions))

    def runtime_for(self, node_id: int, key: str) -> CoordinatorRuntime | ErrorCode:
        """Return the coordinator of a group or transactional id.

        An error if the node does not lead its partition, or it is not ready.
        """
        topic = self._cluster.catalogue.topics.get(self.topic)
        if topic is None:
            topic = self._cluster.internal_topic(self.topic)
        partition = _partition(key, len(topic.partitions))
        runtime = self._runtimes.get(partition)
        if (
            runtime is not None
            and runtime.state is RuntimeState.ACTIVE
            and topic.partitions[partition].leader == node_id
        ):
            return runtime
        return self.runtime_at(node_id, partition)

    def runtime_at(self, node_id: int, partition: int) -> CoordinatorRuntime | ErrorCode:
        """Return the coordinator of a partition, for the node that must lead it; the errors are those of `runtime_for`."""
        if self._cluster.leader(self.topic, partition) != node_id:
            return ErrorCode.NOT_COORDINATOR
        runtime = self._runtimes.get(partition)
        if runtime is None or runtime.is_worth_another_try:
            runtime = self._started(partition)
        problem = runtime.unavailable()
        return runtime if problem is None else problem

    def led_by(self, node_id: int) -> Iterator[CoordinatorRuntime]:
        """Yield the started coordinators whose partitions a node leads, ready or not."""
        for partition, runtime in sorted(self._runtimes.items()):
            if self._cluster.leader(self.topic, partition) == node_id:
                yield runtime

    def running(self) -> Iterator[CoordinatorRuntime]:
        """Yield all coordinators that accept requests."""
        for _, runtime in sorted(self._runtimes.items()):
            if runtime.unavailable() is None:
                yield runtime

    def find(self, partition: int) -> CoordinatorRuntime | None:
        """Return the coordinator of a partition; None if it does not accept requests."""
        runtime = self._runtimes.get(partition)
        return runtime if runtime and runtime.state is RuntimeState.ACTIVE else None

    def find_for(self, key: str) -> CoordinatorRuntime | None:
        """Return the coordinator of a group or transactional id, as `find` does; creates no topic."""
        topic = self._cluster.catalogue.topics.get(self.topic)
        return None if topic is None else self.find(_partition(key, len(topic.partitions)))

    def load_written(self, partition: int) -> None:
        """Start the coordinator of a partition that has a log."""
        if partition not in self._runtimes and self._cluster.logs.exists(self.topic, partition):
            self._started(partition)

    def _started(self, partition: int) -> CoordinatorRuntime:
        cluster = self._cluster
        made = self._runtimes[partition] = CoordinatorRuntime(
            name=f"{self.topic}-{partition}",
            shard=self._make(partition),
            log=PartitionCoordinatorLog(cluster, self.topic, partition),
            scheduler=cluster.scheduler,
            defer=cluster.defer,
            write_markers=self._write_markers,
            connection_load=cluster.connection_load,
            write_timeout_ms=lambda: cluster.config.offsets_commit_timeout_ms,
            in_steps=cluster.in_steps,
        )
        if self._left_at_once == AT_ONCE_RECORDS:
            cluster.defer(self._next_turn)
        loaded = made.load(self._left_at_once)
        self._left_at_once = max(self._left_at_once - loaded, 0)
        return made

    def _next_turn(self) -> None:
        self._left_at_once = AT_ONCE_RECORDS

    def unload(self, partition: int, error: ErrorCode) -> None:
        """Stop the coordinator of a partition; parked requests are answered with the error."""
        runtime = self._runtimes.pop(partition, None)
        if runtime is not None:
            runtime.unload(error)

    def topics_deleted(self, names: Collection[str]) -> None:
        """Remove the offsets committed for deleted topics; in a coordinator that is loading, once it is loaded."""
        for runtime in list(self._runtimes.values()):
            self._drop_offsets(runtime, names)

    def _drop_offsets(self, runtime: CoordinatorRuntime, names: Collection[str]) -> None:
        if runtime.state is RuntimeState.LOADING:
            self._cluster.in_steps(lambda: self._drop_offsets(runtime, names))
        elif runtime.state is RuntimeState.ACTIVE:
            deleted: Any = getattr(runtime.shard, "topics_deleted", None)
            if deleted is not None:
                for result in deleted(names, self._cluster.now_ms()):
                    runtime.apply(result)

    def close(self) -> None:
        for partition in list(self._runtimes):
            self.unload(partition, ErrorCode.NOT_COORDINATOR)


_partition = lru_cache(4096)(partition_for)
"""A group's hash is taken once, not with every heartbeat."""


_UUID_BYTES: Final = 16
_UUIDS_AT_ONCE: Final = 64
_UUID_VARIANTS: Final = "89ab"


def random_uuids() -> Iterator[str]:
    """Yield random UUIDs (RFC 9562, version 4) as strings, for member ids.

    The random bytes of many are drawn at once: one takes a fifth of the time of `uuid.uuid4`, and a
    group that forms needs one for each member.
    """
    while True:
        drawn = os.urandom(_UUID_BYTES * _UUIDS_AT_ONCE)
        for start in range(0, len(drawn), _UUID_BYTES):
            text = drawn[start : start + _UUID_BYTES].hex()
            variant = _UUID_VARIANTS[drawn[start + 8] & 3]
            yield f"{text[:8]}-{text[8:12]}-4{text[13:16]}-{variant}{text[17:20]}-{text[20:]}"


def group_coordinators(cluster: "Cluster") -> Coordinators:
    """Create the coordinators of `__consumer_offsets` for a cluster."""
    from groupsdk.broker.coordinator.group.shard import GroupCoordinatorShard

    gather_ms = 0 if cluster.has_virtual_time else _GATHER_MS  # a virtual clock may never advance
    settings = cluster.config
    new_uuid = random_uuids().__next__
    image = cluster.topic_image
    consumer_settings = consumer_group_settings(cluster)

    threads = None
    if cluster.from_any_thread is not None:
        from groupsdk.broker.assignor_threads import AssignorThreads

        threads = cluster.assignor_threads = AssignorThreads(
            cluster.client_scheduler,
            cluster.from_any_thread,
            lambda: consumer_settings.config().group_consumer_assignor_timeout_ms,
        )

    def end_offset(topic: str, partition: int) -> int | None:
        log = cluster.logs.open.get((topic, partition))
        return None if log is None else log.log_end_offset

    def make(partition: int) -> GroupCoordinatorShard:
        limit = cluster.logs.topic_config(OFFSETS_TOPIC).max_message_bytes
        return GroupCoordinatorShard(
            settings.changed(gather_ms=gather_ms, max_record_bytes=limit),
            new_uuid,
            consumer_settings=consumer_settings,
            image=lambda: image,
            topics=cluster.catalogue.topics,
            assignors=cluster.assignors,
            start_assignment=None if threads is None else partial(start, partition),
            end_offset=end_offset,
        )

    def start(partition: int, job: "AssignmentJob") -> None:
        assert threads is not None
        threads.start(job, partial(assigned, partition, job))

    def assigned(partition: int, job: "AssignmentJob", outcome: "Outcome") -> None:
        # if another shard coordinates the group by now, it does not know the job
        runtime = made.find(partition)
        if runtime is not None and isinstance(runtime.shard, GroupCoordinatorShard):
            runtime.apply(runtime.shard.assigned(job, outcome, cluster.now_ms()))

    made = Coordinators(cluster, OFFSETS_TOPIC, make)
    return made


def consumer_group_settings(cluster: "Cluster") -> "EffectiveSettings":
    """Return the effective settings of consumer groups: those of the broker, which may change, and each group's own."""
    from groupsdk.broker.settings.effective import EffectiveSettings

    return EffectiveSettings(
        lambda: cluster.config, lambda group_id: cluster.catalogue.config("group", group_id)
    )


class CatalogueImage:
    """The topics of a cluster, as a `TopicImage`."""

    def __init__(self, cluster: "Cluster") -> None:
        self._cluster = cluster
        self._catalogue = cluster.catalogue
        self._infos: dict[Topic, TopicInfo] = {}

    @property
    def version(self) -> int:
        """A number that changes whenever a topic is created, deleted or gets partitions."""
        return self._catalogue.topics_version

    def topic(self, name: str) -> "TopicInfo | None":
        """Return a topic by its name; None if it does not exist."""
        found = self._catalogue.topics.get(name)
        return None if found is None else self._info(found)

    def topic_by_id(self, topic_id: UUID) -> "TopicInfo | None":
        """Return a topic by its id; None if it does not exist."""
        found = self._catalogue.topics_by_id.get(topic_id)
        return None if found is None else self._info(found)

    def names(self) -> Iterator[str]:
        return iter(tuple(self._catalogue.topics))

    def _info(self, topic: Topic) -> "TopicInfo":
        infos = self._infos
        found = infos.get(topic)
        if found is None or found.partitions != len(topic.partitions):
            if len(infos) > 2 * len(self._catalogue.topics):
                infos.clear()  # most are of deleted topics
            found = infos[topic] = self._new_info(topic)
        return found

    def _new_info(self, topic: Topic) -> "TopicInfo":
        from groupsdk.broker.coordinator.consumer.topics import TopicInfo

        count, rack = len(topic.partitions), self._cluster.config.broker_rack
        return TopicInfo(topic.topic_id, topic.name, count, ((rack,),) * count if rack else ())


def transaction_coordinators(cluster: "Cluster") -> Coordinators:
    from groupsdk.broker.coordinator.transactions.shard import TransactionCoordinatorShard
    from groupsdk.broker.transaction_markers import MarkerWriter

    config = cluster.config
    offsets = cluster.catalogue.topics.get(OFFSETS_TOPIC)
    if offsets is not None:
        # the count at creation, whatever the setting is now: a group's partition depends on it
        config = config.changed(offsets_topic_num_partitions=len(offsets.partitions))
    producer_ids = cluster.producer_ids
    starts = cluster.catalogue.next_number("transaction_coordinator_starts")

    def make(partition: int) -> CoordinatorShard:
        state = cluster.catalogue.topics[TRANSACTIONS_TOPIC].partitions[partition]
        # increases with every start and every move, so that markers of an earlier coordinator are rejected
        return TransactionCoordinatorShard(starts + state.leader_epoch, config, producer_ids)

    return Coordinators(cluster, TRANSACTIONS_TOPIC, make, MarkerWriter(cluster).write)


class CatalogueBlockStore:
    """Stores the next block of producer ids in the catalogue's store, as a `BlockStore`."""

    _KIND: Final = "producer_ids"
    _KEY: Final = "next"

    def __init__(self, store: Store) -> None:
        self._store = store
        self._next = self._stored()

    def _stored(self) -> Any:
        return next((value for _, _, value in self._store.facts(self._KIND)), None)

    def next_start(self) -> int:
        """Return the first id of the block to claim next."""
        return int(self._next or 0)

    def claim(self, start: int, following: int) -> bool:
        """Claim the ids from `start` up to `following`, exclusive, if they are still free. Return whether they were."""
        from groupsdk.broker.coordinator.transactions.producer_ids import BlockStoreError

        if start != self.next_start():
            return False
        try:
            taken = self._store.replace(self._KIND, self._KEY, self._next, following)
        except StoreError as error:
            raise BlockStoreError(str(error)) from error
        if not taken:
            self._next = self._stored()
            return False
        self._next = following
        return True
