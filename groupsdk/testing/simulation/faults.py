"""Name what may happen to a member or to the coordinator, and make a whole run of it."""

from collections.abc import Callable, Sequence
from functools import partial

from groupsdk.testing.simulation.member import PROTOCOL, TASKS, Member, Temper
from groupsdk.testing.simulation.work import commit_request
from groupsdk.testing.simulation.world import GROUP, Simulation
from groupsdk.types import NO_GENERATION, Generation, GroupMembershipOperation


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


def _part(world: Simulation, member: Member) -> None:
    duration_ms = world.random.choice((500, 3_000, 7_000, 15_000))
    node_id = world.random.choice(sorted(world.process.nodes))
    world.note(f"{member.name} cannot reach node {node_id} for {duration_ms} ms")
    world.excuse(member, duration_ms)
    member.cut_from(node_id, duration_ms)


def _stall(world: Simulation, member: Member) -> None:
    duration_ms = world.random.choice((3_000, 7_500, 9_000, 15_000))
    world.note(f"{member.name}'s caller stalls for {duration_ms} ms")
    member.stall(duration_ms)


def _crash(world: Simulation, _: Member) -> None:
    world.crash_coordinator(world.random.choice((100, 1_000, 5_000)))


def _lose_power(world: Simulation, _: Member) -> None:
    world.lose_power(world.random.choice((100, 1_000, 5_000)), torn=world.random.choice((0, 7, 80)))


def _lose_power_in_a_write(world: Simulation, _: Member) -> None:
    random = world.random
    torn = random.choice((0, 7, 80, 10_000))
    world.lose_power(random.choice((100, 2_000)), torn=torn, after_writes=random.randrange(12))


def _move(world: Simulation, _: Member) -> None:
    world.move_coordinator()


def _stop_node(world: Simulation, _: Member) -> None:
    world.stop_coordinator(world.random.choice((100, 3_000, 20_000)))


def _pause_broker(world: Simulation, _: Member) -> None:
    world.pause_broker(world.random.choice((200, 2_000, 7_000)))


def _fill_disk(world: Simulation, _: Member) -> None:
    world.fill_disk(world.random.choice((500, 3_000, 10_000)))


def _compact(world: Simulation, _: Member) -> None:
    if world.process.alive and not world.process.paused:
        world.note("the log is compacted")
        world.compact()


def _commit_from_outside(world: Simulation, _: Member) -> None:
    """Commit as a tool does, without a generation: taken only of a group without members."""
    _commit(world, NO_GENERATION)


def _commit_of_old(world: Simulation, _: Member) -> None:
    """Commit as some member in some generation would that was, or is."""
    known = [each for each in world.watch.history if each.members]
    if known:
        written = world.random.choice(known)
        member_id = world.random.choice(sorted(written.members))
        tasks = written.members[member_id]
        if tasks:
            _commit(world, Generation(written.generation, member_id, PROTOCOL), tasks)


def _commit(world: Simulation, generation: Generation, tasks: Sequence[int] = TASKS) -> None:
    offsets = {world.random.choice(tasks): world.random.randrange(1_000)}
    node_id = world.process.coordinator(GROUP)
    if node_id is not None:
        request = commit_request(GROUP, generation, None, offsets)
        world.timeline.after(
            0, lambda: world.process.handle(node_id, request, lambda _: None, "outside")
        )


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
    _pause, _break, _break, _cut, _part, _stall, _kill, _close, _leave, _rejoin, _rejoin,
    _crash, _lose_power, _lose_power_in_a_write, _move, _stop_node, _pause_broker, _fill_disk, _compact,
    _commit_from_outside, _commit_of_old, _commit_of_old,
)  # fmt: skip


def random_run(seed: int, *, harsh: bool = False) -> Simulation:
    """Let some members live through some faults, and see that all is well afterwards."""
    world = Simulation(seed, harsh=harsh)
    random = world.random
    # Sessions longer than the rebalance timeout and shorter ones: each hides other mistakes.
    session_ms = random.choice((6_000, 6_000, 15_000))
    for number in range(random.randrange(1, 5)):
        temper = Temper(
            tick_ms=random.choice((700, 1_500, 2_500)),
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
            fault, member = random.choice(FAULTS), random.choice(living)
            # as a part of the run, so that what it raises is told with the seed
            world.timeline.after(0, partial(fault, world, member))
            world.run(0)
        if world.watch.lost_tail:
            # by rule: what members know of the generations that are lost is void, and so is the rest
            return world
    if world.watch.lost_tail:
        return world
    for member in world.members:
        if member.temper.slow_ms > 5_000:
            member.temper.slow = 0.0
        member.temper.raises = 0.0
    world.process.files.before = None
    world.settle(75_000)
    if not world.watch.lost_tail:
        world.check_log()
    return world
