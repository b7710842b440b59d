"""A cluster client that finds brokers, leaders and coordinators, and retries transient errors."""

import asyncio
from collections.abc import Awaitable, Callable, Collection, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any, Final, Self, TypeVar
from uuid import UUID

from groupsdk.assignment import TopicPartition
from groupsdk.drivers.engine.connect import Connector
from groupsdk.drivers.engine.connection import Connection
from groupsdk.drivers.engine.refusals import FirstRequestRefusals, most_telling
from groupsdk.error_code import ErrorCode
from groupsdk.errors import (
    BrokerError,
    DecodeError,
    DisconnectedError,
    NetworkError,
    RequestTimeoutError,
    broker_error,
)
from groupsdk.settings.config import MemberConfig
from groupsdk.wire.messages.fetch import FetchPartition, FetchRequest, FetchTopic, PartitionData
from groupsdk.wire.messages.log_offsets import (
    ListOffsetsPartition,
    ListOffsetsRequest,
    ListOffsetsTopic,
)
from groupsdk.wire.messages.metadata import (
    FindCoordinatorRequest,
    MetadataRequest,
    MetadataRequestTopic,
    MetadataResponse,
)
from groupsdk.wire.schema import NO_UUID, Request, Response


R = TypeVar("R", bound=Response)
T = TypeVar("T")

CLIENT_ID: Final = "groupsdk-admin"
EARLIEST: Final = -2
LATEST: Final = -1
_BACKOFF_S: Final = 0.1
_MAX_BACKOFF_S: Final = 1.0
_FETCH_VERSION: Final = 12  # later versions identify topics by id
_LIST_OFFSETS_VERSION: Final = 7


@dataclass(frozen=True, slots=True)
class Broker:
    node_id: int
    host: str
    port: int
    rack: str | None = None


@dataclass(frozen=True, slots=True)
class Partition:
    leader: int
    """The leader's node id; -1 for none."""
    replicas: tuple[int, ...] = ()
    in_sync: tuple[int, ...] = ()
    error_code: int = 0


@dataclass(frozen=True, slots=True)
class Topic:
    name: str
    topic_id: UUID = NO_UUID
    is_internal: bool = False
    error_code: int = 0
    partitions: Mapping[int, Partition] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class ClusterMetadata:
    """The cluster as one of its brokers sees it."""

    cluster_id: str | None
    controller_id: int
    brokers: Mapping[int, Broker]
    topics: Mapping[str, Topic]


@dataclass(frozen=True, slots=True)
class Waiting:
    """What a client waits for that has asked something and has no usable answer yet."""

    for_s: float
    """How long the oldest request in progress has been waiting, in seconds, with its repetitions."""
    error: NetworkError | BrokerError | None
    """Why the last attempt of a request in progress failed; None if none has, so the broker is silent."""


