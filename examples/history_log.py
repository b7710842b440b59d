"""Write a `__consumer_offsets` by hand: the records that Kafka's group coordinator would write, in its segment files."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from groupsdk.wire.consumer_protocol import (
    ConsumerProtocolAssignment,
    ConsumerProtocolEncoder,
    ConsumerProtocolSubscription,
)
from groupsdk.wire.coordinator_records.group_metadata import (
    GroupMetadataKey,
    GroupMetadataValue,
    MemberMetadata,
)
from groupsdk.wire.coordinator_records.offset_commit import (
    write_offset_key,
    write_offset_value,
)
from groupsdk.wire.coordinator_records.offsets_log import write
from groupsdk.wire.records.record import Record, build_batch


Shares = Mapping[str, Sequence[int]]
Pair = tuple[bytes, bytes | None]


@dataclass(frozen=True, slots=True)
class Seat:
    """A member of a generation."""

    client_id: str
    assigned: Shares = field(default_factory=dict[str, Sequence[int]])
    topics: Sequence[str] = ()
    """What it subscribes to; the topics that it is assigned unless given."""
    instance_id: str | None = None
    owned: Shares = field(default_factory=dict[str, Sequence[int]])
    host: str = "/10.0.0.1"
    session_timeout_ms: int = 45_000


def generation(
    group: str,
    number: int,
    members: Mapping[str, Seat],
    *,
    protocol: str = "range",
    ts_ms: int = 0,
    version: int | None = None,
) -> Pair:
    """Write the record of a generation of a classic group; without members the group is empty."""
    encoder = ConsumerProtocolEncoder()
    seats = tuple(
        MemberMetadata(
            member_id,
            seat.instance_id,
            seat.client_id,
            seat.host,
            300_000,
            seat.session_timeout_ms,
            encoder.subscription(
                ConsumerProtocolSubscription(
                    sorted(seat.topics or seat.assigned), owned_partitions=seat.owned
                )
            ),
            encoder.assignment(ConsumerProtocolAssignment(seat.assigned)),
        )
        for member_id, seat in members.items()
    )
    value = GroupMetadataValue(
        "consumer" if seats else "",
        number,
        protocol if seats else None,
        seats[0].member_id if seats else None,
        ts_ms,
        seats,
    )
    key, data = write(GroupMetadataKey(group), value, version)
    return key, data


def deletion(group: str) -> Pair:
    """Write the record that deletes a classic group."""
    return write(GroupMetadataKey(group), None)


def commit(group: str, topic: str, partition: int, offset: int, ts_ms: int = 0) -> Pair:
    """Write the record of a committed offset."""
    value = write_offset_value(offset, 0, "", ts_ms)
    return write_offset_key(group, topic, partition), value


class LogWriter:
    """Write a partition of `__consumer_offsets` as segment files.

    Use it with `with`, or close it: records are kept until there are enough for a batch.
    """

    def __init__(
        self,
        root: Path,
        partition: int = 0,
        *,
        compression: int = 0,
        batch_records: int = 10,
        segment_bytes: int = 100 * 1024 * 1024,
    ) -> None:
        self.folder = root / f"__consumer_offsets-{partition}"
        self.folder.mkdir(parents=True, exist_ok=True)
        self.offset = 0
        """Of the next record."""
        self.leader_epoch = 0
        """Grows when the partition gets another leader: the groups have another coordinator then."""
        self._compression = compression
        self._batch_records = batch_records
        self._segment_bytes = segment_bytes
        self._waiting: list[Record] = []
        self._size = 0
        self._file = (self.folder / f"{0:020}.log").open("wb")

    def __enter__(self) -> "LogWriter":
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def append(self, ts_ms: int, *pairs: Pair) -> None:
        """Write records, one after the other."""
        for key, value in pairs:
            self._waiting.append(Record(self.offset, ts_ms, key, value))
            self.offset += 1
        if len(self._waiting) >= self._batch_records:
            self.flush()

    def flush(self) -> None:
        """Write what waits as a batch."""
        if not self._waiting:
            return
        base = self._waiting[0].offset
        data = build_batch(self._waiting, base, self.leader_epoch, compression=self._compression)
        if self._size + len(data) > self._segment_bytes:
            self._file.close()
            self._file = (self.folder / f"{base:020}.log").open("wb")
            self._size = 0
        self._file.write(data)
        self._size += len(data)
        self._waiting = []

    def close(self) -> None:
        """Write what waits, and close the file."""
        self.flush()
        self._file.close()
