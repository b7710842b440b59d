"""Name what may happen to a member or to the coordinator, and make a whole run of it."""

from collections.abc import Callable

from groupsdk.types import GroupMembershipOperation
from tests.simulation.member import Member, Temper
from tests.simulation.world import Simulation


Fault = Callable[[Simulation, Member], None]


def _pause(world: Simulation, member: Member) -> None:
    duration_ms = world.random.choice((500, 3_000, 7_000, 12_000, 20_000))
    world.note(f"{member.name} is paused for {duration_ms} ms")
    world.excuse(member, duration_ms)
    world.disturb(duration_ms)
    member.pause(duration_ms)


def _break(world: Simulation, member: Member) -> None:
    world.note(f"{member.name}'s connection breaks")
    world.excuse(member, 0)
    member.break_connection()


def _cut(world: Simulation, member: Member) -> None:
    duration_ms = world.random.choice((500, 3_000, 7_000, 15_000))
    world.note(f"{member.name} is cut off for {duration_ms} ms")
    world.excuse(member, duration_ms)
    member.cut(duration_ms)


def _stall(world: Simulation, member: Member) -> None:
    duration_ms = world.random.choice((3_000, 7_500, 9_000, 15_000))
    world.note(f"{member.name}'s caller stalls for {duration_ms} ms")
    member.stall(duration_ms)


def _crash(world: Simulation, _: Member) -> None:
    world.crash_coordinator(world.random.choice((100, 1_000, 5_000)))


def _move(world: Simulation, _: Member) -> None:
    world.move_coordinator(world.random.choice((1, 100, 2_000)))


def _kill(world: Simulation, member: Member) -> None:
    if member.replaced:
        return
    world.note(f"{member.name} is killed")
    member.kill()
    restart(world, member)


def _close(world: Simulation, member: Member) -> None:
    if member.replaced:
        return
    operation = world.random.choice(list(GroupMembershipOperation))
    world.note(f"{member.name} closes: {operation.value}")
    member.close(operation)
    restart(world, member)


def restart(world: Simulation, member: Member) -> None:
    """Start a process in the place of one that is over, with the same instance id."""
    delay_ms = world.random.choice((3_100, 5_000, 9_000))
    instance_id = member.config.group_instance_id

    def start() -> None:
        world.starting -= 1
        member.kill()
        world.add(
            member.temper,
            rebalance_timeout_ms=member.config.rebalance_timeout_ms,
            session_timeout_ms=member.config.session_timeout_ms,
            **({"group_instance_id": instance_id} if instance_id else {}),
        )

    world.starting += 1
    member.replaced = True
    world.timeline.after(delay_ms, start)


def _leave(world: Simulation, member: Member) -> None:
    world.note(f"{member.name} leaves")
    member.leave()


def _rejoin(world: Simulation, member: Member) -> None:
    world.note(f"{member.name} asks for a rebalance")
    member.rejoin()


FAULTS: tuple[Fault, ...] = (
    _pause, _break, _break, _cut, _stall, _crash, _move, _kill, _close, _leave, _rejoin, _rejoin,
)  # fmt: skip


def random_run(seed: int, *, harsh: bool = False) -> Simulation:
    """Let some members live through some faults, and see that all is well afterwards."""
    world = Simulation(seed, harsh=harsh)
    random = world.random
    # Sessions longer than the rebalance timeout and shorter ones: each hides other mistakes.
    session_ms = random.choice((6_000, 6_000, 15_000))
    for number in range(random.randrange(1, 5)):
        temper = Temper(
            tick_ms=random.choice((300, 1_000, 2_500)),
            raises=random.choice((0.0, 0.0, 0.2)),
            slow=random.choice((0.0, 0.0, 0.1)),
            slow_ms=random.choice((500, 3_000, 9_000)),
        )
        static = {"group_instance_id": f"i{number}"} if random.random() < 0.3 else {}
        world.add(
            temper,
            session_timeout_ms=session_ms,
            rebalance_timeout_ms=random.choice((5_000, 8_000)),
            max_poll_interval_ms=random.choice((8_000, 8_000, 20_000)),
            **static,
        )
        if random.random() < 0.5:
            world.run(random.randrange(0, 4_000))
    for _ in range(random.randrange(1, 7)):
        world.run(random.choice((5, 100, 1_000, 3_000, 6_000)) * random.randrange(1, 4))
        living = [member for member in world.members if member.alive]
        if living:
            random.choice(FAULTS)(world, random.choice(living))
    for member in world.members:
        if member.temper.slow_ms > 5_000:
            member.temper.slow = 0.0
        member.temper.raises = 0.0
    world.settle(75_000)
    return world
