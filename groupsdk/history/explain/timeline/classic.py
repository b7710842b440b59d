"""Replay a group of the classic protocol: each record holds a whole generation."""

from collections.abc import Generator, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any, Final

from groupsdk.history.explain.changes import (
    Cause,
    Changes,
    compare,
    deleted_topics,
    in_order,
    lost_work,
    withheld,
)
from groupsdk.history.explain.timeline.member import (
    CLASSIC,
    CONSUMER,
    STREAMS_ASSIGNOR,
    Member,
    Partitions,
    deviation,
    read_assignment,
    read_subscription,
)
from groupsdk.history.explain.timeline.memberships import Handover, Incarnations, LastSeen
from groupsdk.history.explain.timeline.rows import GenerationRow, GroupRecord, RejectRow, Row
from groupsdk.history.explain.timeline.worker_protocols import (
    CONNECT,
    COOPERATIVE_CONNECT,
    SHARDS,
    Payload,
    sends_subscription,
    work_of,
)
from groupsdk.limits import MAX_INT64
from groupsdk.wire.coordinator_records.group_metadata import GroupMetadataValue, MemberMetadata


FINAL: Final = "final"
GROUP_METADATA: Final = 2


class ClassicGroup:
    """One group; memory is bounded by two generations of its members.

    A generation is yielded when the next one begins, as its record may be written again: the last one counts.
    """

    def __init__(self, incarnations: Incarnations, handed: Handover | None = None) -> None:
        self._incarnations = incarnations
        self._pending: GenerationRow | None = None
        self._settled = False
        self._row_before: GenerationRow | None = None
        self._members: dict[str, Member] = {}
        self._before: dict[str, Member] = {}
        self._known = False
        self._decoded: Mapping[str, tuple[MemberMetadata, Member]] = {}
        self._kind: tuple[str, str | None] = "", None
        self._protocol_type = ""
        self._changes = Changes()
        self._last_seen: Mapping[str, LastSeen] = {}
        self._seen: dict[str, int] = {}
        self._last_generation = -1
        # the last generation of the newer protocol is logged once more, as a classic one
        self._converting = False
        if handed is not None:
            self._members = dict(handed.members)
            self._known = self._converting = True
            self._last_generation = handed.generation
            self._last_seen = handed.last_seen
            self._row_before = handed.row

    def give_up(self) -> Generator[Row, Any, Handover | None]:
        """End the phase: the group is deleted, or continues under a newer protocol."""
        yield from self.flush()
        if not self._members or self._row_before is None:
            return None
        return Handover(self._members, self._last_generation, self._row_before, {})

    def take(
        self, record: GroupRecord, record_type: int, key: Any, value: GroupMetadataValue
    ) -> Iterator[Row]:
        members = self._decode(value)
        for member in members.values():
            if member.problem is not None:
                yield RejectRow(
                    *(record.group_id, record.partition, record.offset, record_type),
                    f"member {member.member_id}: {member.problem}",
                )
        pending = self._pending
        if pending is not None and pending.generation == value.generation:
            yield from self._again(record, value, members)
            return
        yield from self.flush()
        converting, self._converting = self._converting, False
        if converting and self._last_generation == value.generation:
            yield from self._converted(record, members)
        else:
            self._next(record, value, members)

    def _decode(self, value: GroupMetadataValue) -> dict[str, Member]:
        """Decode the members; one whose data did not change since the last record is the same object."""
        kind = value.protocol_type, value.protocol
        before = self._decoded if kind == self._kind else {}
        decoded: dict[str, tuple[MemberMetadata, Member]] = {}
        for each in value.members:
            last = before.get(each.member_id)
            if last is None or last[0] != each:
                last = each, member_of(each, value)
            decoded[each.member_id] = last
        self._decoded, self._kind = decoded, kind
        return {member_id: member for member_id, (_, member) in decoded.items()}

    def _next(
        self, record: GroupRecord, value: GroupMetadataValue, members: dict[str, Member]
    ) -> None:
        self._before, self._members = self._members, members
        self._protocol_type = value.protocol_type
        is_first = not self._known
        missing = 0 if is_first else max(0, value.generation - self._last_generation - 1)
        causes, changes = self._compare(value)
        if is_first:
            causes = (Cause.CREATED,) if value.generation == 0 and not members else ()
            if value.generation == 1:
                causes = (Cause.JOIN,)
        elif missing:
            # changes in the missing generations may have been reversed
            causes = tuple(cause for cause in causes if cause != Cause.REJOIN)
        if not is_first and not self._before and not members:
            # an empty group rebalances because of a member that joined and was gone before the record
            causes = (Cause.JOIN,)
        self._changes = changes
        self._settled = False
        self._pending = self._row(record, value, changes, causes, missing)
        self._known = True
        self._last_generation = value.generation

    def _again(
        self, record: GroupRecord, value: GroupMetadataValue, members: dict[str, Member]
    ) -> Iterator[Row]:
        """Process the same generation again: a returning static member took over its assignment.

        The generation keeps the time, offset and coordinator of its first record: all commits up to here belong to it.
        """
        pending = self._pending
        assert pending is not None
        yield from self._settle()
        within = compare(self._members, members)
        yield from self._incarnations.memberships.update(members, within, pending.at(record))
        self._members = members
        causes, changes = self._compare(value)
        # the whole comparison sees a join and a departure, so only the first record can show a rejoin
        found = {*causes, *within.causes} - {Cause.REJOIN}
        loads = [member.n_partitions for member in members.values()]
        self._pending = pending._replace(
            causes=in_order(found | {*pending.causes}),
            assignor=value.protocol,
            leader=value.leader,
            n_members=len(loads),
            n_partitions=sum(loads),
            joined=len(changes.joined),
            gone=len(changes.gone),
            changed=len(changes.resubscribed),
            balance_stddev=deviation(loads),
            is_empty=not loads,
        )

    def _converted(self, record: GroupRecord, members: dict[str, Member]) -> Iterator[Row]:
        """Process the classic record of the newer protocol's last generation, which is not a rebalance.

        Members that are not in it and have no successor left as the group changed; the next generation shows that.
        """
        assert self._row_before is not None
        self._grown(members)
        within = compare(self._members, members)
        leaving = {each: self._members[each] for each in within.gone if each not in within.replaced}
        changes = replace(within, gone=tuple(within.replaced))
        self._last_seen = {
            each: self._last_seen.get(each, LastSeen())._replace(gone_ms=record.ts_ms)
            for each in leaving
        }
        self._members = {**leaving, **members}
        row = self._row_before.at(record)
        yield from self._incarnations.memberships.update(self._members, changes, row)

    def _compare(self, value: GroupMetadataValue) -> tuple[tuple[Cause, ...], Changes]:
        cooperative = is_cooperative(value.protocol_type, value.protocol)
        news = self._news(cooperative=cooperative)
        changes = compare(self._before, self._members, news=news, cooperative=cooperative)
        return changes.causes, changes

    def _news(self, *, cooperative: bool) -> Cause | None:
        """Return what is new about the group's work: partitions, connectors, tasks or shards."""
        before, after = self._before, self._members
        is_work = any(member.payload is not None for member in after.values())
        if self._grown(after):
            return Cause.WORK_CHANGE if is_work else Cause.TOPIC_GROWTH
        if deleted_topics(before, after):
            return Cause.TOPIC_DELETED
        if cooperative and withheld(before, after):
            return None
        # what a cooperative plan takes from a member may be given to another one in the next round
        is_less = is_work and not cooperative and lost_work(before, after)
        is_configured = _config_offset(before) < _config_offset(after)
        return Cause.WORK_CHANGE if is_less or is_configured else None

    def _grown(self, members: Mapping[str, Member]) -> bool:
        """Record the partitions; return whether a topic that was known, or at least subscribed, has more of them."""
        grown = False
        wanted = {topic for member in self._before.values() for topic in member.topics}
        connects = self._protocol_type == CONNECT
        for member in members.values():
            for topic, numbers in member.assigned:
                seen, highest = self._seen.get(topic), numbers[-1] if numbers else -1
                if seen is None or highest > seen:
                    # Connect's workers implicitly subscribe to all connectors
                    known = seen is not None or topic in wanted or (connects and self._known)
                    grown = grown or known
                    self._seen[topic] = highest
        for member in members.values():
            # partitions that members own exist, though the first round of a cooperative rebalance withholds some
            for topic, numbers in member.owned:
                if numbers and numbers[-1] > self._seen.get(topic, -1):
                    self._seen[topic] = numbers[-1]
        return grown

    def _row(
        self,
        record: GroupRecord,
        value: GroupMetadataValue,
        changes: Changes,
        causes: tuple[Cause, ...],
        missing: int,
    ) -> GenerationRow:
        loads = [member.n_partitions for member in self._members.values()]
        return GenerationRow(
            group_id=record.group_id,
            protocol=CLASSIC,
            protocol_type=value.protocol_type,
            incarnation=self._incarnations.incarnation,
            seq=self._incarnations.next_seq(),
            generation=value.generation,
            ts_ms=record.ts_ms,
            state_ts_ms=value.current_state_timestamp,
            assignor=value.protocol,
            leader=value.leader,
            n_members=len(loads),
            n_partitions=sum(loads),
            joined=len(changes.joined),
            gone=len(changes.gone),
            changed=len(changes.resubscribed),
            causes=causes,
            missing_before=missing,
            coordinator_changed=self._incarnations.moved(record),
            balance_stddev=deviation(loads),
            is_empty=not loads,
            converged_ms=record.ts_ms,
            partition=record.partition,
            offset=record.offset,
            leader_epoch=record.leader_epoch,
        )

    def _settle(self) -> Iterator[Row]:
        """Update the memberships for the pending generation; once, however often its record is repeated."""
        row = self._pending
        if row is None or self._settled:
            return
        self._settled = True
        yield from self._incarnations.memberships.update(
            self._members, self._changes, row, self._last_seen
        )
        self._changes, self._last_seen = Changes(), {}

    def flush(self) -> Sequence[Row]:
        row = self._pending
        if row is None:
            return ()
        rows = [row, *self._settle()]
        self._pending, self._row_before = None, row
        rows += (row.of_member(FINAL, member) for member in self._members.values())
        return rows


