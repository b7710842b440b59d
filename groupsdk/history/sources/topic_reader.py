"""Read a topic from brokers without a group, so that reading writes nothing to the log that is read."""

import asyncio
from collections.abc import Awaitable, Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final, TypeVar

from groupsdk.admin.cluster import EARLIEST, LATEST, ClusterClient, Topic
from groupsdk.assignment import TopicPartition
from groupsdk.error_code import ErrorCode
from groupsdk.errors import BrokerError, ConfigError, DecodeError, GroupSdkError, broker_error
from groupsdk.history.explain.timeline.modern_protocols import topic_id_text
from groupsdk.history.read.batches import Records, read_batches
from groupsdk.wire.records.batch import batches


T = TypeVar("T")

CLIENT_ID: Final = "groupsdk-history"
FETCH_BYTES: Final = 8 * 1024 * 1024
"""How many bytes to fetch of a partition at once; a longer batch is returned whole."""
_MAX_WAIT_MS: Final = 500


@dataclass(frozen=True, slots=True)
class Span:
    """The offsets of a partition: from the first record to the end, exclusive."""

    start: int
    end: int


@dataclass(frozen=True, slots=True)
class Fetched:
    records: Records
    """Of whole batches: records before the requested offset may be included."""
    next_offset: int


class DataLossError(GroupSdkError):
    """Offsets to be read are no longer in the log."""


class TopicReader:
    """Reads topics of one cluster; for one thread at a time.

    Connections, TLS and SASL are those of a group's member, under the same settings (Kafka's configuration keys); nothing joins
    a group, commits, or writes in any other way.
    """

    def __init__(self, settings: Mapping[str, Any], *, timeout_s: float = 15.0) -> None:
        self._runner = asyncio.Runner()
        self._client = ClusterClient({"client.id": CLIENT_ID, **settings}, timeout_s=timeout_s)

    def __enter__(self) -> "TopicReader":
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        self._runner.run(self._client.close())
        self._runner.close()

    def partitions(self, topic: str) -> list[int]:
        return sorted(self._topics([topic])[topic].partitions)

    def cluster_id(self) -> str:
        """Return the id of the cluster; "" if the broker does not report it."""
        return self._runner.run(self._client.metadata()).cluster_id or ""

    def topic_ids(self) -> dict[str, str]:
        """Map the ids of all topics, as Kafka's tools print them, to names; empty with brokers older than topic ids (Kafka 2.8)."""
        found = self._topics(None).values()
        return {topic_id_text(each.topic_id): each.name for each in found if each.topic_id.int}

    def spans(self, topic: str, partitions: Sequence[int]) -> dict[int, Span]:
        """Return the first offsets of partitions, and their ends, without records of open transactions."""
        missing = set(partitions) - set(self.partitions(topic))
        if missing:
            raise ConfigError(f"{topic} has no partition {min(missing)}")
        starts, ends = (self._offsets(topic, partitions, each) for each in (EARLIEST, LATEST))
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
        place, offset = TopicPartition(topic, partition), start
        while offset < end:
            at = offset
            data = self._run(lambda: self._fetch(place, at, end, fetch_bytes))  # noqa: B023 - called at once
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
        return self._runner.run(self._client.persist(ask))

    def _topics(self, names: Sequence[str] | None) -> Mapping[str, Topic]:
        async def one() -> Mapping[str, Topic]:
            found = (await self._client.metadata(names)).topics
            for topic in found.values():
                if topic.error_code:
                    raise broker_error(topic.error_code, f"Metadata of topic {topic.name}")
            left_out = set(names or ()) - found.keys()
            if left_out:
                raise DecodeError(f"Metadata left out the topics {sorted(left_out)}")
            return found

        return self._run(one)

    def _offsets(self, topic: str, partitions: Sequence[int], timestamp: int) -> dict[int, int]:
        wanted = {TopicPartition(topic, each): timestamp for each in partitions}
        found = self._runner.run(self._client.list_offsets(wanted, committed=True))
        return {place.partition: offset for place, offset in found.items()}

    async def _fetch(self, place: TopicPartition, offset: int, end: int, fetch_bytes: int) -> bytes:
        """Fetch some batches; returns no bytes if the log has nothing more up to `end`."""
        where = f"Fetch of {place.topic}-{place.partition} from offset {offset}"
        try:
            found = await self._client.fetch(
                place, offset, max_bytes=fetch_bytes, max_wait_ms=_MAX_WAIT_MS, committed=True
            )
        except BrokerError as error:
            if error.error_code is ErrorCode.UNKNOWN_TOPIC_OR_PARTITION:
                raise ConfigError(f"{place.topic} has no partition {place.partition}") from error
            if error.error_code is not ErrorCode.OFFSET_OUT_OF_RANGE:
                raise
            begin = await self._client.list_offsets({place: EARLIEST})
            raise DataLossError(
                f"{where}: the log now begins at {begin[place]}; earlier records were deleted"
            ) from error
        if not found.records and found.last_stable_offset < end:
            # there was more: a leader that is new may not know it yet
            raise broker_error(ErrorCode.OFFSET_NOT_AVAILABLE, where)
        return found.records or b""


def _records(data: bytes, offset: int) -> Iterator[Fetched]:
    """Split fetched batches into records; batches that end before `offset` do not advance the next offset."""
    ends = {position + header.size_in_bytes: header for header, position in batches(data)}
    following = offset
    for records in read_batches(data):
        header = ends[records.end]
        following = max(following, header.last_offset + 1)
        yield Fetched(records, following)
