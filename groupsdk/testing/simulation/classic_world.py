"""Run members that share tasks by the classic protocol, and check what their processes believe and their callbacks are told."""

from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import Final, TypeVar

from groupsdk.broker.settings.table import BrokerConfig, GroupConfig
from groupsdk.lazy_imports import override
from groupsdk.member import events
from groupsdk.member.actions import AssignGroup, Call, CompleteJoin, PrepareJoin
from groupsdk.member.classic.membership import ClassicMembership
from groupsdk.settings.config import MemberConfig
from groupsdk.testing.simulation.broker_process import BrokerProcess
from groupsdk.testing.simulation.faults import (
    ON_BROKERS,
    ON_MEMBERS,
    Fault,
    come_to_rest,
    live_through,
)
from groupsdk.testing.simulation.member_process import CallerBehavior, MemberProcess
from groupsdk.testing.simulation.work import commit_request
from groupsdk.testing.simulation.world import GROUP, NODES, World
from groupsdk.types import NO_GENERATION, Generation, ProtocolMetadata


PROTOCOL = "even"
TOPIC = "work"
TASKS = tuple(range(5))
BUCKET_MS: Final = 100
RETENTION_MINUTES: Final = 1
_GATHER_MS: Final = 5


@dataclass
class Callbacks:
    """The callbacks that a member ran, checked against invariant 9.

    `prepared`: whether `on_join_prepare` ran for the current rebalance. `taken`: the generation and assignment of the last
    successful `on_join_complete`, `raised` those of one that raised. `log`: the calls so far, for the error.
    """

    prepared: bool = False
    lost: bool = False
    """Whether the member was expelled since `on_join_prepare` was called."""
    taken: tuple[Generation, bytes] | None = None
    raised: tuple[Generation, bytes] | None = None
    log: list[str] = field(default_factory=list)

    def on_prepare(self, generation: Generation) -> None:
        """Record an `on_join_prepare`."""
        lost = generation.generation_id == -1
        if self.prepared and not lost:
            raise AssertionError(
                f"invariant 9: on_join_prepare twice for one rebalance: {self.log}"
            )
        self.prepared, self.lost, self.taken, self.raised = True, False, None, None
        self.log.append(f"prepare {generation.generation_id}")

    def on_complete(self, generation: Generation, assignment: bytes, *, raises: bool) -> None:
        """Record an `on_join_complete`, which perhaps raised."""
        delivered = (generation, assignment)
        self.log.append(f"complete {generation.generation_id}{' raises' if raises else ''}")
        if self.raised is not None and self.raised[0] == generation and self.raised != delivered:
            raise AssertionError(f"invariant 9: redelivered with other bytes: {self.log}")
        if self.lost or not self.prepared:
            raise AssertionError(f"invariant 9: on_join_complete without prepare: {self.log}")
        if raises:
            self.raised = delivered
        else:
            self.prepared, self.taken, self.raised = False, delivered, None


class Member(MemberProcess):
    """One process with tasks."""

    def __init__(
        self, world: "ClassicWorld", name: str, config: MemberConfig, behavior: CallerBehavior
    ) -> None:
        self.callbacks = Callbacks()
        self._tasks_world = world
        super().__init__(world, name, config, behavior, partial(ClassicMembership, config))

    @override
    def believes(self) -> frozenset[int]:
        return frozenset(self.tasks())

    def tasks(self) -> bytes:
        """Return the same, as its assignment has it."""
        taken, view = self.callbacks.taken, self.view
        if not self.alive or taken is None or not view.believes_at(self.clock_ms):
            return b""
        generation, assignment = taken
        return assignment if generation == view.generation else b""

    @override
    def _gives_up(self) -> None:
        self.callbacks.taken = None

    @override
    def _lost(self) -> None:
        self.callbacks.lost = True

    @override
    def _perform(self, call: Call, raises: bool, duration_ms: int) -> None:
        if isinstance(call, PrepareJoin) and call.run_callback:
            self.callbacks.on_prepare(call.generation)
        elif isinstance(call, CompleteJoin):
            self._tasks_world.delivered(self, call.generation)
            self.callbacks.on_complete(call.generation, call.assignment, raises=raises)
            if not raises:
                self.work.assigned((TOPIC, task) for task in call.assignment)
        self._later(duration_ms, lambda: self._finish(call, raises))

    @override
    def _answer(self, call: Call) -> events.CallerEvent:
        match call:
            case PrepareJoin():
                offer = (ProtocolMetadata(PROTOCOL, self.name.encode()),)
                return events.JoinPrepared(call.call_id, "work", offer)
            case AssignGroup():
                plan = share_out(call.generation.generation_id, list(call.members))
                return events.GroupAssigned(call.call_id, plan)
            case CompleteJoin():
                return events.JoinDelivered(call.call_id)


def share_out(generation: int, members: list[str]) -> dict[str, bytes]:
    """Share the tasks out so that as many as possible change hands in each generation."""
    plan: dict[str, bytearray] = {member: bytearray() for member in members}
    for task in TASKS:
        plan[members[(task + generation) % len(members)]].append(task)
    return {member: bytes(tasks) for member, tasks in plan.items()}


