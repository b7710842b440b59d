"""Read a topic from brokers without a group, so that reading writes nothing to the log that is read."""

import asyncio
from collections import defaultdict
from collections.abc import Awaitable, Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from types import TracebackType
from typing import Any, Final, TypeVar

from groupsdk.drivers.engine.connect import Connector
from groupsdk.drivers.engine.connection import Connection
from groupsdk.drivers.engine.refusals import FirstRequestRefusals, most_telling
from groupsdk.error_code import ErrorCode
from groupsdk.errors import (
    BrokerError,
    ConfigError,
    DecodeError,
    DisconnectedError,
    GroupSdkError,
    NetworkError,
    broker_error,
)
from groupsdk.history.explain.timeline.modern_protocols import topic_id_text
from groupsdk.history.read.batches import Records, read_batches
from groupsdk.settings.config import MemberConfig
from groupsdk.wire.messages.fetch import FetchPartition, FetchRequest, FetchTopic, PartitionData
from groupsdk.wire.messages.log_offsets import (
    ListOffsetsPartition,
    ListOffsetsRequest,
    ListOffsetsTopic,
)
from groupsdk.wire.messages.metadata import (
    MetadataRequest,
    MetadataRequestTopic,
    MetadataResponseTopic,
)
from groupsdk.wire.records.batch import batches
from groupsdk.wire.schema import Request, Response


R = TypeVar("R", bound=Response)
T = TypeVar("T")

CLIENT_ID: Final = "groupsdk-history"
FETCH_BYTES: Final = 8 * 1024 * 1024
"""How many bytes to fetch of a partition at once; a longer batch is returned whole."""
ATTEMPTS: Final = 8
"""How often a request is tried before its error is raised: leaders change, brokers restart."""
BACKOFF_S: Final = 0.25
_MAX_WAIT_MS: Final = 500
_COMMITTED: Final = 1  # the isolation level: up to the first transaction that is still open
_EARLIEST: Final = -2
_LATEST: Final = -1
# later ones name topics by their ids
_FETCH_VERSION: Final = 12
_METADATA_VERSION: Final = 12
_LIST_OFFSETS_VERSION: Final = 7


@dataclass(frozen=True, slots=True)
class Span:
    """The offsets of a partition: from the first record to the end, exclusive."""

    start: int
    end: int


@dataclass(frozen=True, slots=True)
class Fetched:
    records: Records
    base_offset: int
    """The offset of the first batch: batches are whole, so records before the requested offset may be included."""
    next_offset: int


class DataLossError(GroupSdkError):
    """Offsets to be read are no longer in the log."""


