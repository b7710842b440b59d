"""Check what a group's coordinator writes, answers and decides, at every step."""

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from typing_extensions import override

from groupsdk.broker.coordinator.runtime.contract import LogRecord, ProducerStamp
from groupsdk.error_code import ErrorCode
from groupsdk.testing.simulation.classic_world import TOPIC
from groupsdk.wire.coordinator_records.group_metadata import GroupMetadataKey, GroupMetadataValue
from groupsdk.wire.coordinator_records.offset_commit import OffsetCommitKey, OffsetCommitValue
from groupsdk.wire.coordinator_records.offsets_log import read_key, read_value
from groupsdk.wire.messages import groups as messages
from groupsdk.wire.messages.offsets import (
    OffsetCommitRequest,
    OffsetCommitResponse,
    OffsetFetchRequest,
    OffsetFetchResponse,
)
from groupsdk.wire.schema import Request, Response
from tests.simulation.observed_shard import GroupSnapshot, ObservedShard, Observer
from tests.simulation.session_watch import SessionWatch


if TYPE_CHECKING:
    from tests.simulation.watched_tasks import Simulation


_CHECK_MS: Final = 1_000
"""How often the coordinator is looked at while nothing happens to it."""
_HEARD: Final = (ErrorCode.NONE, ErrorCode.REBALANCE_IN_PROGRESS)


class Written(NamedTuple):
    """A generation as recorded in the log: the assignments by member id, and the offset of the record as `position`."""

    generation: int
    protocol: str | None
    members: dict[str, bytes]
    position: int


NOTHING_WRITTEN: Final = Written(0, None, {}, 0)


