"""Replay a group of a newer protocol, where each record is one change; a group epoch is a generation."""

from collections.abc import Generator, Iterator, Mapping
from dataclasses import replace
from typing import Any, Final

from groupsdk.history.explain.changes import Cause, Changes, compare, in_order
from groupsdk.history.explain.timeline.member import Member, Partitions, deviation
from groupsdk.history.explain.timeline.memberships import Handover, Incarnations, LastSeen
from groupsdk.history.explain.timeline.modern_protocols import (
    REGULAR_EXPRESSION,
    SHARED_PARTITIONS,
    TOPOLOGY,
    ModernProtocol,
    assigned_of,
    member_of,
    revoking_of,
    sources_of,
    spares_of,
    target_of,
)
from groupsdk.history.explain.timeline.rows import GenerationRow, GroupRecord, MemberRow, Row


TARGET: Final = "target"
CURRENT: Final = "current"
REVOKING: Final = "revoking"


class ModernGroup:
    """One group; memory is bounded by its members and their assignments.

    A group epoch is yielded when the next one begins: until then its members move towards their targets.
    """

    def __init__(
        self, family: ModernProtocol, incarnations: Incarnations, handed: Handover | None = None
    ) -> None:
        self._family = family
        self._incarnations = incarnations
        self._members: dict[str, Member] = {}
        self._before: dict[str, Member] = {}
        self._targets: dict[str, Partitions] = {}
        self._planned: dict[str, Partitions] | None = None
        self._current: dict[str, tuple[int, Partitions]] = {}
        self._answers: dict[str, tuple[int, int, Partitions]] = {}
        self._spares: dict[str, dict[str, Partitions]] = {}
        self._left: set[str] = set()
        self._replaceable: dict[str, Member] = {}
        self._came_back = False
        self._revoking: list[MemberRow] = []
        self._pending: GenerationRow | None = None
        self._settled = False
        self._row_before: GenerationRow | None = None
        self._changes = Changes()
        self._hash: int | None = None
        # of a share group: how many partitions can be assigned, as a state is kept for them
        self._shared = 0
        self._shared_before = 0
        # the topics that the members' patterns stand for
        self._matched: dict[str, frozenset[str]] = {}
        self._matched_before: dict[str, frozenset[str]] = {}
        self._given: set[str] = set()
        # of a streams group: what the parts of its topology read
        self._sources: dict[str, tuple[str, ...]] = {}
        self._known = False
        self._last_epoch = -1
        self._epoch_before = -1
        # the last classic generation is logged once more, as the first epoch
        self._converting = False
        if handed is not None:
            self._before = dict(handed.members)
            self._known = self._converting = True
            self._last_epoch = handed.generation
            self._row_before = handed.row

    def take(self, record: GroupRecord, record_type: int, key: Any, value: Any) -> Iterator[Row]:
        """Process the next record of the group, and yield the rows it completes; `value` is None for a tombstone."""
        family = self._family
        member_id: str = getattr(key, "member_id", "")
        if record_type == family.epoch:
            yield from self._next(record, value)
        elif record_type == family.member:
            yield from self._member(record, member_id, value)
        elif record_type == family.target:
            if value is None:
                self._targets.pop(member_id, None)
            else:
                self._targets[member_id] = target_of(value)
        elif record_type == family.target_epoch:
            # the targets of this epoch are complete; those of leaving members are removed before the next epoch
            if value is not None:
                self._planned = dict(self._targets)
        elif record_type == family.current:
            self._assigned(record, member_id, value)
        else:
            self._detail(record_type, key, value)

    def _detail(self, record_type: int, key: Any, value: Any) -> None:
        if record_type == SHARED_PARTITIONS:
            self._shared = sum(len(each.partitions) for each in value.initialized_topics)
        elif record_type == REGULAR_EXPRESSION:
            self._matched[key.regular_expression] = frozenset(value.topics)
        elif record_type == TOPOLOGY:
            self._sources = sources_of(value)

    def give_up(self) -> Generator[Row, Any, Handover | None]:
        """End the phase: the group is deleted, or continues under the classic protocol.

        The epoch does not rise when the last member of this protocol leaves, so that member is handed over as well.
        """
        yield from self.flush()
        if not self._before or self._row_before is None:
            return None
        seen = {member_id: self._last_seen(member_id) for member_id in self._before}
        return Handover(self._before, self._last_epoch, self._row_before, seen)

    def _next(self, record: GroupRecord, value: Any) -> Iterator[Row]:
        if self._is_same_epoch(value):
            self._hash = value.metadata_hash
            return
        yield from self.flush()
        self._replaceable.clear()
        members = dict(self._members)
        converting, self._converting = self._converting, False
        if converting and value.epoch == self._last_epoch and members.keys() <= self._before.keys():
            # the same generation under another protocol is not a rebalance
            self._hash = value.metadata_hash
            self._before = {**self._before, **members}
            self._settled = True
            return
        is_first = not self._known
        changes = compare(self._before, members, news=self._news(value))
        # members of these protocols cannot ask for a rebalance
        causes = tuple(cause for cause in changes.causes if cause != Cause.REJOIN)
        if self._came_back:
            causes = (*causes, Cause.STATIC_REPLACED)
            self._came_back = False
        if is_first:
            # before Kafka 4.3 the first epoch was 1
            causes = (Cause.JOIN,) if value.epoch in (1, 2) and members else ()
        self._hash = value.metadata_hash
        self._changes = changes
        self._settled = False
        self._pending = GenerationRow(
            group_id=record.group_id,
            protocol=self._family.name,
            protocol_type=self._family.name,
            incarnation=self._incarnations.incarnation,
            seq=self._incarnations.next_seq(),
            generation=value.epoch,
            ts_ms=record.ts_ms,
            state_ts_ms=-1,
            assignor=None,
            leader=None,
            n_members=len(members),
            n_partitions=0,
            joined=len(changes.joined),
            gone=len(changes.gone),
            changed=len(changes.resubscribed),
            causes=in_order(causes),
            missing_before=0 if is_first else max(0, value.epoch - self._last_epoch - 1),
            coordinator_changed=self._incarnations.moved(record),
            balance_stddev=0.0,
            is_empty=not members,
            converged_ms=-1,
            partition=record.partition,
            offset=record.offset,
            leader_epoch=record.leader_epoch,
        )
        self._before = members
        self._known = True
        self._epoch_before, self._last_epoch = self._last_epoch, value.epoch

    def _news(self, value: Any) -> Cause | None:
        """Return what is new about what the group reads."""
        # new partitions change this hash, and so do other topics
        is_other = self._hash is not None and value.metadata_hash != self._hash
        # a share group is assigned new partitions only after their state was made
        is_ready = self._shared > self._shared_before
        self._shared_before = self._shared
        matched, before = self._matched, self._matched_before
        self._matched_before = dict(matched)
        if is_other:
            return Cause.TOPIC_GROWTH
        if any(not before.get(each, names) <= names for each, names in matched.items()):
            # found with the next search: the topic itself has already begun an epoch
            return Cause.TOPIC_DELETED
        return Cause.WORK_CHANGE if is_ready else None

    def _is_same_epoch(self, value: Any) -> bool:
        """Return whether the epoch is written again, as Kafka 4.4 does when it stores a streams group's topology."""
        return (
            self._known
            and not self._converting
            and value.epoch == self._last_epoch
            and self._members.keys() == self._before.keys()
        )

    def _member(self, record: GroupRecord, member_id: str, value: Any) -> Iterator[Row]:
        if value is None:
            left = self._members.pop(member_id, None)
            if left is not None and left.instance_id and member_id in self._before:
                self._replaceable[left.instance_id] = left
            return
        member = self._members[member_id] = member_of(member_id, value)
        replaced = self._replaceable.pop(member.instance_id or "", None)
        if replaced is not None and member_id not in self._before:
            yield from self._take_place(record, replaced.member_id, member)

    def _take_place(self, record: GroupRecord, old: str, member: Member) -> Iterator[Row]:
        """Give a returning static member the assignment of its previous id, which alone begins no epoch, and its previous topics."""
        yield from self._settle()
        new = member.member_id
        before = self._before.pop(old)
        self._before[new] = replace(member, topics=before.topics)
        if self._planned is not None and old in self._planned:
            self._planned[new] = self._planned.pop(old)
        self._came_back = True
        changes = Changes((new,), (old,), {old: Cause.STATIC_REPLACED})
        pending = self._pending or self._row_before
        if pending is None:
            return
        yield from self._incarnations.memberships.update(
            self._assigned_now(), changes, pending.at(record)
        )

    def _assigned(self, record: GroupRecord, member_id: str, value: Any) -> None:
        pending = self._pending
        if value is None:
            # its assignment counts until the end of its last epoch
            self._left.add(member_id)
            return
        self._left.discard(member_id)
        assigned, revoking = assigned_of(value), revoking_of(value)
        self._current[member_id] = value.member_epoch, assigned
        self._spares[member_id] = spares_of(value)
        # written only in answer to its heartbeat
        self._answers[member_id] = record.ts_ms, value.member_epoch, (*assigned, *revoking)
        if pending is None:
            return
        if value.member_epoch == pending.generation:
            self._pending = pending._replace(converged_ms=record.ts_ms)
        if revoking and member_id in self._members:
            member = replace(self._members[member_id], assigned=revoking)
            self._revoking.append(pending.of_member(REVOKING, member))

    def _assigned_now(self) -> dict[str, Member]:
        targets = self._targets if self._planned is None else self._planned
        return {
            member_id: replace(member, assigned=targets.get(member_id, ()))
            for member_id, member in self._before.items()
        }

    def _settle(self) -> Iterator[Row]:
        """Update the memberships for the pending epoch; once."""
        row = self._pending
        if row is None or self._settled:
            return
        self._settled = True
        last_seen = {member_id: self._last_seen(member_id) for member_id in self._changes.gone}
        members = self._assigned_now()
        yield from self._incarnations.memberships.update(members, self._changes, row, last_seen)
        self._changes = Changes()

    def flush(self) -> Iterator[Row]:
        row = self._pending
        if row is None:
            return
        members = self._assigned_now()
        loads = [member.n_partitions for member in members.values()]
        offered = [each.assignor_offered for each in members.values() if each.assignor_offered]
        row = row._replace(
            causes=self._causes(row, members),
            n_partitions=sum(loads),
            balance_stddev=deviation(loads),
            assignor=offered[0] if offered else None,
        )
        yield row
        yield from self._settle()
        yield from self._incarnations.memberships.update(members, Changes(), row)
        self._pending, self._row_before = None, row
        for member_id, member in members.items():
            yield row.of_member(TARGET, member)
            epoch, assigned = self._current.get(member_id, (-1, ()))
            if epoch >= 0:
                yield row.of_member(CURRENT, replace(member, assigned=assigned))
            for phase, tasks in self._spares.get(member_id, {}).items():
                yield row.of_member(phase, replace(member, assigned=tasks))
        yield from self._revoking
        self._revoking = []
        self._planned = None
        for member_id in self._left:
            self._current.pop(member_id, None)
            self._spares.pop(member_id, None)
        self._left.clear()

    def _causes(self, row: GenerationRow, members: Mapping[str, Member]) -> tuple[Cause, ...]:
        """Tell a deleted topic from a grown one: both change what is known of topics, and only the plan shows which it was."""
        given = _topics(members)
        gone = self._given - given
        self._given = given
        if row.causes != (Cause.TOPIC_GROWTH,) or not gone or row.changed:
            return row.causes
        return (Cause.TOPIC_DELETED,)

    def _last_seen(self, member_id: str) -> LastSeen:
        if member_id not in self._answers:
            return LastSeen()
        at_ms, epoch, held = self._answers.pop(member_id)
        # another member may have owned and committed its target partitions until the end
        if self._sources:
            held = tuple((topic, n) for part, n in held for topic in self._sources.get(part, ()))
        return LastSeen(at_ms, epoch < self._epoch_before, held)


def _topics(members: Mapping[str, Member]) -> set[str]:
    return {topic for member in members.values() for topic, _ in member.assigned}
