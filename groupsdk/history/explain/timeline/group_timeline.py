"""Replay the records of groups in log order into generations, members and memberships."""

from collections.abc import Generator, Iterable, Iterator
from typing import Any, Final, Protocol

from groupsdk.errors import DecodeError
from groupsdk.history.explain.timeline.classic import GROUP_METADATA, ClassicGroup
from groupsdk.history.explain.timeline.member import CLASSIC
from groupsdk.history.explain.timeline.memberships import Handover, Incarnations
from groupsdk.history.explain.timeline.modern import ModernGroup
from groupsdk.history.explain.timeline.modern_protocols import (
    DETAIL_TYPES,
    MODERN_PROTOCOLS,
    PROTOCOL_BY_RECORD_TYPE,
    ModernProtocol,
)
from groupsdk.history.explain.timeline.rows import GroupRecord, RejectRow, Row
from groupsdk.wire.coordinator_records.declaration import read_prefix
from groupsdk.wire.coordinator_records.offsets_log import KEYS, read_key, read_value


GROUP_DELETED: Final = "group_deleted"
"""The end reason of a membership whose group was deleted."""
_GROUP_TYPES: Final = frozenset({GROUP_METADATA, *(family.epoch for family in MODERN_PROTOCOLS)})
"""The record types whose tombstone ends a group, or its time under a protocol."""


class ProtocolPhase(Protocol):
    """A group while it uses one protocol."""

    def take(self, record: GroupRecord, record_type: int, key: Any, value: Any) -> Iterator[Row]:
        """Process the next record, tombstones of members included, and yield the rows it completes."""

    def give_up(self) -> Generator[Row, Any, Handover | None]:
        """End the phase: yield the remaining rows, and return the state for the next protocol (None without members)."""

    def flush(self) -> Iterable[Row]:
        """End the pending generation: its rows were held back until the next one begins."""


class GroupTimeline:
    """One group, which may change from one protocol to another (KIP-848's online migration)."""

    def __init__(self) -> None:
        self._incarnations = Incarnations()
        self._phase: ProtocolPhase | None = None
        self._protocol = ""
        # set by the tombstone of a group with members: it is deleted unless another protocol continues with them
        self._handed: Handover | None = None
        self._ended_ms = -1

    @property
    def generations(self) -> int:
        return self._incarnations.generations

    def take(self, record: GroupRecord) -> Iterator[Row]:
        record_type = -1
        try:
            data = record.key or b""
            record_type = read_prefix(data, "key")
            key: Any = read_key(data)
            if key is None:
                reason = f"record type {record_type} is not known"
                yield self._reject(record, record_type, reason)
                return
            value: Any = read_value(key, record.value)
        except DecodeError as error:
            yield self._reject(record, record_type, str(error))
            return
        if record_type == GROUP_METADATA or record_type in PROTOCOL_BY_RECORD_TYPE:
            yield from self._of_group(record, record_type, key, value)
        elif (
            self._phase is not None
            and value is not None
            and DETAIL_TYPES.get(record_type) == self._protocol
        ):
            yield from self._phase.take(record, record_type, key, value)

    def _of_group(
        self, record: GroupRecord, record_type: int, key: Any, value: Any
    ) -> Iterator[Row]:
        family = PROTOCOL_BY_RECORD_TYPE.get(record_type)
        protocol = CLASSIC if family is None else family.name
        if value is not None:
            yield from self._begin(protocol, family)
        phase = self._phase
        if phase is None or protocol != self._protocol:
            # tombstones of a phase that ended before
            return
        if value is None and record_type in _GROUP_TYPES:
            self._handed = yield from phase.give_up()
            self._phase, self._ended_ms = None, record.ts_ms
            if self._handed is None:
                yield from self._deleted()
            return
        yield from phase.take(record, record_type, key, value)

    def _begin(self, protocol: str, family: ModernProtocol | None) -> Iterator[Row]:
        """Begin a phase under a protocol, with the state that the previous phase handed over."""
        if self._phase is not None:
            if protocol == self._protocol:
                return
            # the log does not hold the end of the previous phase
            self._handed = yield from self._phase.give_up()
        elif self._handed is not None and protocol == self._protocol:
            yield from self._deleted()
        handed, self._handed = self._handed, None
        self._protocol = protocol
        self._phase = (
            ClassicGroup(self._incarnations, handed)
            if family is None
            else ModernGroup(family, self._incarnations, handed)
        )

    def _deleted(self) -> Iterator[Row]:
        self._handed = None
        self._incarnations.incarnation += 1
        yield from self._incarnations.memberships.end(GROUP_DELETED, self._ended_ms)

    def close(self) -> list[Row]:
        rows: list[Row] = []
        if self._phase is not None:
            rows += self._phase.flush()
        if self._handed is not None:
            rows += self._deleted()
        rows += self._incarnations.memberships.open()
        return rows

    @staticmethod
    def _reject(record: GroupRecord, record_type: int, reason: str) -> RejectRow:
        return RejectRow(record.group_id, record.partition, record.offset, record_type, reason)


KNOWN_TYPES: Final = frozenset(KEYS)
"""The record types that can be decoded; others are counted and skipped."""
