"""Build a random run of a consumer group whose members may use and switch between both protocols."""

from collections.abc import Sequence
from typing import Final, TypeVar

from groupsdk.testing.simulation.consumer_member import (
    ConsumerMember,
    ConsumerSetup,
    SpokenProtocol,
)
from groupsdk.testing.simulation.consumer_world import TOPICS, ConsumerWorld
from groupsdk.testing.simulation.faults import (
    ON_BROKERS,
    ON_MEMBERS,
    Fault,
    come_to_rest,
    live_through,
    step_clock,
)
from groupsdk.testing.simulation.member_process import CallerBehavior
from groupsdk.types import GroupMembershipOperation


SUBSCRIPTIONS: Final = (("work",), ("work",), ("more", "work"), ("more",), ("late", "work"))
"""Nobody has created the topic "late" when a run begins."""
_MORE_AT_MOST: Final = 6


def _subscribe(world: ConsumerWorld, member: ConsumerMember) -> None:
    topics = world.random.choice(SUBSCRIPTIONS)
    world.note(f"{member.name} reads {' '.join(topics)} from now on")
    member.subscribe(topics)


def _grow(world: ConsumerWorld, _: ConsumerMember) -> None:
    counts = world.partition_counts()
    if world.process.paused or not 0 < counts.get("more", 0) < _MORE_AT_MOST:
        return
    world.note(f"more grows to {counts['more'] + 1} partitions")
    world.grow_topic("more", counts["more"] + 1)


def _create(world: ConsumerWorld, _: ConsumerMember) -> None:
    if not world.process.paused:
        world.note("late is created")
        world.create_topic("late", 2)


def _recreate(world: ConsumerWorld, _: ConsumerMember) -> None:
    if world.process.paused or "more" not in world.partition_counts():
        return
    after_ms = world.random.choice((1, 700, 5_000))
    world.note(f"more is deleted, and created again after {after_ms} ms")
    world.delete_topic("more")
    _create_again(world, after_ms)


def _create_again(world: ConsumerWorld, after_ms: int) -> None:
    def create() -> None:
        if not world.process.alive or world.process.paused:
            _create_again(world, 500)
            return
        world.note("more is created again")
        world.create_topic("more", TOPICS["more"])

    world.timeline.after(after_ms, create)


def _delay_names(world: ConsumerWorld, _: ConsumerMember) -> None:
    duration_ms = world.random.choice((300, 2_000, 6_000))
    world.note(f"for {duration_ms} ms no broker knows the names of topics")
    world.delay_names(duration_ms)


def _migrate(world: ConsumerWorld, member: ConsumerMember) -> None:
    """Close a process, and start it in another protocol, as in a rolling restart."""
    if member.replaced:
        return
    protocol = world.random.choice(world.protocols)
    member.next_setup = ConsumerSetup(member.setup.topics, protocol)
    world.note(f"{member.name} is restarted as one of the {protocol.value} protocol")
    operation = world.random.choice(list(GroupMembershipOperation))
    world.closing(member, operation)
    member.close(operation)
    world.restart(member, world.random.choice((100, 3_100, 9_000)))


FAULTS: Final[tuple[Fault, ...]] = (
    *ON_MEMBERS, *ON_BROKERS, step_clock, _subscribe, _subscribe, _grow, _create, _recreate, _delay_names,
    _migrate, _migrate,
)  # fmt: skip


ConsumerWorldT = TypeVar("ConsumerWorldT", bound=ConsumerWorld)


def play_consumers(world: ConsumerWorldT, faults: Sequence[Fault] = FAULTS) -> ConsumerWorldT:
    """Run some consumers through some faults, and check that their groups recover."""
    random = world.random
    classic = random.choice((SpokenProtocol.EAGER, SpokenProtocol.COOPERATIVE))
    world.protocols = random.choice(
        (
            (SpokenProtocol.CONSUMER,),
            (SpokenProtocol.CONSUMER, classic),
            (SpokenProtocol.CONSUMER, classic),
        )
    )
    group_ids = world.group_ids
    for number in range(random.randrange(1, 5) if len(group_ids) == 1 else random.randrange(3, 7)):
        behavior = CallerBehavior(
            tick_ms=random.choice((100, 700, 2_500)),
            raises=random.choice((0.0, 0.0, 0.2)),
            slow=random.choice((0.0, 0.0, 0.1)),
            slow_ms=random.choice((500, 3_000, 9_000)),
        )
        static = {"group_instance_id": f"i{number}"} if random.random() < 0.3 else {}
        world.add(
            behavior,
            ConsumerSetup(random.choice(SUBSCRIPTIONS), random.choice(world.protocols)),
            group_id=group_ids[number % len(group_ids)],
            callbacks_ms=random.choice((5, 50, 900, 3_000)),
            max_poll_interval_ms=random.choice((8_000, 8_000, 20_000)),
            **static,
        )
        if random.random() < 0.5:
            world.run(random.randrange(0, 3_000))
    live_through(world, faults, random.randrange(1, 8), (5, 100, 700, 1_500, 4_000))
    for member in world.members:
        member.callbacks_ms = min(member.callbacks_ms, 900)
    come_to_rest(world)
    return world
