"""Follow all groups through their records in the order of the log, one group after the other."""

from collections.abc import Iterable, Iterator
from typing import Any, Final

from groupsdk.errors import DecodeError
from groupsdk.history.groups.classic import GROUP_METADATA, ClassicGroup
from groupsdk.history.groups.families import BY_TYPE, topic_id_text
from groupsdk.history.groups.modern import ModernGroup
from groupsdk.history.groups.rows import GroupRecord, RejectRow, Row, TopicRow
from groupsdk.wire.coordinator_records.declaration import read_prefix
from groupsdk.wire.coordinator_records.offsets_log import KEYS, read_key, read_value


PARTITION_METADATA: Final = 4


def walk(records: Iterable[GroupRecord]) -> Iterator[Row]:
    """Follow the groups.

    Holds one group at a time, and of it one generation: a million groups take no more memory than one, and
    neither do a million generations. A record that cannot be decoded comes out as a `RejectRow`, and the
    group goes on without it.

    Args:
        records: those of a group together, in the order of the log. One that stands in twice, as from two
            copies of a segment, counts once.
    """
    group: _Group | None = None
    last: GroupRecord | None = None
    for record in records:
        if group is None or last is None or record.group_id != last.group_id:
            if group is not None:
                yield from group.close()
            group = _Group()
        elif (record.partition, record.offset) == (last.partition, last.offset):
            continue
        last = record
        yield from group.take(record)
    if group is not None:
        yield from group.close()


class _Group:
    """One group, which may change from one protocol to another (KIP-848's online migration)."""

    def __init__(self) -> None:
        self._classic = ClassicGroup()
        self._modern: dict[str, ModernGroup] = {}

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
        if record_type == GROUP_METADATA:
            yield from self._classic.take(record, value)
        elif record_type in BY_TYPE:
            family = BY_TYPE[record_type]
            if family.name not in self._modern:
                self._modern[family.name] = ModernGroup(family)
            member_id = getattr(key, "member_id", "")
            yield from self._modern[family.name].take(record, record_type, member_id, value)
        elif record_type == PARTITION_METADATA and value is not None:
            for topic in value.topics:
                yield TopicRow(topic_id_text(topic.topic_id), topic.topic_name)

    def close(self) -> Iterator[Row]:
        yield from self._classic.close()
        for modern in self._modern.values():
            yield from modern.close()

    @staticmethod
    def _reject(record: GroupRecord, record_type: int, reason: str) -> RejectRow:
        return RejectRow(record.group_id, record.partition, record.offset, record_type, reason)


KNOWN_TYPES: Final = frozenset(KEYS)
"""The record types that are understood; others are counted and passed over."""
