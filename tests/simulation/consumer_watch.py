"""Check the records, responses and decisions of a consumer group's coordinator by an independent log reader."""

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any, Final
from uuid import UUID

from typing_extensions import override

from groupsdk.broker.coordinator.classic.group import ClassicGroup
from groupsdk.broker.coordinator.consumer.group import ConsumerGroup
from groupsdk.broker.coordinator.group_status import ConsumerGroupState, GroupState
from groupsdk.broker.coordinator.offsets.commit_validation import CommitRequest
from groupsdk.broker.coordinator.runtime.contract import (
    LogRecord,
    ProducerStamp,
    RequestContext,
    Result,
)
from groupsdk.broker.coordinator.runtime.coordinator_runtime import Marker
from groupsdk.broker.settings.table import MigrationPolicy
from groupsdk.error_code import ErrorCode
from groupsdk.testing.simulation.work import TopicPartition
from groupsdk.wire.coordinator_records import consumer_group
from groupsdk.wire.coordinator_records.group_metadata import GroupMetadataKey, GroupMetadataValue
from groupsdk.wire.coordinator_records.offset_commit import OffsetCommitKey
from groupsdk.wire.coordinator_records.offsets_log import read_key, read_value
from groupsdk.wire.messages.consumer_groups import (
    ConsumerGroupHeartbeatRequest,
    ConsumerGroupHeartbeatResponse,
)
from groupsdk.wire.messages.groups import (
    HeartbeatRequest,
    JoinGroupRequest,
    JoinGroupResponse,
    SyncGroupRequest,
)
from groupsdk.wire.messages.offsets import (
    OffsetCommitRequest,
    OffsetCommitResponse,
    OffsetFetchRequest,
    OffsetFetchResponse,
)
from groupsdk.wire.messages.transactions import TxnOffsetCommitRequest, TxnOffsetCommitResponse
from groupsdk.wire.schema import Request, Response
from tests.simulation.observed_shard import ObservedShard, Observer
from tests.simulation.offset_watch import OffsetWatch


if TYPE_CHECKING:
    from tests.simulation.watched_consumers import ConsumerSimulation


_AWAY: Final = -2
_UNREVOKED: Final = 1
_LATE_MS: Final = 1_100
"""How much later than its time a session may end: an append that failed is tried again after a second."""


@dataclass
class Recorded:
    """A member as recorded in the log. It has had to revoke `pending` since `owes_since_ms`."""

    epoch: int = 0
    state: int = 0
    assigned: dict[tuple[UUID, int], int] = field(default_factory=dict)
    """The assigned partitions, with the epoch in which each was assigned."""
    pending: dict[tuple[UUID, int], int] = field(default_factory=dict)
    rebalance_timeout_ms: int = 0
    topics: frozenset[str] = frozenset()
    is_classic: bool = False
    """Whether it speaks the classic protocol."""
    instance_id: str | None = None
    heard_ms: int = 0
    owes_since_ms: int = 0

    @property
    def held(self) -> set[tuple[UUID, int]]:
        """The partitions that it has or must still revoke."""
        return {*self.assigned, *self.pending}


class WatchedShard(ObservedShard):
    """The broker's coordinator, which reports the members that it removes on a timeout."""

    timed_out: Callable[[str, str, int], None]
    takes_older_epochs = True
    """Whether members may commit partitions with an older epoch, back to that of their assignment (KIP-1251, Kafka 4.3)."""

    def state(self, group_id: str) -> GroupState | ConsumerGroupState | None:
        """Return the state of a group of either protocol."""
        group = self.consumer_group(group_id) or self.classic_group_of(group_id)
        return None if group is None else group.state

    @override
    def handle(self, request: Request[Any], context: RequestContext, now_ms: int) -> Result:
        return super().handle(self._as_taken(request), context, now_ms)

    @override
    def handle_all(
        self, requests: Sequence[tuple[Request[Any], RequestContext]], now_ms: int
    ) -> Result:
        taken = [(self._as_taken(request), context) for request, context in requests]
        return super().handle_all(taken, now_ms)

    def _as_taken(self, request: Request[Any]) -> Request[Any]:
        """Return a commit under an older epoch as one that is refused, where older epochs are not taken."""
        if self.takes_older_epochs or not isinstance(request, CommitRequest):
            return request
        group = self.consumer_group(request.group_id)
        member = None if group is None else group.members.get(request.member_id)
        epoch = request.generation_id_or_member_epoch
        if member is None or member.classic is not None or not 0 <= epoch < member.epoch:
            return request
        return replace(request, generation_id_or_member_epoch=member.epoch + 1)

    @override
    def advance(self, now_ms: int) -> Result:
        result = super().advance(now_ms)
        gone: list[tuple[str, str]] = []
        staying: set[str] = set()
        for encoded, value in (pair for record in result.records for pair in record.encoded()):
            key = read_key(encoded)
            if isinstance(key, consumer_group.ConsumerGroupMemberMetadataKey) and value is None:
                gone.append((key.group_id, key.member_id))
            elif isinstance(key, GroupMetadataKey) and value is not None:
                written = read_value(key, value)
                assert isinstance(written, GroupMetadataValue)
                staying = {member.member_id for member in written.members}
        for group_id, member_id in gone:
            if member_id not in staying:  # of a group that becomes a classic one
                self.timed_out(group_id, member_id, now_ms)
        return result