def is_cooperative(protocol_type: str, protocol: str | None) -> bool:
    """Return whether members of a classic group keep partitions that do not move."""
    if protocol_type == CONNECT:
        return protocol in COOPERATIVE_CONNECT
    return protocol in (STREAMS_ASSIGNOR, SHARDS) or "cooperative" in (protocol or "")


def _config_offset(members: Mapping[str, Member]) -> int:
    """Return how far Connect's workers had read the topic of configurations; `MAX_INT64` if there is no such worker."""
    payloads = [each.payload for each in members.values()]
    offsets = [
        each.config_offset
        for each in payloads
        if isinstance(each, Payload) and each.config_offset is not None
    ]
    return max(offsets, default=MAX_INT64)


def member_of(metadata: MemberMetadata, value: GroupMetadataValue) -> Member:
    """Decode a member of a generation's record."""
    reads_topics = value.protocol_type == CONSUMER or (
        value.protocol != SHARDS and sends_subscription(value.protocol_type, metadata.subscription)
    )
    topics: tuple[str, ...] = ()
    owned: Partitions = ()
    assigned: Partitions = ()
    rack_id, problem, payload = None, None, None
    if reads_topics:
        wants = read_subscription(metadata.subscription)
        topics, owned, rack_id = wants.topics, wants.owned, wants.rack_id
        assigned, problem = read_assignment(metadata.assignment)
        problem = wants.problem or problem
    else:
        owned, assigned, payload, problem = work_of(
            value.protocol_type,
            metadata.member_id,
            metadata.subscription,
            metadata.assignment,
            value.protocol or "",
        )
    timeout = metadata.rebalance_timeout
    return Member(
        metadata.member_id,
        metadata.group_instance_id,
        metadata.client_id,
        metadata.client_host,
        metadata.session_timeout,
        metadata.session_timeout if timeout < 0 else timeout,
        topics,
        owned,
        assigned,
        rack_id,
        value.protocol,
        problem,
        payload,
    )
