"""Run members, brokers and faults under one clock, and check what must hold at every step."""

from collections import defaultdict
from typing import Any, Final

from typing_extensions import override

from groupsdk.broker.catalogue import OFFSETS_TOPIC
from groupsdk.broker.coordinator.classic.group import ClassicGroup
from groupsdk.broker.coordinator.group_status import GroupState
from groupsdk.broker.coordinator.runtime.coordinator_runtime import Marker
from groupsdk.broker.coordinators import PartitionCoordinatorLog
from groupsdk.broker.settings.table import BrokerConfig, GroupConfig
from groupsdk.member.state import MemberState
from groupsdk.settings.config import MemberConfig
from groupsdk.testing.simulation.broker_process import BrokerProcess
from groupsdk.testing.simulation.broker_world import (
    GROUP,
    NODES,
    InvariantError,
    RunOverError,
)
from groupsdk.testing.simulation.group_watch import TOPIC, GroupWatch
from groupsdk.testing.simulation.member import TASKS, Member
from groupsdk.testing.simulation.member_process import CallerBehavior
from groupsdk.testing.simulation.member_world import MemberWorld
from groupsdk.testing.simulation.observed_shard import ObservedShard
from groupsdk.wire.schema import Request, Response


__all__ = ["GROUP", "InvariantError", "Simulation"]

BUCKET_MS: Final = 100
RETENTION_MINUTES: Final = 1
_GATHER_MS: Final = 5


