"""Build a random run of a consumer group whose members may use and switch between both protocols."""

from typing import Final

from groupsdk.testing.simulation.consumer_member import (
    ConsumerMember,
    ConsumerSetup,
    SpokenProtocol,
)
from groupsdk.testing.simulation.consumer_world import TOPICS, ConsumerSimulation
from groupsdk.testing.simulation.faults import (
    ON_BROKERS,
    ON_MEMBERS,
    Fault,
    come_to_rest,
    live_through,
    step_clock,
)
from groupsdk.testing.simulation.member_process import CallerBehavior
from groupsdk.testing.simulation.work import commit_request
from groupsdk.types import Generation, GroupMembershipOperation
from groupsdk.wire.messages.consumer_groups import ConsumerGroupHeartbeatRequest


SUBSCRIPTIONS: Final = (("work",), ("work",), ("more", "work"), ("more",), ("late", "work"))
"""Nobody has created the topic "late" when a run begins."""
_MORE_AT_MOST: Final = 6


def _subscribe(world: ConsumerSimulation, member: ConsumerMember) -> None:
    topics = world.random.choice(SUBSCRIPTIONS)
    world.note(f"{member.name} reads {' '.join(topics)} from now on")
    member.subscribe(topics)


def _grow(world: ConsumerSimulation, _: ConsumerMember) -> None:
    counts = world.partition_counts()
    if world.process.paused or not 0 < counts.get("more", 0) < _MORE_AT_MOST:
        return
    world.note(f"more grows to {counts['more'] + 1} partitions")
    world.grow_topic("more", counts["more"] + 1)


def _create(world: ConsumerSimulation, _: ConsumerMember) -> None:
    if not world.process.paused:
        world.note("late is created")
        world.create_topic("late", 2)


def _recreate(world: ConsumerSimulation, _: ConsumerMember) -> None:
    if world.process.paused or "more" not in world.partition_counts():
        return
    after_ms = world.random.choice((1, 700, 5_000))
    world.note(f"more is deleted, and created again after {after_ms} ms")
    world.delete_topic("more")
    _create_again(world, after_ms)


def _create_again(world: ConsumerSimulation, after_ms: int) -> None:
    def create() -> None:
        if not world.process.alive or world.process.paused:
            _create_again(world, 500)
            return
        world.note("more is created again")
        world.create_topic("more", TOPICS["more"])

    world.timeline.after(after_ms, create)


def _delay_names(world: ConsumerSimulation, _: ConsumerMember) -> None:
    duration_ms = world.random.choice((300, 2_000, 6_000))
    world.note(f"for {duration_ms} ms no broker knows the names of topics")
    world.delay_names(duration_ms)


def _migrate(world: ConsumerSimulation, member: ConsumerMember) -> None:
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


def _commit_from_outside(world: ConsumerSimulation, member: ConsumerMember) -> None:
    """Commit as a tool does, or as somebody does who was a member in an earlier epoch."""
    random = world.random
    group_id, watch = member.config.group_id, world.watch_of(member)
    node_id = world.process.coordinator(group_id)
    if node_id is None:
        return
    places = [(topic, index) for topic, count in TOPICS.items() for index in range(count)]
    known = sorted(each for each in watch.seen if each not in watch.ids)
    member_id, epoch = "", -1
    own = member.view.generation
    if known and random.random() < 0.7:
        member_id = random.choice(known)
        epoch = watch.seen[member_id]
    elif random.random() < 0.7 and own.generation_id > 1:
        # as a request of the member itself that was long on its way
        member_id, epoch = own.member_id, random.randrange(1, own.generation_id)
        places = [each for each in places if each not in member.owned]
        if not places:
            return  # of what it works on, an offset from elsewhere would only make its own go back
    offsets = {random.choice(places): random.randrange(1_000)}
    request = commit_request(group_id, Generation(epoch, member_id, None), None, offsets)
    world.timeline.after(
        0, lambda: world.process.handle(node_id, request, lambda _: None, "outside")
    )


def _heartbeat_of_old(world: ConsumerSimulation, member: ConsumerMember) -> None:
    """Let a heartbeat arrive that a member sent long ago, when it owned nothing."""
    group_id, group = member.config.group_id, world.watch_of(member).group
    node_id = world.process.coordinator(group_id)
    member_id = member.view.generation.member_id
    known = None if group is None else group.members.get(member_id)
    if known is None or node_id is None or min(known.previous_epoch, known.epoch) < 2:
        return
    if member.setup.protocol.is_classic:
        return
    # the epoch before the present one would count: the answer to it may have been lost
    epoch = world.random.randrange(1, min(known.previous_epoch, known.epoch))
    request = ConsumerGroupHeartbeatRequest(
        group_id, member_id, epoch, member.config.group_instance_id, topic_partitions=()
    )
    world.timeline.after(
        0, lambda: world.process.handle(node_id, request, lambda _: None, member.name)
    )


FAULTS: Final[tuple[Fault, ...]] = (
    *ON_MEMBERS, *ON_BROKERS, step_clock, _subscribe, _subscribe, _grow, _create, _recreate, _delay_names,
    _commit_from_outside, _commit_from_outside, _heartbeat_of_old, _heartbeat_of_old, _migrate, _migrate,
)  # fmt: skip


def random_consumer_run(
    seed: int, *, harsh: bool = False, extended: bool = False
) -> ConsumerSimulation:
    """Run some consumers through some faults, and check that their groups recover."""
    world = ConsumerSimulation(seed, harsh=harsh, extended=extended)
    random = world.random
    classic = random.choice((SpokenProtocol.EAGER, SpokenProtocol.COOPERATIVE))
    world.protocols = random.choice(
        (
            (SpokenProtocol.CONSUMER,),
            (SpokenProtocol.CONSUMER, classic),
            (SpokenProtocol.CONSUMER, classic),
        )
    )
    group_ids = world.watches.group_ids
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
    live_through(world, FAULTS, random.randrange(1, 8), (5, 100, 700, 1_500, 4_000))
    for member in world.members:
        member.callbacks_ms = min(member.callbacks_ms, 900)
    come_to_rest(world)
    return world
