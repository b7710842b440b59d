"""Follow a group of a newer protocol, of which each record tells one change; a group epoch is a generation."""

from collections.abc import Iterator
from dataclasses import replace
from typing import Any, Final

from groupsdk.history.groups.causes import Cause, Changes, compare, in_order
from groupsdk.history.groups.classic import GROUP_DELETED
from groupsdk.history.groups.families import (
    Family,
    assigned_of,
    member_of,
    revoking_of,
    target_of,
)
from groupsdk.history.groups.loads import deviation
from groupsdk.history.groups.member import Member, Partitions
from groupsdk.history.groups.rows import GenerationRow, GroupRecord, MemberRow, Row
from groupsdk.history.groups.stays import LastSeen, Stays


TARGET: Final = "target"
CURRENT: Final = "current"
REVOKING: Final = "revoking"


class ModernGroup:
    """One group; memory is bounded by its members and what they are assigned.

    A group epoch is given when the next one begins: until then its members go towards their targets.
    """

    def __init__(self, family: Family) -> None:
        self._family = family
        self._stays = Stays()
        self._members: dict[str, Member] = {}
        self._before: dict[str, Member] = {}
        self._targets: dict[str, Partitions] = {}
        self._planned: dict[str, Partitions] | None = None
        self._current: dict[str, tuple[int, Partitions]] = {}
        self._answers: dict[str, tuple[int, int, Partitions]] = {}
        self._left: set[str] = set()
        self._revoking: list[MemberRow] = []
        self._pending: GenerationRow | None = None
        self._changes = Changes()
        self._hash: int | None = None
        self._incarnation = 0
        self._seq = 0
        self._known = False
        self._last_epoch = -1
        self._epoch_before = -1
        self._leader_epoch = -1

    def take(
        self, record: GroupRecord, record_type: int, member_id: str, value: Any
    ) -> Iterator[Row]:
        """Take the next record of the group; gives what it completes.

        Args:
            record: where it stands in the log.
            record_type: one of the family's.
            member_id: of the key; "" where it has none.
            value: None for a tombstone.
        """
        family = self._family
        if record_type == family.epoch:
            if value is None:
                yield from self._deleted(record)
            else:
                yield from self._next(record, value)
        elif record_type == family.member:
            if value is None:
                self._members.pop(member_id, None)
            else:
                self._members[member_id] = member_of(member_id, value)
        elif record_type == family.target:
            if value is None:
                self._targets.pop(member_id, None)
            else:
                self._targets[member_id] = target_of(value)
        elif record_type == family.target_epoch:
            # the targets of this epoch are complete; those of members that leave go before the next epoch comes
            self._planned = dict(self._targets)
        elif record_type == family.current:
            self._assigned(record, member_id, value)

    def close(self) -> Iterator[Row]:
        """Give what is left at the end of the log."""
        yield from self._flush()
        yield from self._stays.open()

    def _next(self, record: GroupRecord, value: Any) -> Iterator[Row]:
        yield from self._flush()
        moved = self._leader_epoch >= 0 and record.leader_epoch > self._leader_epoch
        self._leader_epoch = max(self._leader_epoch, record.leader_epoch)
        is_first = not self._known
        members = dict(self._members)
        # topics that got other partitions change this hash; other topics do so too
        grown = self._hash is not None and value.metadata_hash != self._hash
        changes = compare(self._before, members, grown=grown)
        # members of these protocols cannot ask for a rebalance
        causes = tuple(cause for cause in changes.causes if cause != Cause.REJOIN)
        if is_first:
            # before Kafka 4.3 the first epoch was 1
            causes = (Cause.JOIN,) if value.epoch in (1, 2) and members else ()
        self._hash = value.metadata_hash
        self._changes = changes
        self._pending = GenerationRow(
            record.group_id,
            self._family.name,
            self._family.name,
            self._incarnation,
            self._seq,
            value.epoch,
            record.ts_ms,
            -1,
            None,
            None,
            len(members),
            0,
            len(changes.joined),
            len(changes.gone),
            len(changes.resubscribed),
            in_order(causes),
            is_first,
            0 if is_first else max(0, value.epoch - self._last_epoch - 1),
            moved,
            0.0,
            not members,
            -1,
            record.partition,
            record.offset,
        )
        self._before = members
        self._seq += 1
        self._known = True
        self._epoch_before, self._last_epoch = self._last_epoch, value.epoch

    def _assigned(self, record: GroupRecord, member_id: str, value: Any) -> None:
        pending = self._pending
        if value is None:
            # what it had counts until the epoch is over that it was in
            self._left.add(member_id)
            return
        self._left.discard(member_id)
        assigned, revoking = assigned_of(value), revoking_of(value)
        self._current[member_id] = value.member_epoch, assigned
        # written as an answer to its heartbeat, and at no other time
        self._answers[member_id] = record.ts_ms, value.member_epoch, (*assigned, *revoking)
        if pending is None:
            return
        if value.member_epoch == pending.generation:
            self._pending = pending._replace(converged_ms=record.ts_ms)
        if revoking and member_id in self._members:
            member = replace(self._members[member_id], assigned=revoking)
            self._revoking.append(self._member_row(pending, REVOKING, member))

    def _flush(self) -> Iterator[Row]:
        row, self._pending = self._pending, None
        if row is None:
            return
        targets = self._targets if self._planned is None else self._planned
        members = {
            member_id: replace(member, assigned=targets.get(member_id, ()))
            for member_id, member in self._before.items()
        }
        loads = [member.n_partitions for member in members.values()]
        offered = [each.assignor_offered for each in members.values() if each.assignor_offered]
        row = row._replace(
            n_partitions=sum(loads),
            balance_stddev=deviation(loads),
            assignor=offered[0] if offered else None,
        )
        yield row
        last_seen = {member_id: self._last_seen(member_id) for member_id in self._changes.gone}
        yield from self._stays.update(members, self._changes, row, last_seen)
        for member_id, member in members.items():
            yield self._member_row(row, TARGET, member)
            epoch, assigned = self._current.get(member_id, (-1, ()))
            if epoch >= 0:
                yield self._member_row(row, CURRENT, replace(member, assigned=assigned))
        yield from self._revoking
        self._revoking = []
        self._planned = None
        for member_id in self._left:
            self._current.pop(member_id, None)
        self._left.clear()

    def _last_seen(self, member_id: str) -> LastSeen:
        if member_id not in self._answers:
            return LastSeen()
        at_ms, epoch, held = self._answers.pop(member_id)
        # what it was to get may have been another's until the end, who committed it
        return LastSeen(at_ms, epoch < self._epoch_before, held)

    def _member_row(self, row: GenerationRow, phase: str, member: Member) -> MemberRow:
        return MemberRow(
            row.group_id,
            row.protocol,
            row.seq,
            row.generation,
            row.ts_ms,
            phase,
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
        self._hash = None
        self._last_epoch = -1
        for each in (self._members, self._before, self._targets, self._current, self._answers):
            each.clear()
