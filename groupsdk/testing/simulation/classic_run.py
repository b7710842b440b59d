"""Build a random run of members that share tasks over the classic protocol."""

from collections.abc import Sequence
from typing import Final

from groupsdk.testing.simulation.faults import (
    ON_BROKERS,
    ON_MEMBERS,
    Fault,
    come_to_rest,
    live_through,
)
from groupsdk.testing.simulation.group_watch import TOPIC
from groupsdk.testing.simulation.member import PROTOCOL, TASKS, Member
from groupsdk.testing.simulation.member_process import CallerBehavior
from groupsdk.testing.simulation.work import commit_request
from groupsdk.testing.simulation.world import GROUP, Simulation
from groupsdk.types import NO_GENERATION, Generation


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
    offsets = {(TOPIC, world.random.choice(tasks)): world.random.randrange(1_000)}
    node_id = world.process.coordinator(GROUP)
    if node_id is not None:
        request = commit_request(GROUP, generation, None, offsets)
        world.timeline.after(
            0, lambda: world.process.handle(node_id, request, lambda _: None, "outside")
        )


FAULTS: Final[tuple[Fault, ...]] = (
    *ON_MEMBERS, *ON_BROKERS, _commit_from_outside, _commit_of_old, _commit_of_old,
)  # fmt: skip


def random_run(seed: int, *, harsh: bool = False) -> Simulation:
    """Run some members through some faults, and check that the group recovers."""
    world = Simulation(seed, harsh=harsh)
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
    live_through(world, FAULTS, random.randrange(1, 7), (5, 100, 1_000, 3_000, 6_000))
    come_to_rest(world)
    return world