class GroupWatch(Observer):
    """An observer of all coordinators that one group has had; a static member goes on under another id."""

    def __init__(
        self,
        world: "Simulation",
        tasks: tuple[int, ...],
        *,
        bucket_ms: int,
        retention_ms: int,
        identify: Callable[[str], str],
    ) -> None:
        self.offsets = AcknowledgedOffsets()
        self.history: list[Written] = []
        self.gone: set[str] = set()
        """Members that left, were expelled or replaced."""
        self.accepted: dict[int, tuple[int, str]] = {}
        """Generation and process of the last accepted commit of each task."""
        self.shard: ObservedShard | None = None
        self.rebalances = 0
        self._world = world
        self._tasks = list(tasks)
        self._retention_ms = retention_ms
        self._identify = identify
        self._sessions = SessionWatch(self.fail, bucket_ms, identify)
        self._known_end = 0
        self._next_check_ms = 0
        self.lost_tail = False
        """Whether what was acknowledged is lost, as its log was not synced."""
        self._plans: dict[tuple[str, int], list[dict[str, bytes]]] = {}
        """What each leader has sent for each generation that it led; the number of one that was lost comes again."""
        self._led: dict[tuple[str, int], set[frozenset[str]]] = {}
        """Of which members each leader was told for each generation."""

    @property
    def written(self) -> Written:
        return self.history[-1] if self.history else NOTHING_WRITTEN

    @override
    def fail(self, invariant: int, what: str) -> None:
        self._world.fail(invariant, what)

    @override
    def loaded(self, shard: ObservedShard) -> None:
        """Compare what was loaded with what was acknowledged (invariants 13 and 17)."""
        self.shard = shard
        group = shard.classic_group
        self._world.note(
            "group: loaded, "
            + ("not there" if group is None else f"generation {group.generation_id}")
        )
        self._reconcile()
        self.check_served(17)
        self.check_replayed(shard)
        if group is not None:
            # one that left or was expelled in a rebalance that the log does not have is back by rule
            self.gone.difference_update(group.members)
        self._sessions.loaded(group, shard.now_ms)

    @override
    def unloaded(self, shard: ObservedShard) -> None:
        self.check_served(13)
        if self.shard is shard:
            self.shard = None

    def lost(self) -> None:
        """Take note that there is no coordinator, in whatever order."""
        self.shard = None

    def _reconcile(self) -> None:
        """Heed what a crash took, and what it left though nobody was told of it."""
        end = self._world.log_end()
        if end < self._world.durable_end:
            self.fail(17, f"the log ends at {end}, safe was {self._world.durable_end}")
        if end < self._known_end:
            self._world.note(f"log: the unsynced tail is lost, it ends at {end}")
            self.offsets.truncate(end)
            self.history = [each for each in self.history if each.position <= end]
            self.accepted.clear()
            self.gone.clear()
            self.lost_tail = True
        for record in self._world.read_log(self._known_end):
            # written, and the broker died before it could say so
            self._world.note("log: what was being written is there")
            key = read_key(record.key)
            value = read_value(key, record.value) if key is not None else None
            match key, value:
                case GroupMetadataKey(), GroupMetadataValue() | None:
                    self._wrote_group(value)
                case OffsetCommitKey(), OffsetCommitValue():
                    self.offsets.change(end, {key.partition: value.offset})
                case OffsetCommitKey(), None:
                    self.offsets.change(end, {key.partition: None})
                case _:
                    pass
        self._known_end = end

    def check_replayed(self, shard: ObservedShard) -> None:
        """Compare a coordinator that has just been loaded with the group's last record."""
        group, last = shard.classic_group, self.written
        found = (
            {member.member_id: member.assignment for member in group.members.values()}
            if group
            else {}
        )
        generation = group.generation_id if group else 0
        if found != last.members or (generation != last.generation and (group or last.members)):
            self.fail(
                17,
                f"loaded generation {generation} of {found}, the log has {last.generation}: {last}",
            )

    def check_served(self, invariant: int) -> None:
        """Compare what the coordinator would serve with what was acknowledged."""
        if self.shard is not None:
            self.check_offsets(self.shard, invariant)

    def check_offsets(self, shard: ObservedShard, invariant: int) -> None:
        """Compare the offsets of a coordinator with what was acknowledged."""
        served = {
            partition: each.offset
            for (topic, partition), each in shard.offsets(shard.group_id).items()
            if topic == TOPIC
        }
        if served != self.offsets.stable:
            self.fail(invariant, f"has {served}, acknowledged was {self.offsets.stable}")

    @override
    def asked(self, request: Request[Any], now_ms: int) -> None:
        """Take note of a sign of life, and of the state that the requests before have led to."""
        group = self.shard.classic_group if self.shard is not None else None
        if group is not None:
            self._sessions.entered(group, now_ms)
        self._sessions.asked(request, now_ms)
        if isinstance(request, messages.SyncGroupRequest) and request.assignments:
            plan = {each.member_id: each.assignment for each in request.assignments}
            self._plans.setdefault((request.member_id, request.generation_id), []).append(plan)

    def answered(self, request: Request[Any], response: Response, now_ms: int) -> None:
        """Check an answer as it is sent."""
        match request, response:
            case messages.HeartbeatRequest(), messages.HeartbeatResponse(error_code=code):
                if code in _HEARD:
                    self._sessions.heard(request.member_id, now_ms)
                self._trace(request.member_id, "heartbeat", code)
            case messages.JoinGroupRequest(), messages.JoinGroupResponse():
                self._joined(request, response, now_ms)
            case messages.SyncGroupRequest(), messages.SyncGroupResponse():
                self._synced(request, response, now_ms)
            case messages.LeaveGroupRequest(), messages.LeaveGroupResponse():
                self._left(response)
            case OffsetCommitRequest(), OffsetCommitResponse():
                self._committed(request, response, now_ms)
            case OffsetFetchRequest(), OffsetFetchResponse():
                self._fetched(response)
            case _:
                pass

    def _trace(self, member_id: str, what: str, code: int) -> None:
        if code:
            self._world.note(f"group: {member_id or '(new)'}: {what}: {ErrorCode.of(code).name}")

    def _joined(
        self, request: messages.JoinGroupRequest, response: messages.JoinGroupResponse, now_ms: int
    ) -> None:
        self._trace(request.member_id, "join", response.error_code)
        if response.error_code:
            return
        self._sessions.heard(response.member_id, now_ms)
        led = self._led.setdefault((response.member_id, response.generation_id), set())
        led.add(frozenset(each.member_id for each in response.members))
        if response.member_id in self.gone:
            self.fail(10, f"{response.member_id} is in the group again, after it was gone")
        if response.generation_id < self.written.generation:
            self.fail(
                1, f"joined generation {response.generation_id} after {self.written.generation}"
            )
        if request.group_instance_id is not None:
            self.gone.update(self._sessions.replaced(response.member_id))

    def _left(self, response: messages.LeaveGroupResponse) -> None:
        for member in response.members:
            if member.error_code == 0:
                self.gone.add(member.member_id)
                self._sessions.forget(member.member_id)

    def _synced(
        self, request: messages.SyncGroupRequest, response: messages.SyncGroupResponse, now_ms: int
    ) -> None:
        """Check that an assignment that is handed out is in the log (invariants 1, 2 and 8)."""
        self._trace(request.member_id, "sync", response.error_code)
        self._sessions.asked(request, now_ms)
        if response.error_code:
            return
        self._sessions.heard(request.member_id, now_ms)
        last = self.written
        stored = last.members.get(request.member_id)
        if last.generation != request.generation_id or stored != response.assignment:
            self.fail(
                8,
                f"{request.member_id} was given {list(response.assignment)} in generation"
                f" {request.generation_id}; the log has {last}",
            )

    def _committed(
        self, request: OffsetCommitRequest, response: OffsetCommitResponse, now_ms: int
    ) -> None:
        shard = self.shard
        if shard is not None and shard.commits_left:
            shard.commits_left -= 1
        codes = {
            partition.partition_index: partition.error_code
            for topic in response.topics
            for partition in topic.partitions
        }
        offsets: dict[int, int | None] = {
            partition.partition_index: partition.committed_offset
            for topic in request.topics
            for partition in topic.partitions
            if codes[partition.partition_index] == 0
        }
        member_id, generation = request.member_id, request.generation_id_or_member_epoch
        for code in set(codes.values()):
            self._trace(member_id, f"commit in generation {generation}", code)
        if not offsets:
            return
        self._world.note(f"group: {member_id or 'a tool'} commits {offsets}")
        if generation < 0:
            group = shard.classic_group if shard is not None else None
            if group is not None and group.members:
                self.fail(14, f"a commit without a generation was taken, {group.state} as it is")
        else:
            self._check_fence(member_id, generation, offsets)
            self._sessions.heard(member_id, now_ms)
        self.offsets.change(self._world.log_end(), offsets)
        if shard is None or not shard.commits_left:
            self.check_served(13)

    def _check_fence(self, member_id: str, generation: int, offsets: dict[int, int | None]) -> None:
        """Invariants 3 and 14."""
        last = self.written
        if generation != last.generation or member_id not in last.members or member_id in self.gone:
            self.fail(14, f"took a commit of {member_id} in {generation}; the log has {last}")
        for task in offsets:
            write = (generation, self._identify(member_id))
            before = self.accepted.get(task, (-1, ""))
            if write[0] < before[0] or (write[0] == before[0] and write[1] != before[1]):
                self.fail(3, f"task {task}: the write of {write} was taken after that of {before}")
            self.accepted[task] = write

    def _fetched(self, response: OffsetFetchResponse) -> None:
        """Invariant 13."""
        for group in response.groups:
            for topic in group.topics:
                for each in topic.partitions:
                    wanted = self.offsets.stable.get(each.partition_index, -1)
                    if each.error_code == 0 and each.committed_offset != wanted:
                        self.fail(13, f"served {each}, acknowledged was {wanted}")

    @override
    def wrote(self, record: LogRecord, producer: ProducerStamp | None) -> None:
        """Check a record that is in the log."""
        self._known_end = self._world.log_end()
        key = read_key(record.key)
        match key:
            case GroupMetadataKey():
                value = read_value(key, record.value)
                assert value is None or isinstance(value, GroupMetadataValue)
                self._wrote_group(value)
            case OffsetCommitKey() if record.value is None:
                self._removed(key.partition)
            case _:
                pass

    def _wrote_group(self, value: GroupMetadataValue | None) -> None:
        before = self.written
        position = self._world.log_end()
        if value is None:
            # the record before may have members: a full disk keeps it from being written as empty
            if self.offsets.stable:
                self.fail(12, f"the group is gone with offsets: {self.offsets.stable}")
            self._world.note("log: the group is gone")
            self._world.group_gone()
            self.history.append(Written(0, None, {}, position))
            self.accepted.clear()
            return
        members = {member.member_id: member.assignment for member in value.members}
        self._world.note(
            f"log: generation {value.generation}, leader {value.leader},"
            f" {[(member_id, list(tasks)) for member_id, tasks in members.items()]}"
        )
        if value.generation < before.generation:
            self.fail(1, f"generation {value.generation} after {before.generation}")
        if value.generation == before.generation and before.members and members:
            same = (value.protocol, sorted(members.values()))
            if same != (before.protocol, sorted(before.members.values())):
                self.fail(1, f"generation {value.generation} has two assignments")
        given = [task for tasks in members.values() for task in tasks]
        if members and sorted(given) != self._tasks and not self._is_of_a_lost_one(value, members):
            self.fail(2, f"generation {value.generation} gives out {given}")
        if value.generation != before.generation:
            self.rebalances += 1
        self.history.append(Written(value.generation, value.protocol, members, position))

    def _is_of_a_lost_one(self, value: GroupMetadataValue, members: Mapping[str, bytes]) -> bool:
        """Return whether the leader's plan of a generation that was lost was read late, as that of the one with its number.

        Kafka's coordinator does not notice either (`tests/kafka/test_lost_generation.py`): members that the plan does
        not name get nothing, until the next rebalance.
        """
        led = value.leader or "", value.generation
        return any(
            sorted(task for tasks in plan.values() for task in tasks) == self._tasks
            and plan.keys() != members.keys()
            and frozenset(plan) in self._led.get(led, ())
            and members == {each: plan.get(each, b"") for each in members}
            for plan in self._plans.get(led, ())
        )

    def _removed(self, partition: int) -> None:
        """Invariant 16: an offset goes only when its group has long been without members."""
        group = self.shard.classic_group if self.shard is not None else None
        now_ms = 0 if self.shard is None else self.shard.now_ms
        if group is not None and group.members:
            self.fail(16, f"the offset of task {partition} is removed from under its group")
        since_ms = group.state_timestamp_ms if group is not None else 0
        if now_ms - since_ms < self._retention_ms:
            self.fail(16, f"the offset of task {partition} is removed after {now_ms - since_ms} ms")
        self._world.note(f"log: the offset of task {partition} expired")
        self.offsets.change(self._world.log_end(), {partition: None})

    @override
    def time_passed(self, shard: ObservedShard, before: GroupSnapshot, now_ms: int) -> None:
        """Judge every expulsion (invariant 5)."""
        group = shard.classic_group
        after = {} if group is None else group.members
        for member_id in before.members:
            if member_id not in after:
                self.gone.add(member_id)
                why = self._sessions.expelled(member_id, before, now_ms)
                self._world.note(f"group: {member_id} is out: {why}")
                self._world.expelled(member_id, why)

    def check(self, now_ms: int) -> None:
        """Check what the coordinator must have done by now (invariants 5, 6 and 8)."""
        shard = self.shard
        if shard is None or (shard.seen and now_ms < self._next_check_ms):
            return
        shard.seen = True
        self._next_check_ms = now_ms + _CHECK_MS
        if shard.owed != shard.parked:
            self.fail(8, f"owes {shard.owed} answers and knows of {shard.parked}")
        group = shard.classic_group
        if group is not None:
            self._sessions.check(group, now_ms)


class AcknowledgedOffsets:
    """The offsets of one group, computed from acknowledged requests alone."""

    def __init__(self) -> None:
        self.stable: dict[int, int] = {}
        """The offsets that must be served, by partition."""
        self._changes: list[tuple[int, Mapping[int, int | None]]] = []

    def change(self, position: int, offsets: Mapping[int, int | None]) -> None:
        """Apply an acknowledged change, None for a removed offset; `position` is the end of the log right after it."""
        self._changes.append((position, offsets))
        for partition, offset in offsets.items():
            if offset is None:
                self.stable.pop(partition, None)
            else:
                self.stable[partition] = offset

    def truncate(self, log_end: int) -> None:
        """Forget the changes behind a log end, as they were lost."""
        kept = [change for change in self._changes if change[0] <= log_end]
        self.stable, self._changes = {}, []
        for position, offsets in kept:
            self.change(position, offsets)
