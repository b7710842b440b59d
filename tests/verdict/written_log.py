"""Writes the records of one group, as a coordinator does, for what reads them."""

from abc import ABC, abstractmethod

from groupsdk.wire.coordinator_records.declaration import write_key, write_value
from groupsdk.wire.coordinator_records.group_metadata import (
    GroupMetadataKey,
    GroupMetadataValue,
    MemberMetadata,
)
from groupsdk.wire.coordinator_records.offset_commit import OffsetCommitKey, OffsetCommitValue
from groupsdk.wire.records.record import Record


START_MS = 1_800_000_000_000


class WrittenLog(ABC):
    """Writes the records of the group "g", one after the other, at times after `START_MS`."""

    def __init__(self) -> None:
        self._offset = 0

    @abstractmethod
    def take(self, record: Record) -> None: ...

    def _write(self, after_ms: int, key: bytes, value: bytes | None) -> None:
        self.take(Record(self._offset, START_MS + after_ms, key, value))
        self._offset += 1

    def commit(self, after_ms: int, offset: int, partition: int = 0) -> None:
        key = OffsetCommitKey("g", "orders", partition)
        value = OffsetCommitValue(offset=offset, commit_timestamp=START_MS + after_ms)
        self._write(after_ms, write_key(key), write_value(value, 4))

    def remove(self, after_ms: int) -> None:
        self._write(after_ms, write_key(OffsetCommitKey("g", "orders", 0)), None)

    def generation(self, after_ms: int, number: int, *names: str, again: bool = False) -> None:
        """Write a generation of clients with these names; `again`: they have new member ids."""
        members = tuple(
            MemberMetadata(
                member_id=f"{each}-{1 + again}",
                client_id=each,
                client_host="/10.0.0.1",
                session_timeout=45_000,
                rebalance_timeout=300_000,
            )
            for each in names
        )
        value = GroupMetadataValue(
            protocol_type="consumer",
            generation=number,
            protocol="range" if members else None,
            leader=members[0].member_id if members else None,
            members=members,
        )
        self._write(after_ms, write_key(GroupMetadataKey("g")), write_value(value, 3))

    def delete(self, after_ms: int) -> None:
        self._write(after_ms, write_key(GroupMetadataKey("g")), None)
