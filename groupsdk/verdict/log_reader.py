"""Read the records of some groups from `__consumer_offsets`, bounded in number."""

from collections.abc import Collection, Iterator, Mapping, Sequence
from typing import Final

from groupsdk.admin.cluster import EARLIEST, LATEST, ClusterClient
from groupsdk.admin.coordinator_log import OFFSETS_TOPIC, next_offset
from groupsdk.assignment import TopicPartition
from groupsdk.error_code import ErrorCode
from groupsdk.errors import BrokerError, DecodeError
from groupsdk.verdict.group_log import GroupLog, Leaders, group_of
from groupsdk.wire.coordinator_records.partitioner import partition_for
from groupsdk.wire.records.batch import batches, verify
from groupsdk.wire.records.record import Record, read_records


_FETCH_BYTES: Final = 4 * 1024 * 1024
_MOST: Final = 200_000
"""The most records of a partition that are read: its last ones."""


class GroupLogs:
    """The logs of some groups, whose records lie in the same or in different partitions of the offsets log.

    `since_ms`: from when on each group is read. `marks`: see `GroupLog`.
    """

    def __init__(self, since_ms: Mapping[str, int], marks: Sequence[int]) -> None:
        self._since_ms = since_ms
        self._marks = marks
        self._leaders = Leaders()
        self.found: dict[str, GroupLog] = {}
        """The groups whose partition has been read to its end."""

    async def read(self, client: ClusterClient) -> None:
        """Read the partitions of all groups, one after the other.

        Raises:
            BrokerError: the offsets log does not exist yet, or may not be read.
            NetworkError: one of its brokers cannot be reached.
        """
        described = (await client.metadata([OFFSETS_TOPIC])).topics.get(OFFSETS_TOPIC)
        if described is None or described.error_code:
            code = described.error_code if described else ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
            raise BrokerError(code, f"topic {OFFSETS_TOPIC}")
        by_partition: dict[int, list[str]] = {}
        for group_id in self._since_ms:
            number = partition_for(group_id, len(described.partitions))
            by_partition.setdefault(number, []).append(group_id)
        for number, group_ids in sorted(by_partition.items()):
            await self._read(client, TopicPartition(OFFSETS_TOPIC, number), group_ids)

    async def _read(
        self, client: ClusterClient, place: TopicPartition, group_ids: Collection[str]
    ) -> None:
        since_ms = min(self._since_ms[each] for each in group_ids)
        end = (await client.list_offsets({place: LATEST}))[place]
        first = (await client.list_offsets({place: since_ms}))[place]
        start = end if first < 0 else first
        if end - start > _MOST:
            start = max((await client.list_offsets({place: EARLIEST}))[place], end - _MOST)
            since_ms = -1
        logs: dict[bytes, GroupLog] = {}
        while start < end:
            data = await client.fetch(place, start, max_bytes=_FETCH_BYTES, max_wait_ms=0)
            records = data.records or b""
            if since_ms < 0:
                since_ms = _first_ms(records, since_ms)
            if not logs:
                logs = self._begin(group_ids, since_ms)
            self._hand_out(records, place.partition, start, logs)
            after = next_offset(records, start)
            if after == start:
                break  # compaction took what was there up to the end
            start = after
        logs = logs or self._begin(group_ids, since_ms)
        self.found |= {key.decode(): log for key, log in logs.items()}

    def _begin(self, group_ids: Collection[str], since_ms: int) -> dict[bytes, GroupLog]:
        return {
            each.encode(): GroupLog(each, since_ms, self._marks, self._leaders)
            for each in group_ids
        }

    def _hand_out(
        self, records: bytes, partition: int, start: int, logs: Mapping[bytes, GroupLog]
    ) -> None:
        for record, leader_epoch in records_from(records, start):
            self._leaders.take(record, partition, leader_epoch)
            log = logs.get(group_of(record.key or b""))
            if log is not None:
                log.take(record, partition, leader_epoch)


def _first_ms(records: bytes, otherwise: int) -> int:
    return next((header.max_timestamp for header, _ in batches(records)), otherwise)


def records_from(records: bytes, start: int) -> Iterator[tuple[Record, int]]:
    """Read the records of batches from an offset on, each with the epoch of the partition's leader."""
    for header, position in batches(records):
        if header.is_control:
            continue
        try:
            verify(records, header, position)
            found = list(read_records(records, position))
        except DecodeError:
            continue  # the others still tell something
        for record in found:
            if record.offset >= start:
                yield record, header.partition_leader_epoch