class Simulation(MemberWorld[Member]):
    """One run: what happens in it follows from its seed.

    Args:
        harsh: let requests of a dropped connection be read long after those of the next one. Kafka's
            protocol has no answer to that but the fence, so then only the fence is checked (invariants 3
            and 14), and what the broker does on its side.
    """

    def __init__(self, seed: int, *, harsh: bool = False) -> None:
        super().__init__(seed, harsh=harsh)
        self.synced = self.random.random() < 0.5
        """Whether the log is synced with every append, so that a loss of power loses nothing."""
        self._accepted: dict[int, tuple[int, str]] = defaultdict(lambda: (-1, ""))
        self._processes: dict[str, str] = {}
        delay_ms = self.random.choice((0, 100, 3_000))
        config = BrokerConfig.of(
            group_initial_rebalance_delay_ms=delay_ms,
            offsets_topic_num_partitions=1,
            offsets_topic_segment_bytes=2_000,
            offsets_retention_minutes=RETENTION_MINUTES,
            offsets_retention_check_interval_ms=20_000,
            log_flush_interval_messages=1 if self.synced else 2**63 - 1,
            log_flush_interval_ms=5_000,
            log_flush_scheduler_interval_ms=4_000,
            log_cleaner_min_cleanable_ratio=0.1,
        )
        self._groups = GroupConfig(
            group_initial_rebalance_delay_ms=delay_ms,
            offsets_retention_minutes=config.offsets_retention_minutes,
            offsets_retention_check_interval_ms=config.offsets_retention_check_interval_ms,
            session_bucket_ms=BUCKET_MS,
            gather_ms=_GATHER_MS if seed & 2 else 0,
        )
        self.watch = GroupWatch(
            self,
            TASKS,
            bucket_ms=BUCKET_MS,
            retention_ms=RETENTION_MINUTES * 60_000,
            identify=self._identify,
        )
        self.process = BrokerProcess(
            self.timeline,
            self,
            config,
            {TOPIC: len(TASKS)},
            nodes=NODES,
            as_bytes=self.random.random() < 0.1,
            many_connections=bool(seed & 1),
        )
        self.process.start()

    @override
    def pausing(self, duration_ms: int) -> None:
        self.disturb(duration_ms)

    @property
    @override
    def is_void(self) -> bool:
        return self.watch.lost_tail

    @override
    def coordinator_lost(self) -> None:
        self.watch.lost()

    @override
    def make_shard(self, partition: int) -> ObservedShard:
        return ObservedShard(self._groups, self._new_id, GROUP, self.watch)

    @override
    def answered(self, request: Request[Any], response: Response) -> None:
        self.watch.answered(request, response, self.timeline.now_ms())

    def group_gone(self) -> None:
        """Accept that generations restart."""
        self._accepted.clear()
        for member in self.members:
            member.callbacks.last_delivered = -1

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

    def add(self, behavior: CallerBehavior | None = None, **settings: object) -> Member:
        """Start a process."""
        name = f"p{len(self.members)}"
        config = MemberConfig.of(
            {
                "bootstrap_servers": "broker-1",
                "group_id": GROUP,
                "session_timeout_ms": 6_000,
                "heartbeat_interval_ms": 2_000,
                "rebalance_timeout_ms": 8_000,
                "request_timeout_ms": 4_000,
                **settings,
            }
        )
        member = Member(self, name, config, behavior or CallerBehavior())
        self.members.append(member)
        self.note(f"{name} starts, {config.group_instance_id or 'dynamic'}")
        return member

    @override
    def start_like(self, member: Member) -> None:
        instance_id = member.config.group_instance_id
        self.add(
            member.behavior,
            rebalance_timeout_ms=member.config.rebalance_timeout_ms,
            session_timeout_ms=member.config.session_timeout_ms,
            **({"group_instance_id": instance_id} if instance_id else {}),
        )

    @override
    def run(self, duration_ms: int) -> None:
        """Let time pass; a broken invariant ends the run."""
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
            return
        owners: dict[int, Member] = {}
        group = self.group
        for member in self.members:
            tasks = member.tasks()
            if not tasks:
                continue
            self._check_believer(member, group, now_ms)
            for task in tasks:
                other = owners.setdefault(task, member)
                if other is not member:
                    self.fail(4, f"{other.name} and {member.name} both believe in task {task}")

    def _check_believer(self, member: Member, group: ClassicGroup | None, now_ms: int) -> None:
        if now_ms >= member.polled_ms + member.config.poll_interval_ms:
            self.fail(22, f"{member.name} believes though its caller is stuck")
        generation = member.view.generation
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
        """Return the invariant that is broken if the run ends now, and why; None if the group has converged."""
        return not_converged(self)

    def check_converged(self) -> None:
        """End the run with an error unless the group has converged."""
        problem = self.not_converged()
        if problem is not None:
            self.fail(*problem)

    @override
    def check_log(self) -> None:
        """Replay the log from its start and compare (invariants 13, 17 and 18)."""
        if not self.process.alive:
            return
        self.watch.check_served(13)
        fresh = ObservedShard(self._groups, self._new_id, GROUP, self.watch)
        for entry in PartitionCoordinatorLog(self.process.cluster, OFFSETS_TOPIC, 0).replay():
            if isinstance(entry, Marker):
                fresh.replay_marker(entry.producer, committed=entry.committed)
            else:
                for record in fresh.decode([entry.record]):
                    fresh.replay(record, entry.producer)
        self.watch.check_offsets(fresh, 18)
        self.watch.check_replayed(fresh)


def not_converged(world: Simulation) -> tuple[int, str] | None:
    """Return the invariant that is broken if the run ends now, and why; None if the group has converged."""
    if world.starting:
        return 6, "a process is yet to start"
    living = [member for member in world.members if member.alive and not member.fenced]
    shard, group = world.watch.shard, world.group
    if not world.process.alive or world.process.paused or (shard is None and living):
        return 6, "there is no coordinator"
    if not living:
        if group is not None and group.state is not GroupState.EMPTY:
            return 12, f"nobody lives, yet the group is {group.state.value}"
        return None
    for member in living:
        if not member.active:
            view = member.view
            return 6, f"{member.name} is not active: {view.state} call={view.call}"
    if group is None or group.state is not GroupState.STABLE:
        return 6, f"the group is {None if group is None else group.state.value}"
    ids = {member.view.generation.member_id for member in living}
    if ids != set(group.members):
        return 11, f"living {ids}, in the group {set(group.members)}"
    owned = sorted(task for member in living for task in member.tasks())
    if owned != list(TASKS):
        return 2, f"{owned} are worked on"
    return None
