"""A random run of a group of shard workers."""

from typing import Final

from groupsdk.testing.simulation.faults import (
    ON_MEMBERS,
    Fault,
    _crash,
    _move,
    _pause_broker,
    _stop_node,
    live_through,
    step_clock,
)
from groupsdk.testing.simulation.member_process import CallerBehavior
from tests.shards.world import FORGET, OWN_FAULTS, ShardWorld


# not those after which the broker has lost what it had acknowledged
_ON_BROKERS: Final = (_crash, _move, _stop_node, _pause_broker)
FAULTS: Final[tuple[Fault, ...]] = (*ON_MEMBERS, *OWN_FAULTS, *OWN_FAULTS, *_ON_BROKERS, step_clock)
_SETTLED_BY_MS: Final = 120_000
_PAUSES_MS: Final = 25_000
"""After so long the longest pause is over."""
_ROLLED: Final = 5
_ROUND_TRIPS_MS: Final = 4 * 80
"""Of the slowest messages: join, answer, sync, answer; and of the same once more for one that comes late."""
_OTHERS_MS: Final = 100
"""How long another owner that releases more slowly may have the rest wait."""
_REST_MS: Final = 20_000


def random_run(seed: int) -> ShardWorld:
    """Run some workers through some faults, and check that all shards are owned again, and stay where they are."""
    world = ShardWorld(seed)
    random = world.random
    session_ms = random.choice((6_000, 6_000, 15_000))
    for number in range(random.randrange(1, 5)):
        behavior = CallerBehavior(
            tick_ms=random.choice((700, 1_500)),
            raises=random.choice((0.0, 0.0, 0.2)),
            slow=random.choice((0.0, 0.0, 0.1)),
            slow_ms=random.choice((500, 3_000)),
        )
        static = {"group_instance_id": f"i{number}"} if random.random() < 0.3 else {}
        world.add(
            behavior,
            hangs=random.choice((0.0, 0.0, 0.3)),
            session_timeout_ms=session_ms,
            rebalance_timeout_ms=random.choice((5_000, 8_000)),
            max_poll_interval_ms=random.choice((8_000, 8_000, 20_000)),
            **static,
        )
        if random.random() < 0.5:
            world.run(random.randrange(0, 4_000))
    live_through(world, FAULTS, random.randrange(1, 8), (5, 100, 1_000, 3_000, 6_000))
    if random.random() < 0.25:
        FORGET(world, world.members[0])
    _come_to_rest(world)
    return world


def _come_to_rest(world: ShardWorld) -> None:
    for member in world.members:
        member.behavior = CallerBehavior(tick_ms=member.behavior.tick_ms)
        member.hangs = 0.0
    world.list_raises = 0.0
    world.run(_PAUSES_MS)
    world.settle(_SETTLED_BY_MS)
    _check_rest(world)


def rolling_restart(seed: int) -> ShardWorld:
    """Have each of some workers drain and start again, one after the other, with nothing else going on.

    No shard may be without an owner for longer than its release took, and the round trips of a rebalance (invariant 57).
    """
    world = ShardWorld(seed)
    world.listed = [f"s{number}" for number in range(24)]
    for _ in range(_ROLLED):
        world.add(CallerBehavior(tick_ms=700), heartbeat_interval_ms=3_000)
    world.settle(_SETTLED_BY_MS)
    world.gaps.clear()
    for member in [*world.members]:
        member.drain()
        world.settle(_SETTLED_BY_MS)
        world.start_like(member)
        world.settle(_SETTLED_BY_MS)
    for release_ms, gap_ms in world.gaps:
        if gap_ms > release_ms + _ROUND_TRIPS_MS + _OTHERS_MS:
            world.fail(57, f"released within {release_ms} ms, gained after {gap_ms} ms")
    _check_quiet(world)
    return world


def _check_rest(world: ShardWorld) -> None:
    """Check that another rebalance moves nothing (invariant 56)."""
    living = [each for each in world.members if each.alive and not each.closed and not each.drains]
    if not living:
        return
    before = {each.name: each.holds() for each in living}
    generation = living[0].view.generation.generation_id
    living[0].rejoin()
    world.run(_REST_MS)
    if world.not_converged() is None and living[0].view.generation.generation_id > generation:
        after = {each.name: each.holds() for each in living}
        if after != before:
            world.fail(56, f"a rebalance without a reason has made {after} of {before}")
        _check_quiet(world)


def _check_quiet(world: ShardWorld) -> None:
    """Check that a group at rest does not rebalance (invariant 58)."""
    before = world.generation
    world.run(_REST_MS)
    if world.generation != before:
        world.fail(58, f"at rest the generation went from {before} to {world.generation}")
