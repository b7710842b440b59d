"""Check what the coordinator of a consumer group writes, answers and decides, by a reading of the log of its own."""

from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from typing import Any, Final, NoReturn, Protocol
from uuid import UUID

from typing_extensions import override

from groupsdk.broker.consumer_groups.group import ConsumerGroup
from groupsdk.broker.runtime.contract import LogRecord, ProducerStamp, Result
from groupsdk.error_code import ErrorCode
from groupsdk.testing.simulation.consumer_member import Place
from groupsdk.testing.simulation.shard import ObservedShard, Shown
from groupsdk.wire.coordinator_records.consumer_group import (
    ConsumerGroupCurrentMemberAssignmentKey,
    ConsumerGroupCurrentMemberAssignmentValue,
    ConsumerGroupMemberMetadataKey,
    ConsumerGroupMemberMetadataValue,
    ConsumerGroupMetadataKey,
    ConsumerGroupMetadataValue,
    ConsumerGroupTargetAssignmentMetadataKey,
    ConsumerGroupTargetAssignmentMetadataValue,
    CurrentTopicPartitions,
)
from groupsdk.wire.coordinator_records.offset_commit import OffsetCommitKey, OffsetCommitValue
from groupsdk.wire.coordinator_records.offsets_log import read_key, read_value
from groupsdk.wire.messages.consumer_group_heartbeat import (
    ConsumerGroupHeartbeatRequest,
    ConsumerGroupHeartbeatResponse,
)
from groupsdk.wire.messages.offset_commit import OffsetCommitRequest, OffsetCommitResponse
from groupsdk.wire.messages.offset_fetch import OffsetFetchRequest, OffsetFetchResponse
from groupsdk.wire.schema import Request, Response


_AWAY: Final = -2
_UNREVOKED: Final = 1
_LATE_MS: Final = 1_100
"""How much later than its time a session may end: an append that failed is tried again after a second."""


@dataclass
class Recorded:
    """A member, as the log has it."""

    epoch: int = 0
    state: int = 0
    assigned: dict[tuple[UUID, int], int] = field(default_factory=dict)
    """With the epoch in which each was given."""
    pending: dict[tuple[UUID, int], int] = field(default_factory=dict)
    rebalance_timeout_ms: int = 0
    topics: frozenset[str] = frozenset()
    heard_ms: int = 0
    owes_since_ms: int = 0

    @property
    def held(self) -> set[tuple[UUID, int]]:
        """What it has, or must still give up."""
        return {*self.assigned, *self.pending}


class WatchedShard(ObservedShard):
    """The coordinator that the broker runs, with a watch that hears whom it removes by time."""

    timed_out: Callable[[str, int], None]

    @property
    def consumer(self) -> ConsumerGroup | None:
        """The group, not to be changed."""
        return self.consumer_group(self.group_id)

    @override
    def advance(self, now_ms: int) -> Result:
        """Do everything that is due."""
        result = super().advance(now_ms)
        for record in result.records:
            for encoded, value in record.encoded():
                key = read_key(encoded)
                if isinstance(key, ConsumerGroupMemberMetadataKey) and value is None:
                    self.timed_out(key.member_id, now_ms)
        return result


class Watched(Protocol):
    """What the checks need of the run."""

    def note(self, text: str) -> None:
        """Add a line to the trace."""
        ...

    def fail(self, invariant: int, what: str) -> NoReturn:
        """End the run."""
        ...

    def whole_log(self) -> Iterable[LogRecord]:
        """Go through the group's log."""
        ...

    def expelled(self, member_id: str, why: str) -> None:
        """Hear of a member that the coordinator removed by time."""
        ...

    def name_of(self, topic_id: UUID) -> str:
        """Return the name of a topic."""
        ...

    @property
    def is_disturbed(self) -> bool:
        """Whether the broker has troubles, or had some a moment ago."""
        ...

    def now_ms(self) -> int:
        """Return the time."""
        ...