class TopicReader:
    """Reads topics of one cluster; for one thread at a time.

    Connections, TLS and SASL are those of a group's member, under the same settings (Kafka's configuration keys); nothing joins
    a group, commits, or writes in any other way.
    """

    def __init__(self, settings: Mapping[str, Any]) -> None:
        given = {"client.id": CLIENT_ID, **settings}
        # a member's settings need a group id; this group is never joined
        self._config = MemberConfig.of({**given, "group.id": CLIENT_ID})
        self._runner = asyncio.Runner()
        self._connector = Connector(self._config)
        self._refusals = FirstRequestRefusals(self._config.security)
        self._connections: dict[tuple[str, int], Connection] = {}
        self._brokers: dict[int, tuple[str, int]] = {}
        self._leaders: dict[tuple[str, int], int] = {}

    def __enter__(self) -> "TopicReader":
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.close()

    def close(self) -> None:
        self._runner.run(self._connector.close())
        self._runner.close()

    def partitions(self, topic: str) -> list[int]:
        found = self._run(lambda: self._metadata([topic]))
        return sorted(each.partition_index for each in found[0].partitions)

    def cluster_id(self) -> str:
        """Return the id of the cluster; "" if the broker does not report it."""
        request = MetadataRequest((), allow_auto_topic_creation=False)
        answer = self._run(lambda: self._ask_any(request, _METADATA_VERSION))
        return answer.cluster_id or ""

    def topic_ids(self) -> dict[str, str]:
        """Map the ids of all topics, as Kafka's tools print them, to names; empty with brokers older than topic ids (Kafka 2.8)."""
        found = self._run(lambda: self._metadata(None))
        return {
            topic_id_text(each.topic_id): each.name or "" for each in found if each.topic_id.int
        }

    def spans(self, topic: str, partitions: Sequence[int]) -> dict[int, Span]:
        """Return the first offsets of partitions, and their ends, without records of open transactions."""
        starts = self._run(lambda: self._offsets(topic, partitions, _EARLIEST))
        ends = self._run(lambda: self._offsets(topic, partitions, _LATEST))
        return {each: Span(starts[each], max(starts[each], ends[each])) for each in partitions}

    def read(
        self, topic: str, partition: int, start: int, end: int, *, fetch_bytes: int = FETCH_BYTES
    ) -> Iterator[Fetched]:
        """Read a partition from `start` up to `end`.

        Raises:
            DataLossError: the log no longer has `start`.
            DecodeError: a broker sent bytes that are not record batches, or other batches than requested.
            BrokerError: reading the partition is not allowed, or it stays unavailable.
            NetworkError: its broker cannot be reached.
        """
        offset = start
        while offset < end:
            at = offset
            data = self._run(lambda: self._fetch(topic, partition, at, end, fetch_bytes))  # noqa: B023 - called at once
            if not data:
                # compaction took what was there up to the end
                return
            following = offset
            for found in _records(data, offset):
                following = max(following, found.next_offset)
                yield found
            if following == offset:
                raise DecodeError(
                    f"Fetch of {topic}-{partition}: {len(data)} bytes hold nothing from offset {offset} on"
                )
            offset = following

    def _run(self, ask: Callable[[], Awaitable[T]]) -> T:
        return self._runner.run(self._persist(ask))

    async def _persist(self, ask: Callable[[], Awaitable[T]]) -> T:
        """Retry retriable errors; a leader that has changed is looked up again."""
        for attempt in range(ATTEMPTS):
            try:
                return await ask()
            except (NetworkError, BrokerError) as error:
                lasting = isinstance(error, BrokerError) and not error.retriable
                if lasting or attempt == ATTEMPTS - 1:
                    self._refusals.give_up(error)
                    raise
                self._leaders.clear()
                await asyncio.sleep(BACKOFF_S * 2 ** min(attempt, 4))
        raise AssertionError("the last attempt returns or raises")

    async def _connection(self, address: tuple[str, int]) -> Connection:
        connection = self._connections.get(address)
        if connection is None or not connection.usable:
            connection = self._connections[address] = await self._connector.open(*address)
        return connection

    async def _ask(self, address: tuple[str, int], request: Request[R], version: int) -> R:
        connection = await self._connection(address)
        newest = connection.versions.negotiate(type(request))
        timeout_s = self._config.request_timeout_ms / 1000
        try:
            async with asyncio.timeout(timeout_s):
                answer = await connection.request(request, min(version, newest))
        except TimeoutError as error:
            connection.close()
            raise NetworkError(
                f"{address[0]}:{address[1]} did not answer {type(request).__name__} within {timeout_s:g} s"
            ) from error
        except DisconnectedError as error:
            self._refusals.explain(error)
            raise
        self._refusals.answered()
        # the throttle time of a broker with a quota (KIP-219), if plausible
        throttle_ms: int = getattr(answer, "throttle_time_ms", 0)
        await asyncio.sleep(min(max(throttle_ms / 1000, 0), timeout_s))
        return answer

    async def _metadata(self, topics: Sequence[str] | None) -> list[MetadataResponseTopic]:
        wanted = None
        if topics is not None:
            wanted = tuple(MetadataRequestTopic(name=topic) for topic in topics)
        request = MetadataRequest(wanted, allow_auto_topic_creation=False)
        answer = await self._ask_any(request, _METADATA_VERSION)
        self._brokers = {each.node_id: (each.host, each.port) for each in answer.brokers}
        for topic in answer.topics:
            if topic.error_code:
                raise broker_error(topic.error_code, f"Metadata of topic {topic.name}")
            for each in topic.partitions:
                self._leaders[topic.name or "", each.partition_index] = each.leader_id
        return list(answer.topics)

    async def _ask_any(self, request: Request[R], version: int) -> R:
        """Send a request to any reachable broker: first the bootstrap servers, then those learned since."""
        errors: list[NetworkError] = []
        for address in (*self._config.servers, *self._brokers.values()):
            try:
                return await self._ask(address, request, version)
            except NetworkError as error:
                errors.append(error)
        raise most_telling(errors)

    async def _leader(self, topic: str, partition: int) -> tuple[str, int]:
        if (topic, partition) not in self._leaders:
            await self._metadata([topic])
        leader = self._leaders.get((topic, partition))
        if leader is None:
            raise ConfigError(f"{topic} has no partition {partition}")
        address = self._brokers.get(leader)
        if address is None:
            # LEADER_NOT_AVAILABLE
            raise broker_error(5, f"Metadata of {topic}-{partition}")
        return address

    async def _offsets(
        self, topic: str, partitions: Sequence[int], timestamp: int
    ) -> dict[int, int]:
        by_leader: defaultdict[tuple[str, int], list[int]] = defaultdict(list)
        for partition in partitions:
            by_leader[await self._leader(topic, partition)].append(partition)
        found: dict[int, int] = {}
        for address, mine in by_leader.items():
            asked = tuple(ListOffsetsPartition(each, timestamp=timestamp) for each in mine)
            request = ListOffsetsRequest(-1, _COMMITTED, (ListOffsetsTopic(topic, asked),))
            answer = await self._ask(address, request, _LIST_OFFSETS_VERSION)
            for each in answer.topics[0].partitions if answer.topics else ():
                if each.error_code:
                    raise broker_error(
                        each.error_code, f"ListOffsets of {topic}-{each.partition_index}"
                    )
                found[each.partition_index] = each.offset
        missing = set(partitions) - found.keys()
        if missing:
            raise DecodeError(f"ListOffsets of {topic} left out the partitions {sorted(missing)}")
        return found

    async def _fetch(
        self, topic: str, partition: int, offset: int, end: int, fetch_bytes: int
    ) -> bytes:
        """Fetch some batches; returns no bytes if the log has nothing more up to `end`."""
        address = await self._leader(topic, partition)
        part = FetchPartition(partition, fetch_offset=offset, partition_max_bytes=fetch_bytes)
        request = FetchRequest(
            max_wait_ms=_MAX_WAIT_MS,
            min_bytes=1,
            max_bytes=fetch_bytes,
            isolation_level=_COMMITTED,
            topics=(FetchTopic(topic, partitions=(part,)),),
        )
        answer = await self._ask(address, request, _FETCH_VERSION)
        where = f"Fetch of {topic}-{partition} from offset {offset}"
        if answer.error_code:
            raise broker_error(answer.error_code, where)
        found = [
            data
            for each in answer.responses
            if each.topic == topic
            for data in each.partitions
            if data.partition_index == partition
        ]
        if not found and answer.throttle_time_ms > 0:
            # where a quota is used up the answer is left empty
            raise broker_error(ErrorCode.THROTTLING_QUOTA_EXCEEDED, where)
        if not found:
            raise DecodeError(f"{where}: the answer has no such partition")
        _check(found[0], where)
        if not found[0].records and found[0].last_stable_offset < end:
            # there was more: a leader that is new may not know it yet
            raise broker_error(ErrorCode.OFFSET_NOT_AVAILABLE, where)
        return found[0].records or b""


def _check(data: PartitionData, where: str) -> None:
    if data.error_code == 1:  # OFFSET_OUT_OF_RANGE
        raise DataLossError(
            f"{where}: the log now begins at {data.log_start_offset}; earlier records were deleted"
        )
    if data.error_code:
        raise broker_error(data.error_code, where)


def _records(data: bytes, offset: int) -> Iterator[Fetched]:
    """Split fetched batches into records; batches that end before `offset` do not advance the next offset."""
    ends = {position + header.size_in_bytes: header for header, position in batches(data)}
    following = offset
    for records in read_batches(data):
        header = ends[records.end]
        following = max(following, header.last_offset + 1)
        yield Fetched(records, header.base_offset, following)
