"""Name what may happen to a member or to the coordinator, whatever the protocol."""

from collections.abc import Callable, Sequence
from functools import partial
from typing import Any, Final

from groupsdk.testing.simulation.world import World
from groupsdk.types import GroupMembershipOperation


AnyWorld = World[Any]
Fault = Callable[[Any, Any], None]
_SETTLED_BY_MS: Final = 75_000


def _pause(world: AnyWorld, member: Any) -> None:
    duration_ms = world.random.choice((500, 3_000, 7_000, 12_000, 20_000))
    world.note(f"{member.name} is paused for {duration_ms} ms")
    world.excuse(member, duration_ms)
    world.pausing(duration_ms)
    member.pause(duration_ms)


def _break(world: AnyWorld, member: Any) -> None:
    world.note(f"{member.name}'s connection breaks")
    world.excuse(member, 0)
    member.break_connection()


def _cut(world: AnyWorld, member: Any) -> None:
    duration_ms = world.random.choice((500, 3_000, 7_000, 15_000))
    world.note(f"{member.name} is cut off for {duration_ms} ms")
    world.excuse(member, duration_ms)
    member.cut(duration_ms)


def _part(world: AnyWorld, member: Any) -> None:
    duration_ms = world.random.choice((500, 3_000, 7_000, 15_000))
    node_id = world.random.choice(sorted(world.process.nodes))
    world.note(f"{member.name} cannot reach node {node_id} for {duration_ms} ms")
    world.excuse(member, duration_ms)
    member.cut_from(node_id, duration_ms)


def _stall(world: AnyWorld, member: Any) -> None:
    duration_ms = world.random.choice((3_000, 7_500, 9_000, 15_000))
    world.note(f"{member.name}'s caller stalls for {duration_ms} ms")
    member.stall(duration_ms)


def _crash(world: AnyWorld, _: Any) -> None:
    world.crash_coordinator(world.random.choice((100, 1_000, 5_000)))


def _lose_power(world: AnyWorld, _: Any) -> None:
    world.lose_power(world.random.choice((100, 1_000, 5_000)), torn=world.random.choice((0, 7, 80)))


def _lose_power_in_a_write(world: AnyWorld, _: Any) -> None:
    random = world.random
    torn = random.choice((0, 7, 80, 10_000))
    world.lose_power(random.choice((100, 2_000)), torn=torn, after_writes=random.randrange(12))


def _move(world: AnyWorld, _: Any) -> None:
    world.move_coordinator()


def _stop_node(world: AnyWorld, _: Any) -> None:
    world.stop_coordinator(world.random.choice((100, 3_000, 20_000)))


def _pause_broker(world: AnyWorld, _: Any) -> None:
    world.pause_broker(world.random.choice((200, 2_000, 7_000)))


def _fill_disk(world: AnyWorld, _: Any) -> None:
    world.fill_disk(world.random.choice((500, 3_000, 10_000)))


def _compact(world: AnyWorld, _: Any) -> None:
    if world.process.alive and not world.process.paused:
        world.note("the log is compacted")
        world.compact()


def _kill(world: AnyWorld, member: Any) -> None:
    if member.replaced:
        return
    world.note(f"{member.name} is killed")
    member.kill()
    world.restart(member, world.random.choice((3_100, 5_000, 9_000)))


def _close(world: AnyWorld, member: Any) -> None:
    if member.replaced:
        return
    operation = world.random.choice(list(GroupMembershipOperation))
    world.note(f"{member.name} closes: {operation.value}")
    world.closing(member, operation)
    member.close(operation)
    world.restart(member, world.random.choice((3_100, 5_000, 9_000)))


def _leave(world: AnyWorld, member: Any) -> None:
    world.note(f"{member.name} leaves")
    member.leave()


def _rejoin(world: AnyWorld, member: Any) -> None:
    world.note(f"{member.name} asks for a rebalance")
    member.rejoin()


ON_MEMBERS: Final[tuple[Fault, ...]] = (
    _pause, _break, _break, _cut, _part, _stall, _kill, _close, _leave, _rejoin, _rejoin,
)  # fmt: skip
ON_BROKERS: Final[tuple[Fault, ...]] = (
    _crash, _lose_power, _lose_power_in_a_write, _move, _stop_node, _pause_broker, _fill_disk, _compact,
)  # fmt: skip


def step_clock(world: AnyWorld, member: Any) -> None:
    """Let the clock of a process jump ahead."""
    by_ms = world.random.choice((200, 3_000, 8_000, 60_000))
    world.note(f"{member.name}'s clock jumps ahead by {by_ms} ms")
    world.excuse(member, 0)
    member.step_clock(by_ms)


def live_through(
    world: AnyWorld, faults: Sequence[Fault], count: int, pauses_ms: Sequence[int]
) -> None:
    """Let so many random faults happen to random members, or to the broker, one after the other, each after a pause."""
    random = world.random
    for _ in range(count):
        world.run(random.choice(pauses_ms) * random.randrange(1, 4))
        living = [each for each in world.members if each.alive]
        if living:
            fault, member = random.choice(faults), random.choice(living)
            # as a part of the run, so that what it raises is told with the seed
            world.timeline.after(0, partial(fault, world, member))
            world.run(0)
        if world.is_void:
            return


def come_to_rest(world: AnyWorld) -> None:
    """Let no more faults happen, and see that all is well in time and that the log says so."""
    if world.is_void:
        return
    for member in world.members:
        if member.behavior.slow_ms > 5_000:
            member.behavior.slow = 0.0
        member.behavior.raises = 0.0
    world.process.files.before = None
    world.settle(_SETTLED_BY_MS)
    if not world.is_void:
        world.check_log()
