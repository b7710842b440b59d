"""Follow a group of the classic protocol: each record holds a whole generation."""

from collections.abc import Iterator
from typing import Final

from groupsdk.history.groups.causes import Cause, Changes, compare, in_order
from groupsdk.history.groups.loads import deviation
from groupsdk.history.groups.member import (
    CONSUMER,
    Member,
    Partitions,
    read_assignment,
    read_subscription,
)
from groupsdk.history.groups.rows import (
    GenerationRow,
    GroupRecord,
    MemberRow,
    RejectRow,
    Row,
)
from groupsdk.history.groups.stays import Stays
from groupsdk.wire.coordinator_records.group_metadata import GroupMetadataValue


CLASSIC: Final = "classic"
FINAL: Final = "final"
GROUP_METADATA: Final = 2
GROUP_DELETED: Final = "group_deleted"


class ClassicGroup:
    """One group; memory is bounded by its members and by what two generations of it hold.

    A generation is given when the next one comes, as its record may be written again: the last one counts.
    """

    def __init__(self) -> None:
        self._stays = Stays()
        self._pending: GenerationRow | None = None
        self._members: dict[str, Member] = {}
        self._before: dict[str, Member] = {}
        self._known = False
        self._changes = Changes()
        self._seen: dict[str, int] = {}
        self._incarnation = 0
        self._seq = 0
        self._last_generation = -1
        self._epoch = -1

    def take(self, record: GroupRecord, value: GroupMetadataValue | None) -> Iterator[Row]:
        """Take the next record of the group; gives what it completes."""
        if value is None:
            yield from self._deleted(record)
            return
        members = {each.member_id: each for each in members_of(value)}
        for member in members.values():
            if member.problem is not None:
                yield RejectRow(
                    *(record.group_id, record.partition, record.offset, GROUP_METADATA),
                    f"member {member.member_id}: {member.problem}",
                )
        pending = self._pending
        if pending is not None and pending.generation == value.generation:
            self._again(record, value, members)
            return
        yield from self._flush()
        self._next(record, value, members)

    def close(self) -> Iterator[Row]:
        """Give what is left at the end of the log."""
        yield from self._flush()
        yield from self._stays.open()

    def _next(
        self, record: GroupRecord, value: GroupMetadataValue, members: dict[str, Member]
    ) -> None:
        self._before, self._members = self._members, members
        is_first = not self._known
        missing = 0 if is_first else max(0, value.generation - self._last_generation - 1)
        causes, changes = self._compare(value)
        if is_first:
            causes = (Cause.CREATED,) if value.generation == 0 and not members else ()
            if value.generation == 1:
                causes = (Cause.JOIN,)
        elif missing:
            # what came between may have been undone again
            causes = tuple(cause for cause in causes if cause != Cause.REJOIN)
        if not is_first and not self._before and not members:
            # an empty group rebalances for somebody who comes, who was gone again before the record
            causes = (Cause.JOIN,)
        self._changes = changes
        self._pending = self._row(
            record, value, changes, causes, is_first, missing, self._moved(record)
        )
        self._seq += 1
        self._known = True
        self._last_generation = value.generation

    def _again(
        self, record: GroupRecord, value: GroupMetadataValue, members: dict[str, Member]
    ) -> None:
        """Take the same generation once more: a static member that came back takes over where it was."""
        pending = self._pending
        assert pending is not None
        within = compare(self._members, members)
        self._members = members
        causes, changes = self._compare(value)
        self._changes = changes
        # compared as a whole it has a member more and one less, so it takes the first record to tell a rejoin
        found = {*causes, *within.causes} - {Cause.REJOIN}
        causes = in_order(found | {*pending.causes})
        row = self._row(
            record,
            value,
            changes,
            causes,
            pending.is_first,
            pending.missing_before,
            self._moved(record) or pending.coordinator_changed,
        )
        # the generation began with its first record
        self._pending = row._replace(seq=pending.seq, ts_ms=pending.ts_ms)

    def _compare(self, value: GroupMetadataValue) -> tuple[tuple[Cause, ...], Changes]:
        grown = self._grown()
        cooperative = "cooperative" in (value.protocol or "")
        changes = compare(self._before, self._members, grown=grown, cooperative=cooperative)
        return changes.causes, changes

    def _grown(self) -> bool:
        """Note the partitions; tells whether a topic that was known, or at least wanted, has more of them."""
        grown = False
        wanted = {topic for member in self._before.values() for topic in member.topics}
        for member in self._members.values():
            for topic, numbers in member.assigned:
                seen, highest = self._seen.get(topic), numbers[-1] if numbers else -1
                if seen is None or highest > seen:
                    grown = grown or seen is not None or topic in wanted
                    self._seen[topic] = highest
        return grown

    def _moved(self, record: GroupRecord) -> bool:
        """Tell whether the partition's leader, which is the group's coordinator, changed since the last record."""
        moved = self._epoch >= 0 and record.leader_epoch > self._epoch
        self._epoch = max(self._epoch, record.leader_epoch)
        return moved

    def _row(
        self,
        record: GroupRecord,
        value: GroupMetadataValue,
        changes: Changes,
        causes: tuple[Cause, ...],
        is_first: bool,
        missing: int,
        moved: bool,
    ) -> GenerationRow:
        loads = [member.n_partitions for member in self._members.values()]
        return GenerationRow(
            record.group_id,
            CLASSIC,
            value.protocol_type,
            self._incarnation,
            self._seq,
            value.generation,
            record.ts_ms,
            value.current_state_timestamp,
            value.protocol,
            value.leader,
            len(loads),
            sum(loads),
            len(changes.joined),
            len(changes.gone),
            len(changes.resubscribed),
            causes,
            is_first,
            missing,
            moved,
            deviation(loads),
            not loads,
            record.ts_ms,
            record.partition,
            record.offset,
        )

    def _flush(self) -> Iterator[Row]:
        row, self._pending = self._pending, None
        if row is None:
            return
        yield row
        yield from self._stays.update(self._members, self._changes, row)
        for member in self._members.values():
            yield MemberRow(
                row.group_id,
                row.protocol,
                row.seq,
                row.generation,
                row.ts_ms,
                FINAL,
                member,
                row.partition,
                row.offset,
            )

    def _deleted(self, record: GroupRecord) -> Iterator[Row]:
        yield from self._flush()
        yield from self._stays.end(GROUP_DELETED, record.ts_ms)
        if self._known:
            self._incarnation += 1
        self._known = False
        self._members, self._before = {}, {}
        self._last_generation = -1
        self._seen.clear()
        self._moved(record)


def members_of(value: GroupMetadataValue) -> Iterator[Member]:
    """Take the members out of a generation's record."""
    is_consumer = value.protocol_type == CONSUMER
    for each in value.members:
        topics: tuple[str, ...] = ()
        owned: Partitions = ()
        assigned: Partitions = ()
        rack_id, problem = None, None
        if is_consumer:
            wants = read_subscription(each.subscription)
            topics, owned, rack_id = wants.topics, wants.owned, wants.rack_id
            assigned, problem = read_assignment(each.assignment)
            problem = wants.problem or problem
        timeout = each.rebalance_timeout
        yield Member(
            each.member_id,
            each.group_instance_id,
            each.client_id,
            each.client_host,
            each.session_timeout,
            each.session_timeout if timeout < 0 else timeout,
            topics,
            owned,
            assigned,
            rack_id,
            value.protocol,
            problem,
        )