class ConsumerWatch(Observer):
    """An observer of all coordinators that one consumer group has had, one after the other."""

    def __init__(
        self, world: "ConsumerSimulation", group_id: str, session_ms: int, policy: MigrationPolicy
    ) -> None:
        self.shard: WatchedShard | None = None
        self.members: dict[str, Recorded] = {}
        self.epoch = 0
        self.assignment_epoch = 0
        self.classic: GroupMetadataValue | None = None
        """What the log has of the group while it is a classic one."""
        self.formed_ms: dict[int, int] = {}
        """When each generation of the classic group was formed."""
        self.offsets = OffsetWatch(world, group_id, self)
        self.seen: dict[str, int] = {}
        """The last epoch of each member that there ever was."""
        self.places: dict[str, str] = {}
        """The member id that each group.instance.id had last, by the log, whether or not it is still a member."""
        self.upgrades = 0
        """How often the group was a classic one."""
        self.downgrades = 0
        """How often the group became a classic one."""
        self.downgraded_in: int | None = None
        """The generation in which the group became a classic one last; None: it never did."""
        self.upgraded_from: int | None = None
        """The generation of the classic group that became a consumer group last."""
        self.loaded_in: int | None = None
        """The generation in which the coordinator loaded the group last, if it was a classic one."""
        self._reached = 0
        """The highest epoch of any member so far."""
        self.epochs = 0
        self._world = world
        self.group_id = group_id
        self._session_ms = session_ms
        self._policy = policy
        # read here, and not by the broker's own reading of it
        self._upgrades = policy.value in ("bidirectional", "upgrade")
        self._downgrades = policy.value in ("bidirectional", "downgrade")
        self._changed = False
        self._migrated_at = 0
        """The last generation of the classic group that the group was a moment ago."""
        self._left_at = 0
        """The last epoch of the consumer group that the group was a moment ago."""
        self._is_empty = False
        """Whether the classic group had no members when it was looked at last."""

    @override
    def fail(self, invariant: int, what: str) -> None:
        self._world.fail(invariant, what)

    @property
    def ids(self) -> set[str]:
        group = self._classic_group
        return set(self.members) if group is None else set(group.members)

    @property
    def classic_ids(self) -> set[str]:
        """The ids of the members of a classic group, as the log has them."""
        return (
            set() if self.classic is None else {member.member_id for member in self.classic.members}
        )

    @property
    def classic_generation(self) -> int | None:
        """The generation of a classic group, as the log has it; None where it is not one."""
        return None if self.classic is None else self.classic.generation

    @property
    def generations(self) -> frozenset[int] | None:
        """The generations in which members of a classic group may commit; None where it is not a classic one."""
        if self.classic is None:
            return None
        group = self._classic_group
        # one that could not be written counts as well, until the next
        return frozenset({self.classic.generation, -1 if group is None else group.generation_id})

    def takes_commits(self, member_id: str, epoch: int) -> bool:
        """Return whether the log has a member in this very epoch: of any partition it may commit then."""
        generations = self.generations
        if generations is not None:
            return epoch in generations and member_id in self.classic_ids | self.ids
        member = self.members.get(member_id)
        return member is not None and epoch == member.epoch

    def was_held(self, member_id: str, place: TopicPartition, epoch: int) -> bool:
        """Return whether a member has had a partition since an epoch, without a break."""
        member = self.members[member_id]
        held = {**member.assigned, **member.pending}
        return any(
            since <= epoch
            for (topic_id, index), since in held.items()
            if (self._world.name_of(topic_id), index) == place
        )

    def holds_former(self, member_id: str, place: TopicPartition) -> bool:
        """Return whether a member has a partition of a topic whose name another one has taken over."""
        member = self.members.get(member_id)
        return member is not None and any(
            self._world.is_former(topic_id) and (self._world.name_of(topic_id), index) == place
            for topic_id, index in member.held
        )

    @property
    def state(self) -> GroupState | ConsumerGroupState | None:
        """The state of the group, of whichever kind it is; None where there is no group or no coordinator."""
        return None if self.shard is None else self.shard.state(self.group_id)

    @property
    def group(self) -> ConsumerGroup | None:
        """The group as its coordinator has it, where it is a consumer group; not to be changed."""
        return None if self.shard is None else self.shard.consumer_group(self.group_id)

    @property
    def _classic_group(self) -> ClassicGroup | None:
        return None if self.shard is None else self.shard.classic_group_of(self.group_id)

    def lacks(self, member_id: str, places: Sequence[TopicPartition]) -> str | None:
        """Return what is wrong with a member's belief that it holds these; None: nothing.

        In a classic group a member may hold what its newest assignment lacks, until its listener has returned;
        nobody else is given that before it has joined again.
        """
        if self.classic is not None and self.classic.members:
            if self.shard is None or member_id in self.ids:
                return None
            return "is not in the group"
        member = self.members.get(member_id)
        if member is None:
            return f"is not in the group of {sorted(self.members)}"
        held = {(self._world.name_of(topic_id), index) for topic_id, index in member.held}
        lacking = [each for each in places if each not in held]
        return f"holds {sorted(held)} by the log" if lacking else None

    @override
    def loaded(self, shard: ObservedShard) -> None:
        """Read the log again and compare it with what was loaded (invariants 13 and 17)."""
        assert isinstance(shard, WatchedShard)
        epoch, stored = self.epoch, self.offsets.load()
        self.members, self.epoch, self.assignment_epoch, self.classic = {}, 0, 0, None
        now_ms = self._world.now_ms()
        for entry in self._world.whole_log():
            if isinstance(entry, Marker):
                self.offsets.ended(entry.producer, committed=entry.committed, check=False)
            else:
                self._take(entry.record, entry.producer, check=False)
        self._world.note(f"group: loaded, epoch {self.epoch}")
        if 0 < self.epoch < epoch:
            self.fail(1, f"loaded epoch {self.epoch}, it was {epoch}")
        self.offsets.check_loaded(stored)
        for member in self.members.values():
            member.heard_ms = member.owes_since_ms = now_ms
        self.shard = shard
        self.loaded_in = self.classic_generation
        self.check_state(shard, 17)

    @override
    def unloaded(self, shard: ObservedShard) -> None:
        """Take note that it ended in good order."""
        if self.shard is shard:
            self.shard = None

    def lost(self) -> None:
        """Take note that there is no coordinator, in whatever order."""
        self.shard = None

    def check_state(self, shard: WatchedShard, invariant: int) -> None:
        """Hold a coordinator against the log."""
        group = shard.consumer_group(self.group_id)
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
        # before the first record it is in 1; a classic group that is upgraded before its first generation, in 0
        written = self.epoch, self.assignment_epoch
        started = max(self.epoch, 1), max(self.assignment_epoch, 1)
        if group is not None and (group.epoch, group.assignment_epoch) not in (written, started):
            self.fail(
                invariant,
                f"the coordinator is in {group.epoch}/{group.assignment_epoch}, the log in"
                f" {self.epoch}/{self.assignment_epoch}",
            )
        offsets = {place: each.offset for place, each in shard.offsets(self.group_id).items()}
        stored = self.offsets.stored.stable
        if offsets != stored:
            self.fail(invariant, f"the coordinator has {offsets}, the log {stored}")

    def timed_out(self, member_id: str, now_ms: int) -> None:
        """Check that a member which is removed by time had its time (invariant 5)."""
        member = self.members.get(member_id)
        if member is None:
            return
        silent_ms = now_ms - member.heard_ms
        owes_ms = now_ms - member.owes_since_ms if member.state == _UNREVOKED else 0
        if silent_ms >= self._session_ms:
            self._world.expelled(member_id, "session")
        elif member.is_classic:
            self._world.expelled(member_id, "rebalance")  # it did not join, or sync, in time
        elif member.state == _UNREVOKED and owes_ms >= member.rebalance_timeout_ms:
            self._world.expelled(member_id, "rebalance")
        else:
            self.fail(5, f"{member_id} is removed after {silent_ms} ms of silence, owing {owes_ms}")

    def answered(self, request: Request[Any], response: Response, now_ms: int) -> None:
        """Check an answer as it is sent."""
        group_id = getattr(request, "group_id", self.group_id)
        if group_id != self.group_id and not isinstance(request, OffsetFetchRequest):
            return  # of another group
        if isinstance(request, ConsumerGroupHeartbeatRequest) and isinstance(
            response, ConsumerGroupHeartbeatResponse
        ):
            self._heartbeat(request, response, now_ms)
        elif isinstance(request, OffsetCommitRequest) and isinstance(
            response, OffsetCommitResponse
        ):
            self.offsets.committed(request, response)
        elif isinstance(request, TxnOffsetCommitRequest) and isinstance(
            response, TxnOffsetCommitResponse
        ):
            self.offsets.committed_in_transaction(request, response)
        elif isinstance(request, HeartbeatRequest | JoinGroupRequest | SyncGroupRequest):
            self._heard_of_classic(request.member_id, response, now_ms)
        elif isinstance(request, OffsetFetchRequest) and isinstance(response, OffsetFetchResponse):
            self.offsets.fetched(request, response)

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
            refused = answer.error_code == ErrorCode.GROUP_ID_NOT_FOUND
            if refused and request.member_epoch == 0 and self._upgrades:
                self.fail(24, f"{request.member_id} is refused: {answer.error_message}")
            return
        member = self.members.get(answer.member_id or "")
        if member is None or member.epoch != answer.member_epoch:
            self.fail(8, f"told {answer.member_id} the epoch {answer.member_epoch}: {member}")
            return
        member.heard_ms = now_ms
        if answer.assignment is not None:
            told = {
                (topic.topic_id, index)
                for topic in answer.assignment.topic_partitions
                for index in topic.partitions
            }
            if told != set(member.assigned):
                self.fail(8, f"told {answer.member_id} {told}, the log has {member.assigned}")

    def _heard_of_classic(self, member_id: str, answer: Response, now_ms: int) -> None:
        """Take note of a sign of life of a classic member, which counts though it has to join again."""
        code = getattr(answer, "error_code", 0)
        is_join = isinstance(answer, JoinGroupResponse)
        refused = is_join and code == ErrorCode.INCONSISTENT_GROUP_PROTOCOL
        if refused and self._policy is not MigrationPolicy.DISABLED:
            self.fail(24, f"{member_id} may not join as a classic member")
        member = self.members.get(getattr(answer, "member_id", "") or member_id)
        if member is not None and code in (0, ErrorCode.REBALANCE_IN_PROGRESS):
            member.heard_ms = now_ms

    @override
    def wrote(self, record: LogRecord, producer: ProducerStamp | None) -> None:
        """Check a record that is in the log."""
        self._take(record, producer, check=True)

    @override
    def ended(self, producer: ProducerStamp, *, committed: bool) -> None:
        """Check the end of a producer's transaction, which is in the log."""
        self._changed = True
        self.offsets.ended(producer, committed=committed, check=True)

    def _take(self, record: LogRecord, producer: ProducerStamp | None, *, check: bool) -> None:
        key, value = _read_record(record)
        if _group_of(key) != self.group_id:
            return
        self._changed = True
        match key:
            case GroupMetadataKey():
                self._took_classic(value, check=check)
            case consumer_group.ConsumerGroupMetadataKey():
                self._took_epoch(value, check=check)
            case consumer_group.ConsumerGroupTargetAssignmentMetadataKey():
                if isinstance(value, consumer_group.ConsumerGroupTargetAssignmentMetadataValue):
                    if check and value.assignment_epoch < self.assignment_epoch:
                        self.fail(1, f"target {value.assignment_epoch} < {self.assignment_epoch}")
                    self.assignment_epoch = value.assignment_epoch
                else:
                    self.assignment_epoch = 0
            case consumer_group.ConsumerGroupMemberMetadataKey():
                self._took_member(key.member_id, value)
            case consumer_group.ConsumerGroupCurrentMemberAssignmentKey():
                self._took_assignment(key.member_id, value, check=check)
            case OffsetCommitKey():
                self.offsets.took((key.topic, key.partition), value, producer, check=check)
            case _:
                pass

    def _member(self, member_id: str) -> Recorded:
        member = self.members.get(member_id)
        if member is None:
            member = self.members[member_id] = Recorded(heard_ms=self._world.now_ms())
        return member

    def _took_member(self, member_id: str, value: object) -> None:
        if not isinstance(value, consumer_group.ConsumerGroupMemberMetadataValue):
            self.members.pop(member_id, None)
            return
        member = self._member(member_id)
        member.rebalance_timeout_ms = value.rebalance_timeout_ms
        member.topics = frozenset(value.subscribed_topic_names)
        member.is_classic = value.classic_member_metadata is not None
        member.instance_id = value.instance_id
        if value.instance_id is not None:
            self.places[value.instance_id] = member_id

    def _took_epoch(self, value: object, *, check: bool) -> None:
        if not isinstance(value, consumer_group.ConsumerGroupMetadataValue):
            self._left_at, self.epoch = self.epoch, 0
            if check and self.members:
                self.fail(12, f"the group is deleted with {set(self.members)}")
            return
        self.epochs += 1
        if check and (value.epoch < self.epoch or value.epoch < self._migrated_at):
            self.fail(1, f"group epoch {value.epoch} after {self.epoch}, {self._migrated_at}")
        self.epoch, self._migrated_at = value.epoch, 0

    def _took_classic(self, value: object, *, check: bool) -> None:
        """Check that the generations of a classic group go on where the epochs ended, and the reverse."""
        if not isinstance(value, GroupMetadataValue):
            classic, self.classic = self.classic, None
            self.upgrades += 1
            self.upgraded_from = None if classic is None else classic.generation
            # the next member starts over only if nobody is left, which a full disk may have kept from the log
            is_left = classic is not None and classic.members and not self._is_empty
            self._migrated_at = classic.generation if classic and is_left else 0
            if check and is_left and not self._upgrades:
                self.fail(24, f"is upgraded, though the policy is {self._policy.value}")
            return
        if self._left_at and value.members:
            self.downgrades += 1
            self.downgraded_in = value.generation
            if check and not self._downgrades:
                self.fail(24, f"is downgraded, though the policy is {self._policy.value}")
        before = self._left_at if self.classic is None else self.classic.generation
        # an epoch that is written in one batch with the downgrade reaches no member, and counts for Kafka neither
        if check and value.members and value.generation < min(before, self._reached):
            self.fail(1, f"generation {value.generation} after {before}")
        self.epochs += 1
        self.formed_ms.setdefault(value.generation, self._world.now_ms())
        self.classic, self._left_at = value, 0
        places = {member.group_instance_id: member.member_id for member in value.members}
        self.places |= {name: held_by for name, held_by in places.items() if name is not None}

    def _took_assignment(self, member_id: str, value: object, *, check: bool) -> None:
        member = self._member(member_id)
        if not isinstance(value, consumer_group.ConsumerGroupCurrentMemberAssignmentValue):
            member.epoch, member.assigned, member.pending = -1, {}, {}
            return
        if check and value.member_epoch < member.epoch and value.member_epoch != _AWAY:
            self.fail(1, f"{member_id} goes from epoch {member.epoch} to {value.member_epoch}")
        if value.state == _UNREVOKED and member.state != _UNREVOKED:
            member.owes_since_ms = self._world.now_ms()
        member.epoch, member.state = value.member_epoch, value.state
        self.seen[member_id] = value.member_epoch
        self._reached = max(self._reached, value.member_epoch)
        member.assigned = _read(value.assigned_partitions)
        member.pending = _read(value.partitions_pending_revocation)

    def check(self) -> None:
        """Check what must hold of the group now (invariants 1, 2, 5 and 17)."""
        shard = self.shard
        if shard is None:
            return
        classic = self._classic_group
        if classic is not None:
            self._is_empty = not classic.members
        self.offsets.check()
        if not self._world.is_disturbed:
            self._check_silence()
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

    def _check_silence(self) -> None:
        now_ms = self._world.now_ms()
        for member_id, member in self.members.items():
            silent_ms = now_ms - member.heard_ms
            if silent_ms > self._session_ms + _LATE_MS:
                self.fail(5, f"{member_id} is kept after {silent_ms} ms of silence")


def _read_record(record: LogRecord) -> tuple[Any, Any]:
    key = read_key(record.key)
    return key, None if key is None or record.value is None else read_value(key, record.value)


def _group_of(key: Any) -> str | None:
    """Return the group of a record's key: those of the classic protocol have it under another name."""
    if key is None:
        return None
    found: str = key.group if isinstance(key, GroupMetadataKey | OffsetCommitKey) else key.group_id
    return found


def _read(written: Iterable[consumer_group.CurrentTopicPartitions]) -> dict[tuple[UUID, int], int]:
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