class ClusterClient:
    """Sends requests to the brokers of one cluster. Belongs to one event loop; an async context manager.

    `settings` are Kafka's keys: "bootstrap.servers", and what connections need; after `timeout_s` of repeated failures an error is
    raised.
    """

    def __init__(self, settings: Mapping[str, Any], *, timeout_s: float = 15.0) -> None:
        # a member's settings require a group; this one is never joined
        self.config = MemberConfig.of({"client.id": CLIENT_ID, **settings, "group.id": CLIENT_ID})
        self.cluster_id: str | None = None
        """The cluster's id, as of the last answer with metadata."""
        self._timeout_s = timeout_s
        self._connector = Connector(self.config)
        self._refusals = FirstRequestRefusals(self.config.security)
        self._connections: dict[tuple[str, int], Connection] = {}
        self._opening: dict[tuple[str, int], asyncio.Lock] = {}
        self._brokers: dict[int, Broker] = {}
        self._leaders: dict[TopicPartition, int] = {}
        self._coordinators: dict[tuple[int, str], int] = {}
        self._asking: dict[object, float] = {}
        self._failed: dict[object, NetworkError | BrokerError] = {}

    @property
    def waiting(self) -> Waiting | None:
        """The state of the requests of `persist` that are in progress; None if there are none."""
        if not self._asking:
            return None
        now_s = asyncio.get_running_loop().time()
        error = next(reversed(self._failed.values()), None)
        return Waiting(now_s - min(self._asking.values()), error)

    async def __aenter__(self) -> Self:
        await self._connector.prepare()
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.close()

    async def close(self) -> None:
        await self._connector.close()

    async def persist(self, ask: Callable[[], Awaitable[T]]) -> T:
        """Call `ask` until it succeeds, retrying transient errors such as leader changes and broker restarts.

        Raises:
            AuthenticationError: TLS or SASL failed, or every broker closed the connection on the first request until time was up.
            GroupSdkError: the error is permanent, or was not resolved in time.
        """
        key = object()
        self._asking[key] = asyncio.get_running_loop().time()
        try:
            return await self._persist(key, ask)
        finally:
            del self._asking[key]
            self._failed.pop(key, None)

    async def _persist(self, key: object, ask: Callable[[], Awaitable[T]]) -> T:
        loop = asyncio.get_running_loop()
        until, backoff_s = loop.time() + self._timeout_s, _BACKOFF_S
        while True:
            try:
                return await ask()
            except (NetworkError, BrokerError) as error:
                self._failed[key] = error
                if not error.retriable or loop.time() + backoff_s > until:
                    # only now: the proxy of a container that starts closes connections in the same way
                    self._refusals.give_up(error)
                    raise
            self._leaders.clear()
            self._coordinators.clear()
            await asyncio.sleep(backoff_s)
            backoff_s = min(2 * backoff_s, _MAX_BACKOFF_S)

    async def metadata(self, topics: Collection[str] | None = ()) -> ClusterMetadata:
        """Look up the brokers and the named topics, or all topics if None."""
        wanted = None
        if topics is not None:
            wanted = tuple(MetadataRequestTopic(name=each) for each in topics)
        request = MetadataRequest(wanted, allow_auto_topic_creation=False)
        answer = await self.persist(lambda: self.ask_any(request))
        self._brokers = _brokers_of(answer)
        self.cluster_id = answer.cluster_id
        found = {}
        for topic in answer.topics:
            name = topic.name or ""
            partitions = {
                each.partition_index: Partition(
                    each.leader_id, each.replica_nodes, each.isr_nodes, each.error_code
                )
                for each in topic.partitions
            }
            for number, partition in partitions.items():
                self._leaders[TopicPartition(name, number)] = partition.leader
            found[name] = Topic(
                name, topic.topic_id, topic.is_internal, topic.error_code, partitions
            )
        return ClusterMetadata(answer.cluster_id, answer.controller_id, self._brokers, found)

    async def ask(self, node_id: int, request: Request[R], max_version: int | None = None) -> R:
        """Send a request to one broker, in the newest version up to `max_version` that both sides support.

        Raises NetworkError if the broker cannot be reached, does not answer in time, or is unknown.
        """
        return await self._ask(await self._address(node_id), request, max_version)

    async def newest_version(self, node_id: int, request: type[Request[Any]]) -> int:
        """Return the newest version of a request that both a broker and this client support, or raise UnsupportedVersionError."""
        connection = await self.connection(await self._address(node_id))
        return connection.versions.negotiate(request)

    async def ask_any(self, request: Request[R], max_version: int | None = None) -> R:
        """Send a request to any reachable broker, trying the bootstrap servers first."""
        errors: list[NetworkError] = []
        known = ((each.host, each.port) for each in self._brokers.values())
        for address in dict.fromkeys((*self.config.servers, *known)):
            try:
                return await self._ask(address, request, max_version)
            except NetworkError as error:
                errors.append(error)
        raise most_telling(errors)

    async def ask_all(self, request: Request[R], max_version: int | None = None) -> dict[int, R]:
        """Send a request to every broker concurrently; return the responses by node id. Raises NetworkError if one does not answer in time."""

        async def one(node_id: int) -> R:
            return await self.persist(lambda: self.ask(node_id, request, max_version))

        brokers = sorted((await self.metadata()).brokers)
        answers = await asyncio.gather(*(one(each) for each in brokers))
        return dict(zip(brokers, answers, strict=True))

    async def brokers(self) -> dict[int, Broker]:
        if not self._brokers:
            await self._learn_brokers()
        return dict(self._brokers)

    async def connection(self, address: tuple[str, int]) -> Connection:
        async with self._opening.setdefault(address, asyncio.Lock()):
            found = self._connections.get(address)
            if found is None or not found.usable:
                found = self._connections[address] = await self._connector.open(*address)
            return found

    async def coordinator(self, key: str, key_type: int = 0) -> int:
        """Return the node that coordinates a group (`key_type` 0) or a transactional id (1).

        Raises BrokerError if there is no coordinator, or the principal may not see it.
        """
        known = self._coordinators.get((key_type, key))
        if known is not None:
            return known
        answer = await self.ask_any(await self._one_coordinator(key, key_type))
        if answer.coordinators:
            found = answer.coordinators[0]
            code, node = found.error_code, Broker(found.node_id, found.host, found.port)
        else:
            code, node = answer.error_code, Broker(answer.node_id, answer.host, answer.port)
        if code:
            raise broker_error(code, f"FindCoordinator of {key!r}")
        self._brokers.setdefault(node.node_id, node)
        self._coordinators[key_type, key] = node.node_id
        return node.node_id

    async def ask_coordinator(
        self,
        group_id: str,
        request: Request[R],
        code_of: Callable[[R], int],
        max_version: int | None = None,
    ) -> R:
        """Send a request to the coordinator of a group, retrying if it has moved or is loading."""

        async def one() -> R:
            answer = await self.ask(await self.coordinator(group_id), request, max_version)
            code = code_of(answer)
            if code:
                name = type(request).__name__.removesuffix("Request")
                raise broker_error(code, f"{name} of group {group_id!r}")
            return answer

        return await self.persist(one)

    async def list_offsets(
        self, wanted: Mapping[TopicPartition, int], *, committed: bool = False
    ) -> dict[TopicPartition, int]:
        """Look up offsets of partitions: `LATEST`, `EARLIEST`, or the first one at or after a time in ms since 1970, -1 for none.

        With `committed` the latest is the first one of an open transaction.

        Raises BrokerError if a partition has no leader, does not exist or may not be read.
        """
        return await self.persist(lambda: self._list_offsets(wanted, int(committed)))

    async def fetch(
        self,
        partition: TopicPartition,
        offset: int,
        *,
        max_bytes: int,
        max_wait_ms: int,
        committed: bool = False,
    ) -> PartitionData:
        """Read batches of a partition, about `max_bytes` of them, but at least the first; none if no data arrived in time.

        With `committed` none from the first open transaction on.

        Raises BrokerError if the offset is out of range, or the partition may not be read.
        """
        request = FetchRequest(
            max_wait_ms=max_wait_ms,
            min_bytes=1,
            max_bytes=max_bytes,
            isolation_level=int(committed),
            topics=(
                FetchTopic(
                    partition.topic,
                    partitions=(
                        FetchPartition(
                            partition.partition, fetch_offset=offset, partition_max_bytes=max_bytes
                        ),
                    ),
                ),
            ),
        )

        async def one() -> PartitionData:
            leader = (await self._by_leader([partition])).popitem()[0]
            answer = await self.ask(leader, request, _FETCH_VERSION)
            where = f"Fetch of {partition.topic}-{partition.partition} from offset {offset}"
            if answer.error_code:
                raise broker_error(answer.error_code, where)
            for topic in answer.responses:
                for each in topic.partitions:
                    if (topic.topic, each.partition_index) == partition:
                        if each.error_code:
                            raise broker_error(each.error_code, where)
                        return each
            if answer.throttle_time_ms > 0:
                # where a quota is used up the answer is left empty
                raise broker_error(ErrorCode.THROTTLING_QUOTA_EXCEEDED, where)
            raise DecodeError(f"{where}: the answer has no such partition")

        return await self.persist(one)

    async def _learn_brokers(self) -> None:
        answer = await self.ask_any(MetadataRequest((), allow_auto_topic_creation=False))
        self._brokers = _brokers_of(answer)

    async def _address(self, node_id: int) -> tuple[str, int]:
        if node_id not in self._brokers:
            await self._learn_brokers()
        broker = self._brokers.get(node_id)
        if broker is None:
            raise broker_error(ErrorCode.BROKER_NOT_AVAILABLE, f"node {node_id}")
        return broker.host, broker.port

    async def _one_coordinator(self, key: str, key_type: int) -> FindCoordinatorRequest:
        """Fit the request to the brokers' version: one key, or from version 4 on a list of keys (KIP-699)."""
        for address in self.config.servers:
            try:
                connection = await self.connection(address)
            except NetworkError:
                continue
            if connection.versions.negotiate(FindCoordinatorRequest) < 4:
                return FindCoordinatorRequest(key=key, key_type=key_type)
            break
        return FindCoordinatorRequest(key_type=key_type, coordinator_keys=(key,))

    async def _ask(
        self, address: tuple[str, int], request: Request[R], max_version: int | None
    ) -> R:
        connection = await self.connection(address)
        version = connection.versions.negotiate(type(request))
        if max_version is not None:
            version = min(version, max_version)
        timeout_s = self.config.request_timeout_ms / 1000
        try:
            async with asyncio.timeout(timeout_s):
                answer = await connection.request(request, version)
        except TimeoutError as error:
            connection.close()
            raise RequestTimeoutError(
                f"{address[0]}:{address[1]} did not answer {type(request).__name__} within {timeout_s:g} s"
            ) from error
        except DisconnectedError as error:
            self._refusals.explain(error)
            raise
        self._refusals.answered()
        # the throttle time of a broker with a quota (KIP-219), if plausible
        throttle_ms: int = getattr(answer, "throttle_time_ms", 0)
        if throttle_ms > 0:
            await asyncio.sleep(min(throttle_ms / 1000, timeout_s))
        return answer

    async def _by_leader(
        self, partitions: Iterable[TopicPartition]
    ) -> dict[int, list[TopicPartition]]:
        partitions = list(partitions)
        unknown = {each.topic for each in partitions if self._leaders.get(each, -1) < 0}
        if unknown:
            await self.metadata(sorted(unknown))
        found: dict[int, list[TopicPartition]] = {}
        for each in partitions:
            leader = self._leaders.get(each)
            if leader is None:
                code = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
                raise BrokerError(code, f"{each.topic}-{each.partition}")
            if leader < 0:
                raise broker_error(ErrorCode.LEADER_NOT_AVAILABLE, f"{each.topic}-{each.partition}")
            found.setdefault(leader, []).append(each)
        return found

    async def _list_offsets(
        self, wanted: Mapping[TopicPartition, int], isolation_level: int
    ) -> dict[TopicPartition, int]:
        async def one(leader: int, partitions: list[TopicPartition]) -> dict[TopicPartition, int]:
            by_topic: dict[str, list[ListOffsetsPartition]] = {}
            for each in partitions:
                asked = ListOffsetsPartition(each.partition, timestamp=wanted[each])
                by_topic.setdefault(each.topic, []).append(asked)
            topics = tuple(ListOffsetsTopic(name, tuple(of)) for name, of in by_topic.items())
            answer = await self.ask(
                leader, ListOffsetsRequest(-1, isolation_level, topics), _LIST_OFFSETS_VERSION
            )
            offsets = {}
            for topic in answer.topics:
                for found in topic.partitions:
                    where = f"ListOffsets of {topic.name}-{found.partition_index}"
                    if found.error_code:
                        raise broker_error(found.error_code, where)
                    offsets[TopicPartition(topic.name, found.partition_index)] = found.offset
            if offsets.keys() != set(partitions):
                raise DecodeError("ListOffsets: the answer has other partitions than the question")
            return offsets

        by_leader = await self._by_leader(wanted)
        parts = await asyncio.gather(*(one(*each) for each in by_leader.items()))
        return {partition: offset for part in parts for partition, offset in part.items()}


def _brokers_of(answer: MetadataResponse) -> dict[int, Broker]:
    return {
        each.node_id: Broker(each.node_id, each.host, each.port, each.rack)
        for each in answer.brokers
    }
