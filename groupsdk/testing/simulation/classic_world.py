"""Run members that share tasks by the classic protocol, and check what their processes believe."""

from collections.abc import Sequence
from typing import Final, TypeVar

from typing_extensions import override

from groupsdk.broker.settings.table import BrokerConfig, GroupConfig
from groupsdk.settings.config import MemberConfig
from groupsdk.testing.simulation.broker_process import BrokerProcess
from groupsdk.testing.simulation.faults import (
    ON_BROKERS,
    ON_MEMBERS,
    Fault,
    come_to_rest,
    live_through,
)
from groupsdk.testing.simulation.member import TASKS, TOPIC, Member
from groupsdk.testing.simulation.member_process import CallerBehavior
from groupsdk.testing.simulation.work import commit_request
from groupsdk.testing.simulation.world import GROUP, NODES, World
from groupsdk.types import NO_GENERATION, Generation


BUCKET_MS: Final = 100
RETENTION_MINUTES: Final = 1
_GATHER_MS: Final = 5


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