class ConsumerWatch:
    """An observer of all coordinators that one consumer group has had, one after the other.

    Args:
        world: the run.
        group_id: the group.
        session_ms: its session timeout.
    """

    def __init__(self, world: Watched, group_id: str, session_ms: int) -> None:
        self.shard: WatchedShard | None = None
        self.members: dict[str, Recorded] = {}
        self.epoch = 0
        self.assignment_epoch = 0
        self.stored: dict[Place, int] = {}
        """The committed offsets, as the log has them."""
        self.epochs = 0
        self.commits = 0
        self._world = world
        self._group_id = group_id
        self._session_ms = session_ms
        self._changed = False
        self._may_go_back: set[Place] = set()
        """Partitions whose offset a tool has set, or that expired."""

    def fail(self, invariant: int, what: str) -> None:
        """End the run, as an invariant is broken."""
        self._world.fail(invariant, what)

    # The coordinator's life.

    def loaded(self, shard: ObservedShard) -> None:
        """Read the log anew, and hold what was loaded against it (invariants 13 and 17)."""
        assert isinstance(shard, WatchedShard)
        epoch, stored = self.epoch, dict(self.stored)
        self.members, self.stored, self.epoch, self.assignment_epoch = {}, {}, 0, 0
        now_ms = self._world.now_ms()
        for record in self._world.whole_log():
            self._take(record, check=False)
        self._world.note(f"group: loaded, epoch {self.epoch}")
        if self.epoch and self.epoch < epoch:
            self.fail(1, f"loaded epoch {self.epoch}, it was {epoch}")
        for place, offset in stored.items():
            if self.stored.get(place, -1) < offset and place not in self._may_go_back:
                self.fail(13, f"{place} is at {self.stored.get(place)}, acknowledged was {offset}")
        for member in self.members.values():
            member.heard_ms = member.owes_since_ms = now_ms
        self.shard = shard
        self.check_state(shard, 17)

    def unloaded(self, shard: ObservedShard) -> None:
        """Take note that it ended in good order."""
        if self.shard is shard:
            self.shard = None

    def lost(self) -> None:
        """Take note that there is no coordinator, in whatever order."""
        self.shard = None

    def check_state(self, shard: WatchedShard, invariant: int) -> None:
        """Hold a coordinator against the log."""
        group = shard.consumer
        found = {} if group is None else group.members
        ours = {
            member_id: (each.epoch, dict(each.assigned), dict(each.pending))
            for member_id, each in self.members.items()
        }
        theirs = {
            member_id: (each.epoch, _flat(each.assigned), _flat(each.pending))
            for member_id, each in found.items()
        }
        if ours != theirs:
            self.fail(invariant, f"the coordinator has {theirs}, the log {ours}")
        if group is not None and (group.epoch, group.assignment_epoch) != (
            max(self.epoch, 1),
            max(self.assignment_epoch, 1),
        ):
            self.fail(
                invariant,
                f"the coordinator is in {group.epoch}/{group.assignment_epoch}, the log in"
                f" {self.epoch}/{self.assignment_epoch}",
            )
        offsets = {place: each.offset for place, each in shard.offsets(self._group_id).items()}
        if offsets != self.stored:
            self.fail(invariant, f"the coordinator has {offsets}, the log {self.stored}")

    # Requests and answers.

    def asked(self, request: Request[Any], now_ms: int) -> None:
        """Take note of a request."""

    def time_passed(self, shard: ObservedShard, before: Shown, now_ms: int) -> None:
        """Take note of what was done because it was due."""

    def timed_out(self, member_id: str, now_ms: int) -> None:
        """Check that a member which is removed by time had its time (invariant 5)."""
        member = self.members.get(member_id)
        if member is None:
            return
        silent_ms = now_ms - member.heard_ms
        owes_ms = now_ms - member.owes_since_ms if member.state == _UNREVOKED else 0
        if silent_ms >= self._session_ms:
            self._world.expelled(member_id, "session")
        elif member.state == _UNREVOKED and owes_ms >= member.rebalance_timeout_ms:
            self._world.expelled(member_id, "rebalance")
        else:
            self.fail(5, f"{member_id} is removed after {silent_ms} ms of silence, owing {owes_ms}")

    def answered(self, request: Request[Any], response: Response, now_ms: int) -> None:
        """Check an answer as it is sent."""
        if isinstance(request, ConsumerGroupHeartbeatRequest) and isinstance(
            response, ConsumerGroupHeartbeatResponse
        ):
            self._heartbeat(request, response, now_ms)
        elif isinstance(request, OffsetCommitRequest) and isinstance(
            response, OffsetCommitResponse
        ):
            self._committed(request, response)
        elif isinstance(request, OffsetFetchRequest) and isinstance(response, OffsetFetchResponse):
            self._fetched(response)

    def _heartbeat(
        self,
        request: ConsumerGroupHeartbeatRequest,
        answer: ConsumerGroupHeartbeatResponse,
        now_ms: int,
    ) -> None:
        """Check that what is told is in the log (invariant 8)."""
        if answer.error_code or request.member_epoch < 0:
            if answer.error_code < 0:
                self.fail(23, f"answers {answer.error_message}")
            return
        member = self.members.get(answer.member_id or "")
        if member is None or member.epoch != answer.member_epoch:
            self.fail(8, f"told {answer.member_id} the epoch {answer.member_epoch}: {member}")
            return
        member.heard_ms = now_ms
        if answer.assignment is not None:
            told = {
                (each.topic_id, index)
                for each in answer.assignment.topic_partitions
                for index in each.partitions
            }
            if told != set(member.assigned):
                self.fail(8, f"told {answer.member_id} {told}, the log has {member.assigned}")

    def _committed(self, request: OffsetCommitRequest, answer: OffsetCommitResponse) -> None:
        """Check the fence (invariants 3 and 14)."""
        codes = {
            (topic.name, each.partition_index): each.error_code
            for topic in answer.topics
            for each in topic.partitions
        }
        taken = {
            (topic.name, each.partition_index): each.committed_offset
            for topic in request.topics
            for each in topic.partitions
            if codes[topic.name, each.partition_index] == 0
        }
        member_id, epoch = request.member_id, request.generation_id_or_member_epoch
        if not taken:
            code = ErrorCode.of(next(iter(codes.values()), 0)).name
            self._world.note(f"group: commit of {member_id or 'a tool'} in {epoch}: {code}")
            return
        self._world.note(f"group: {member_id or 'a tool'} in {epoch} commits {taken}")
        self.commits += 1
        for place, offset in taken.items():
            if self.stored.get(place) != offset:
                self.fail(8, f"acknowledged {place}={offset}, the log has {self.stored.get(place)}")
        if epoch < 0:
            if self.members:
                self.fail(14, f"took a commit of a tool while there are {set(self.members)}")
            self._may_go_back.update(taken)
            return
        member = self.members.get(member_id)
        held = {} if member is None else {**member.assigned, **member.pending}
        named = {
            (self._world.name_of(topic_id), index): at for (topic_id, index), at in held.items()
        }
        if member is None or not (
            epoch == member.epoch
            or (
                epoch < member.epoch
                and all(place in named and named[place] <= epoch for place in taken)
            )
        ):
            self.fail(14, f"took a commit of {member_id} in {epoch}; the log has {member}")

    def _fetched(self, answer: OffsetFetchResponse) -> None:
        for group in answer.groups:
            for topic in group.topics:
                for each in topic.partitions:
                    wanted = self.stored.get((topic.name, each.partition_index), -1)
                    if each.error_code == 0 and each.committed_offset != wanted:
                        self.fail(13, f"served {each}, the log has {wanted}")

    # The log.

    def wrote(self, record: LogRecord, producer: ProducerStamp | None) -> None:
        """Check a record that is in the log."""
        self._take(record, check=True)

    def _take(self, record: LogRecord, *, check: bool) -> None:
        self._changed = True
        key = read_key(record.key)
        value = None if key is None or record.value is None else read_value(key, record.value)
        match key:
            case ConsumerGroupMetadataKey():
                self._took_epoch(value, check=check)
            case ConsumerGroupTargetAssignmentMetadataKey():
                if isinstance(value, ConsumerGroupTargetAssignmentMetadataValue):
                    if check and value.assignment_epoch < self.assignment_epoch:
                        self.fail(1, f"target {value.assignment_epoch} < {self.assignment_epoch}")
                    self.assignment_epoch = value.assignment_epoch
                else:
                    self.assignment_epoch = 0
            case ConsumerGroupMemberMetadataKey():
                if value is None:
                    self.members.pop(key.member_id, None)
                else:
                    assert isinstance(value, ConsumerGroupMemberMetadataValue)
                    member = self._member(key.member_id)
                    member.rebalance_timeout_ms = value.rebalance_timeout_ms
                    member.topics = frozenset(value.subscribed_topic_names)
            case ConsumerGroupCurrentMemberAssignmentKey():
                self._took_assignment(key.member_id, value, check=check)
            case OffsetCommitKey():
                self._took_offset((key.topic, key.partition), value, check=check)
            case _:
                pass

    def _member(self, member_id: str) -> Recorded:
        member = self.members.get(member_id)
        if member is None:
            member = self.members[member_id] = Recorded(heard_ms=self._world.now_ms())
        return member

    def _took_epoch(self, value: object, *, check: bool) -> None:
        if not isinstance(value, ConsumerGroupMetadataValue):
            self.epoch = 0
            if check and self.members:
                self.fail(12, f"the group is deleted with {set(self.members)}")
            return
        self.epochs += 1
        if check and value.epoch <= self.epoch:
            self.fail(1, f"group epoch {value.epoch} after {self.epoch}")
        self.epoch = value.epoch

    def _took_assignment(self, member_id: str, value: object, *, check: bool) -> None:
        member = self._member(member_id)
        if not isinstance(value, ConsumerGroupCurrentMemberAssignmentValue):
            member.epoch, member.assigned, member.pending = -1, {}, {}
            return
        if check and value.member_epoch < member.epoch and value.member_epoch != _AWAY:
            self.fail(1, f"{member_id} goes from epoch {member.epoch} to {value.member_epoch}")
        if value.state == _UNREVOKED and member.state != _UNREVOKED:
            member.owes_since_ms = self._world.now_ms()
        member.epoch, member.state = value.member_epoch, value.state
        member.assigned = _read(value.assigned_partitions)
        member.pending = _read(value.partitions_pending_revocation)

    def _took_offset(self, place: Place, value: object, *, check: bool) -> None:
        if not isinstance(value, OffsetCommitValue):
            self.stored.pop(place, None)
            self._may_go_back.add(place)
            if check and any(place[0] in each.topics for each in self.members.values()):
                self.fail(16, f"the offset of {place} is dropped while it is subscribed to")
            return
        before = self.stored.get(place)
        if (
            check
            and before is not None
            and value.offset < before
            and self.members
            and place not in self._may_go_back
        ):
            self.fail(3, f"{place} goes back from {before} to {value.offset}")
        self._may_go_back.discard(place)
        self.stored[place] = value.offset

    # At every step.

    def check(self) -> None:
        """Check what must hold of the group now (invariants 1, 2, 5 and 17)."""
        shard = self.shard
        if shard is None:
            return
        now_ms = self._world.now_ms()
        if not self._world.is_disturbed:
            for member_id, member in self.members.items():
                silent_ms = now_ms - member.heard_ms
                if silent_ms > self._session_ms + _LATE_MS:
                    self.fail(5, f"{member_id} is kept after {silent_ms} ms of silence")
        if not self._changed:
            return
        self._changed = False
        if self.assignment_epoch > self.epoch:
            self.fail(1, f"a target of {self.assignment_epoch} for the epoch {self.epoch}")
        holders: dict[tuple[UUID, int], str] = {}
        for member_id, member in self.members.items():
            for place in member.held:
                other = holders.setdefault(place, member_id)
                if other != member_id:
                    self.fail(2, f"{place} is in the hands of {other} and {member_id}")
        self.check_state(shard, 17)


def _read(written: Iterable[CurrentTopicPartitions]) -> dict[tuple[UUID, int], int]:
    return {
        (each.topic_id, index): epoch
        for each in written
        for index, epoch in zip(each.partitions, each.assignment_epochs or (), strict=True)
    }


def _flat(holdings: Any) -> dict[tuple[UUID, int], int]:
    return {
        (topic_id, index): epoch
        for topic_id, epochs in holdings.items()
        for index, epoch in epochs.items()
    }