class ClassicWorld(World[Member]):
    """One run of a classic group."""

    syncs_always = True
    """Whether the log of every run is synced with each append, so that a loss of power loses nothing; else in half of them."""

    def __init__(self, seed: int, *, harsh: bool = False) -> None:
        super().__init__(seed, harsh=harsh)
        synced = self.random.random() < 0.5 or self.syncs_always
        delay_ms = self.random.choice((0, 100, 3_000))
        config = BrokerConfig.of(
            group_initial_rebalance_delay_ms=delay_ms,
            offsets_topic_num_partitions=1,
            offsets_topic_segment_bytes=2_000,
            offsets_retention_minutes=RETENTION_MINUTES,
            offsets_retention_check_interval_ms=20_000,
            log_flush_interval_messages=1 if synced else 2**63 - 1,
            log_flush_interval_ms=5_000,
            log_flush_scheduler_interval_ms=4_000,
            log_cleaner_min_cleanable_ratio=0.1,
        )
        self.group_settings = GroupConfig(
            group_initial_rebalance_delay_ms=delay_ms,
            offsets_retention_minutes=config.offsets_retention_minutes,
            offsets_retention_check_interval_ms=config.offsets_retention_check_interval_ms,
            session_bucket_ms=BUCKET_MS,
            gather_ms=_GATHER_MS if seed & 2 else 0,
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
        self.start()

    @override
    def pausing(self, duration_ms: int) -> None:
        self.disturb(duration_ms)

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
    def happened(self) -> None:
        """Check that no two processes believe in one task (invariant 4), and none whose caller is stuck (22)."""
        if self.harsh:
            return
        owners: dict[int, Member] = {}
        for member in self.members:
            tasks = member.tasks()
            if not tasks:
                continue
            self.check_believer(member)
            for task in tasks:
                other = owners.setdefault(task, member)
                if other is not member:
                    self.fail(4, f"{other.name} and {member.name} both believe in task {task}")

    def check_believer(self, member: Member) -> None:
        """Check a member that believes in its assignment."""
        if self.timeline.now_ms() >= member.polled_ms + member.config.poll_interval_ms:
            self.fail(22, f"{member.name} believes though its caller is stuck")

    def delivered(self, member: Member, generation: Generation) -> None:
        """Called before a member runs `on_join_complete`."""

    @property
    def living(self) -> list[Member]:
        """The members that are to take part in the group."""
        return [member for member in self.members if member.alive and not member.fenced]

    @override
    def not_converged(self) -> tuple[int, str] | None:
        if self.starting:
            return 6, "a process is yet to start"
        if not self.process.alive or self.process.paused:
            return 6, "there is no coordinator"
        for member in self.living:
            if not member.active:
                view = member.view
                return 6, f"{member.name} is not active: {view.state} call={view.call}"
        owned = sorted(task for member in self.living for task in member.tasks())
        if self.living and owned != list(TASKS):
            return 2, f"{owned} are worked on"
        return None


ClassicWorldT = TypeVar("ClassicWorldT", bound=ClassicWorld)


def commit_from_outside(
    world: ClassicWorld,
    _: Member | None = None,
    *,
    generation: Generation = NO_GENERATION,
    tasks: Sequence[int] = TASKS,
) -> None:
    """Commit as a tool does, without a generation: taken only of a group without members."""
    offsets = {(TOPIC, world.random.choice(tasks)): world.random.randrange(1_000)}
    node_id = world.process.coordinator(GROUP)
    if node_id is not None:
        request = commit_request(GROUP, generation, None, offsets)
        world.timeline.after(
            0, lambda: world.process.handle(node_id, request, lambda _: None, "outside")
        )


FAULTS: Final[tuple[Fault, ...]] = (*ON_MEMBERS, *ON_BROKERS, commit_from_outside)


def play_classic(world: ClassicWorldT, faults: Sequence[Fault] = FAULTS) -> ClassicWorldT:
    """Run some members through some faults, and check that the group recovers."""
    random = world.random
    # Sessions longer than the rebalance timeout and shorter ones: each hides other mistakes.
    session_ms = random.choice((6_000, 6_000, 15_000))
    for number in range(random.randrange(1, 5)):
        behavior = CallerBehavior(
            tick_ms=random.choice((700, 1_500, 2_500)),
            raises=random.choice((0.0, 0.0, 0.2)),
            slow=random.choice((0.0, 0.0, 0.1)),
            slow_ms=random.choice((500, 3_000, 9_000)),
        )
        static = {"group_instance_id": f"i{number}"} if random.random() < 0.3 else {}
        world.add(
            behavior,
            session_timeout_ms=session_ms,
            rebalance_timeout_ms=random.choice((5_000, 8_000)),
            max_poll_interval_ms=random.choice((8_000, 8_000, 20_000)),
            **static,
        )
        if random.random() < 0.5:
            world.run(random.randrange(0, 4_000))
    live_through(world, faults, random.randrange(1, 7), (5, 100, 1_000, 3_000, 6_000))
    come_to_rest(world)
    return world
