"""Runs of members that share tasks, with a watch over what the group's coordinator writes, answers and decides."""

from collections import defaultdict
from collections.abc import Iterator
from typing import Any, Final

from typing_extensions import override

from groupsdk.broker.catalogue import OFFSETS_TOPIC
from groupsdk.broker.coordinator.classic.group import ClassicGroup
from groupsdk.broker.coordinator.group_status import GroupState
from groupsdk.broker.coordinator.runtime.contract import LogRecord
from groupsdk.broker.coordinators import PartitionCoordinatorLog
from groupsdk.member.state import MemberState
from groupsdk.testing.simulation.classic_world import (
    BUCKET_MS,
    FAULTS,
    PROTOCOL,
    RETENTION_MINUTES,
    TASKS,
    ClassicWorld,
    Member,
    commit_from_outside,
    play_classic,
)
from groupsdk.testing.simulation.faults import Fault
from groupsdk.testing.simulation.world import GROUP, InvariantError, RunOverError
from groupsdk.types import Generation
from groupsdk.wire.records.batch import batches
from groupsdk.wire.records.record import read_records
from groupsdk.wire.schema import Request, Response
from tests.simulation.group_watch import GroupWatch
from tests.simulation.observed_shard import ObservedShard


__all__ = ["GROUP", "InvariantError", "Simulation", "random_run"]


class Simulation(ClassicWorld):
    """One run; in a harsh one only the fence is checked (invariants 3 and 14), and what the broker does on its side."""

    syncs_always = False

    def __init__(self, seed: int, *, harsh: bool = False) -> None:
        self._accepted: dict[int, tuple[int, str]] = defaultdict(lambda: (-1, ""))
        self._delivered: dict[str, int] = {}
        """The last generation that each process was told of."""
        super().__init__(seed, harsh=harsh)

    @override
    def start(self) -> None:
        self.watch = GroupWatch(
            self,
            TASKS,
            bucket_ms=BUCKET_MS,
            retention_ms=RETENTION_MINUTES * 60_000,
            identify=self._identify,
        )
        super().start()

    @property
    @override
    def is_void(self) -> bool:
        return self.watch.lost_tail

    @override
    def coordinator_lost(self) -> None:
        self.watch.lost()

    @override
    def make_shard(self, partition: int) -> ObservedShard:
        return ObservedShard(self.group_settings, self._new_id, GROUP, (self.watch,))

    @override
    def answered(self, request: Request[Any], response: Response) -> None:
        super().answered(request, response)
        self.watch.answered(request, response, self.timeline.now_ms())

    def log_end(self) -> int:
        """Return the end of the group's log; one that is not open yet is not opened for it."""
        log = self.process.opened_log()
        return 0 if log is None else log.log_end_offset

    def read_log(self, start: int) -> Iterator[LogRecord]:
        """Go through the group's log from an offset on."""
        log = self.process.opened_log()
        if log is not None and start < log.log_end_offset:
            data = log.read(start, log.size).data
            for _, position in batches(data):
                for record in read_records(data, position):
                    if record.key is not None and record.offset >= start:
                        yield LogRecord(record.key, record.value)

    def group_gone(self) -> None:
        """Accept that generations restart."""
        self._accepted.clear()
        self._delivered.clear()

    @override
    def delivered(self, member: Member, generation: Generation) -> None:
        """Check that generations only grow (invariant 9)."""
        newest = self._delivered.get(member.name, -1)
        if generation.generation_id < newest:
            self.fail(9, f"{member.name} is told of {generation}, after generation {newest}")
        self._delivered[member.name] = generation.generation_id

    def expelled(self, member_id: str, why: str) -> None:
        """Ask whether that had a reason on the member's side (invariant 5)."""
        member = next((m for m in self.members if m.view.generation.member_id == member_id), None)
        if member is None or self.harsh:
            return
        excused_ms = max(member.excused_until_ms, self._disturbed_until_ms)
        beating = member.view.state in (MemberState.STABLE, MemberState.COMPLETING_REBALANCE)
        if why != "session expired" or not beating:  # a caller that is late stops no heartbeat
            excused_ms = max(excused_ms, member.late_until_ms)
        if member.alive and self.timeline.now_ms() > excused_ms:
            self.fail(5, f"{member.name} was expelled ({why}) though nothing had happened to it")

    def _identify(self, member_id: str) -> str:
        """Name the process behind a member id, or the instance that several are in turn."""
        return member_id.rpartition("-")[0]

    @override
    def run(self, duration_ms: int) -> None:
        if self.watch.lost_tail:
            return
        try:
            super().run(duration_ms)
        except RunOverError:
            # what was acknowledged is lost by rule: what members know of it is void
            return

    @property
    def group(self) -> ClassicGroup | None:
        """The group as its coordinator has it."""
        return None if self.watch.shard is None else self.watch.shard.classic_group

    @override
    def happened(self) -> None:
        if self.watch.lost_tail:
            raise RunOverError
        now_ms = self.timeline.now_ms()
        if self.process.paused_until_ms < now_ms:
            self.watch.check(now_ms)
        if self.harsh:
            self._check_fence()
        super().happened()

    @override
    def check_believer(self, member: Member) -> None:
        """Check that the group is in the generation that a member believes in (invariant 7)."""
        super().check_believer(member)
        group, generation = self.group, member.view.generation
        if group is None:
            if self.watch.shard is not None:
                self.fail(7, f"{member.name} believes in {generation} of a group that is not there")
            return
        in_group = generation.member_id in group.members
        if not in_group or group.generation_id != generation.generation_id:
            self.fail(
                7,
                f"{member.name} believes in generation {generation.generation_id}; the group is in"
                f" {group.generation_id} {'with' if in_group else 'without'} it",
            )

    def _check_fence(self) -> None:
        """Ask for everyone who believes whether the group would take a write (invariant 3)."""
        group = self.group
        if group is None or group.state is GroupState.COMPLETING_REBALANCE:
            return
        for member in self.members:
            generation = member.view.generation
            for task in sorted(member.tasks()):
                known = group.validate(generation.member_id, member.config.group_instance_id)
                if known or generation.generation_id != group.generation_id:
                    continue
                # A static member that restarts goes on with what it had, under another member id.
                write = (generation.generation_id, member.config.group_instance_id or member.name)
                before = self._accepted[task]
                if write[0] < before[0] or (write[0] == before[0] and write[1] != before[1]):
                    self.fail(
                        3, f"task {task}: the write of {write} was taken after that of {before}"
                    )
                self._accepted[task] = write

    @override
    def not_converged(self) -> tuple[int, str] | None:
        return super().not_converged() or self._unsettled_group()

    def _unsettled_group(self) -> tuple[int, str] | None:
        group, living = self.group, self.living
        if not living:
            if group is not None and group.state is not GroupState.EMPTY:
                return 12, f"nobody lives, yet the group is {group.state.value}"
            return None
        if group is None or group.state is not GroupState.STABLE:
            return 6, f"the group is {None if group is None else group.state.value}"
        ids = {member.view.generation.member_id for member in living}
        if ids != set(group.members):
            return 11, f"living {ids}, in the group {set(group.members)}"
        return None

    @override
    def check_log(self) -> None:
        """Replay the log from its start and compare (invariants 13, 17 and 18)."""
        if not self.process.alive:
            return
        self.watch.check_served(13)
        fresh = self.make_shard(0)
        for entry in PartitionCoordinatorLog(self.process.cluster, OFFSETS_TOPIC, 0).replay():
            fresh.replay_entry(entry)
        self.watch.check_offsets(fresh, 18)
        self.watch.check_replayed(fresh)


def _commit_of_old(world: Simulation, _: Member) -> None:
    """Commit as some member in some generation would that was, or is."""
    known = [each for each in world.watch.history if each.members]
    if known:
        written = world.random.choice(known)
        member_id = world.random.choice(sorted(written.members))
        tasks = written.members[member_id]
        if tasks:
            generation = Generation(written.generation, member_id, PROTOCOL)
            commit_from_outside(world, generation=generation, tasks=tasks)


_FAULTS: Final[tuple[Fault, ...]] = (*FAULTS, _commit_of_old, _commit_of_old)


def random_run(seed: int, *, harsh: bool = False) -> Simulation:
    """Run some members through some faults, and check that the group recovers."""
    return play_classic(Simulation(seed, harsh=harsh), _FAULTS)
