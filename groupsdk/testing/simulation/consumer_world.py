"""Run members of a consumer group (KIP-848), brokers and faults under one clock, and check what must hold."""

from collections.abc import Callable, Iterator, Sequence
from functools import partial
from typing import Any, Final
from uuid import UUID

from typing_extensions import override

from groupsdk.broker.catalogue import OFFSETS_TOPIC
from groupsdk.broker.classic_groups.config import GroupConfig
from groupsdk.broker.config import BrokerConfig
from groupsdk.broker.coordinators import (
    CatalogueImage,
    PartitionCoordinatorLog,
    consumer_group_settings,
)
from groupsdk.broker.group_status import ConsumerGroupState
from groupsdk.broker.log.errors import StorageError
from groupsdk.broker.runtime.contract import LogRecord
from groupsdk.broker.runtime.coordinator_runtime import Replayed
from groupsdk.testing.simulation.broker_world import AFTERMATH_MS, GROUP, NODES, BrokerWorld
from groupsdk.testing.simulation.consumer_member import (
    ConsumerMember,
    ConsumerTemper,
    Phase,
    Place,
    commit_request,
)
from groupsdk.testing.simulation.consumer_watch import ConsumerWatch, WatchedShard
from groupsdk.testing.simulation.process import BrokerProcess
from groupsdk.wire.messages.consumer_group_heartbeat import (
    ConsumerGroupHeartbeatRequest,
    TopicPartitions,
)
from groupsdk.wire.schema import Request, Response


SESSION_MS: Final = 6_000
_STEP_MS: Final = 1_000
"""How long it takes at most until a member has said what its listeners did."""
TOPICS: Final = {"work": 5, "more": 2}
SUBSCRIPTIONS: Final = (("work",), ("work",), ("more", "work"), ("more",))
RETENTION_MINUTES: Final = 1


class ConsumerSimulation(BrokerWorld):
    """One run of a consumer group: what happens in it follows from its seed."""

    def __init__(self, seed: int) -> None:
        super().__init__(seed)
        self.members: list[ConsumerMember] = []
        self.starting = 0
        """How many processes are about to start."""
        self._config = BrokerConfig.of(
            offsets_topic_num_partitions=1,
            offsets_topic_segment_bytes=4_000,
            offsets_retention_minutes=RETENTION_MINUTES,
            offsets_retention_check_interval_ms=20_000,
            log_flush_interval_messages=1,
            log_cleaner_min_cleanable_ratio=0.1,
            group_consumer_session_timeout_ms=SESSION_MS,
            group_consumer_min_session_timeout_ms=SESSION_MS,
            group_consumer_heartbeat_interval_ms=500,
            group_consumer_min_heartbeat_interval_ms=500,
            group_consumer_assignment_interval_ms=self.random.choice((0, 0, 1_000)),
            group_consumer_release=self.random.choice(("4.3", "4.4")),
        )
        self._groups = GroupConfig(
            offsets_retention_minutes=self._config.offsets_retention_minutes,
            offsets_retention_check_interval_ms=self._config.offsets_retention_check_interval_ms,
        )
        self.watch = ConsumerWatch(self, GROUP, SESSION_MS)
        self._names: dict[UUID, str] = {}
        self.process = BrokerProcess(
            self.timeline,
            self,
            self._config,
            dict(TOPICS),
            nodes=NODES,
            as_bytes=self.random.random() < 0.1,
            crowded=bool(seed & 1),
        )
        self.process.start()
        topics = self.process.cluster.catalogue.topics
        self._names = {topics[name].topic_id: name for name in TOPICS}
        self._ids_by_name = {name: topic_id for topic_id, name in self._names.items()}

    # What a kind of run has of its own.

    @property
    @override
    def connected(self) -> Sequence[ConsumerMember]:
        """The members."""
        return self.members

    @override
    def coordinator_lost(self) -> None:
        """Take note that the coordinator is gone without a word."""
        self.watch.lost()

    @override
    def make_shard(self, partition: int) -> WatchedShard:
        """Make the coordinator of the group."""
        cluster = self.process.cluster
        image = CatalogueImage(cluster)
        made = WatchedShard(
            *(self._groups, self._new_id, GROUP, self.watch),
            consumer_settings=consumer_group_settings(cluster),
            image=lambda: image,
        )
        made.timed_out = self.watch.timed_out
        return made

    @override
    def answered(self, request: Request[Any], response: Response) -> None:
        """Hold an answer that is being sent against what it promises."""
        self.watch.answered(request, response, self.timeline.now_ms())

    # What the watch and the members need.

    def now_ms(self) -> int:
        """Return the time."""
        return self.timeline.now_ms()

    def name_of(self, topic_id: UUID) -> str:
        """Return the name of a topic."""
        return self._names[topic_id]

    def topic_names(self, given: tuple[TopicPartitions, ...]) -> frozenset[Place] | None:
        """Return partitions by the names of their topics; None where one is not known."""
        if any(each.topic_id not in self._names for each in given):
            return None
        return frozenset(
            (self._names[each.topic_id], index) for each in given for index in each.partitions
        )

    def topic_ids(self, places: frozenset[Place]) -> tuple[TopicPartitions, ...]:
        """Return partitions by the ids of their topics."""
        found: dict[UUID, tuple[int, ...]] = {}
        for name, index in sorted(places):
            topic_id = self._ids_by_name[name]
            found[topic_id] = (*found.get(topic_id, ()), index)
        return tuple(TopicPartitions(*each) for each in found.items())

    @property
    def is_disturbed(self) -> bool:
        """Whether the broker has troubles, or had some a moment ago."""
        return self.timeline.now_ms() <= self._disturbed_until_ms

    def expelled(self, member_id: str, why: str) -> None:
        """Ask whether that had a reason on the member's side (invariant 5)."""
        self.note(f"group: {member_id} is removed: its {why} timeout")
        member = next((each for each in self.members if each.name == member_id), None)
        if member is None or not member.alive:
            return
        excused_ms = max(member.excused_until_ms, self._disturbed_until_ms)
        late = why == "rebalance" and member.slowest_ms + _STEP_MS > member.rebalance_timeout_ms
        if not late and self.timeline.now_ms() > excused_ms:
            self.fail(5, f"{member.name} was removed ({why}) though nothing had happened to it")

    # What happens to members.

    def add(
        self, temper: ConsumerTemper, topics: tuple[str, ...], instance_id: str | None = None
    ) -> ConsumerMember:
        """Start a process."""
        name = f"p{len(self.members)}"
        member = ConsumerMember(self, name, GROUP, topics, temper, instance_id=instance_id)
        self.members.append(member)
        self.note(f"{name} starts, {instance_id or 'dynamic'}, reads {' '.join(topics)}")
        return member

    def excuse(self, member: ConsumerMember, duration_ms: int) -> None:
        """Note that for so long, and for what follows from it, a member cannot be blamed."""
        until_ms = self.timeline.now_ms() + duration_ms + AFTERMATH_MS
        member.excused_until_ms = max(member.excused_until_ms, until_ms)

    def restart(self, member: ConsumerMember, delay_ms: int) -> None:
        """Start a process in the place of one that is over, with the same instance id."""

        def start() -> None:
            self.starting -= 1
            member.kill()
            self.add(member.temper, member.topics, member.instance_id)

        self.starting += 1
        member.replaced = True
        self.timeline.after(delay_ms, start)

    def whole_log(self) -> Iterator[LogRecord]:
        """Go through the group's log."""
        log = PartitionCoordinatorLog(self.process.cluster, OFFSETS_TOPIC, 0)
        for entry in log.replay():
            if isinstance(entry, Replayed):
                yield entry.record

    # What must hold.

    @override
    def happened(self) -> None:
        """Check what must hold at every step."""
        if self.process.paused_until_ms < self.timeline.now_ms():
            self.watch.check()
        if self.watch.shard is None:
            return
        for member in self.members:
            if not member.owned:
                continue
            known = self.watch.members.get(member.name)
            if known is None:
                continue  # it was removed, and has not heard of it: only the fence holds it
            held = {(self._names[topic_id], index) for topic_id, index in known.held}
            if not member.owned <= held:
                self.fail(
                    4, f"{member.name} works on {sorted(member.owned - held)}, which is not its own"
                )

    def settle(self, at_most_ms: int) -> None:
        """Let time pass until all is well again; it has to be so in time (invariant 6)."""
        until_ms = self.timeline.now_ms() + at_most_ms
        while True:
            self.run(2_000)
            problem = self.unsettled()
            if problem is None:
                return
            if self.timeline.now_ms() >= until_ms:
                self.fail(*problem)

    def unsettled(self) -> tuple[int, str] | None:
        """Return which invariant would be broken if all had to be well by now; None: all is well."""
        if self.starting:
            return 6, "a process is yet to start"
        living = [each for each in self.members if each.alive]
        shard = self.watch.shard
        if shard is None or not self.process.alive:
            return (6, "there is no coordinator") if living else None
        group = shard.consumer
        if not living:
            if group is not None and group.members:
                return 12, f"nobody lives, yet the group has {set(group.members)}"
            return None
        for member in living:
            if not member.is_settled:
                return (
                    6,
                    f"{member.name} is {member.phase.value} in {member.epoch}, {member.target}",
                )
        if group is None or group.state is not ConsumerGroupState.STABLE:
            return 6, f"the group is {None if group is None else group.state.value}"
        if {each.name for each in living} != set(group.members):
            return 11, f"living {[each.name for each in living]}, in it {set(group.members)}"
        counts = {
            name: len(self.process.cluster.catalogue.topics[name].partitions) for name in TOPICS
        }
        wanted = sorted(
            (topic, index)
            for topic in {topic for each in living for topic in each.topics}
            for index in range(counts[topic])
        )
        owned = sorted(place for each in living for place in each.owned)
        if owned != wanted:
            return 2, f"{owned} are worked on"
        return None

    def check_log(self) -> None:
        """Replay the log from its start and compare (invariants 13, 17 and 18)."""
        if not self.process.alive or self.watch.shard is None:
            return
        fresh = self.make_shard(0)
        for record in self.whole_log():
            for decoded in fresh.decode([record]):
                fresh.replay(decoded)
        self.watch.check_state(fresh, 18)

    def compact(self) -> None:
        """Compact the group's log, and check that it says the same as before (invariant 18)."""
        log = self.process.opened_log()
        if log is None:
            return
        try:
            self.process.run(lambda: log.compact(self.timeline.now_ms()))
        except StorageError as error:
            self.note(f"log: {error}")
        self.check_log()


Fault = Callable[[ConsumerSimulation, ConsumerMember], None]


def _pause(world: ConsumerSimulation, member: ConsumerMember) -> None:
    duration_ms = world.random.choice((500, 3_000, 7_000, 12_000))
    world.note(f"{member.name} is paused for {duration_ms} ms")
    world.excuse(member, duration_ms)
    member.pause(duration_ms)


def _break(world: ConsumerSimulation, member: ConsumerMember) -> None:
    world.note(f"{member.name}'s connection breaks")
    world.excuse(member, 0)
    member.break_connection()


def _cut(world: ConsumerSimulation, member: ConsumerMember) -> None:
    duration_ms = world.random.choice((500, 3_000, 7_000, 12_000))
    world.note(f"{member.name} is cut off for {duration_ms} ms")
    world.excuse(member, duration_ms)
    member.cut(duration_ms)


def _kill(world: ConsumerSimulation, member: ConsumerMember) -> None:
    if member.replaced:
        return
    world.note(f"{member.name} is killed")
    member.kill()
    world.restart(member, world.random.choice((50, 3_000, 9_000)))


def _leave(world: ConsumerSimulation, member: ConsumerMember) -> None:
    if member.replaced:
        return
    world.note(f"{member.name} leaves")
    member.leave()
    world.restart(member, world.random.choice((500, 3_000, 9_000)))


def _subscribe(world: ConsumerSimulation, member: ConsumerMember) -> None:
    topics = world.random.choice(SUBSCRIPTIONS)
    world.note(f"{member.name} reads {' '.join(topics)} from now on")
    member.subscribe(topics)


def _grow(world: ConsumerSimulation, _: ConsumerMember) -> None:
    if not world.process.alive or world.process.paused:
        return
    cluster = world.process.cluster
    count = len(cluster.catalogue.topics["more"].partitions) + 1
    world.note(f"more grows to {count} partitions")
    world.process.run(lambda: cluster.add_partitions("more", count))


def _crash(world: ConsumerSimulation, _: ConsumerMember) -> None:
    world.crash_coordinator(world.random.choice((100, 1_000, 5_000)))


def _lose_power(world: ConsumerSimulation, _: ConsumerMember) -> None:
    world.lose_power(world.random.choice((100, 5_000)), torn=world.random.choice((0, 7, 80)))


def _lose_power_in_a_write(world: ConsumerSimulation, _: ConsumerMember) -> None:
    random = world.random
    torn = random.choice((0, 7, 80, 10_000))
    world.lose_power(random.choice((100, 2_000)), torn=torn, after_writes=random.randrange(12))


def _move(world: ConsumerSimulation, _: ConsumerMember) -> None:
    world.move_coordinator()


def _stop_node(world: ConsumerSimulation, _: ConsumerMember) -> None:
    world.stop_coordinator(world.random.choice((100, 3_000, 20_000)))


def _pause_broker(world: ConsumerSimulation, _: ConsumerMember) -> None:
    world.pause_broker(world.random.choice((200, 2_000, 7_000)))


def _fill_disk(world: ConsumerSimulation, _: ConsumerMember) -> None:
    world.fill_disk(world.random.choice((500, 3_000)))


def _compact(world: ConsumerSimulation, _: ConsumerMember) -> None:
    if world.process.alive and not world.process.paused:
        world.note("the log is compacted")
        world.compact()


def _commit_from_outside(world: ConsumerSimulation, member: ConsumerMember) -> None:
    """Commit as a tool does, or as somebody does who was a member in an earlier epoch."""
    random = world.random
    node_id = world.process.coordinator(GROUP)
    if node_id is None:
        return
    places = [(topic, index) for topic, count in TOPICS.items() for index in range(count)]
    in_group = world.watch.members
    known = [each for each in world.members if each.epoch and each.name not in in_group]
    member_id, epoch = "", -1
    if known and random.random() < 0.7:
        one = random.choice(known)
        member_id, epoch = one.name, one.epoch
    elif random.random() < 0.7 and member.name in in_group and in_group[member.name].epoch > 1:
        # as a request of the member itself that was long on its way
        member_id, epoch = member.name, random.randrange(1, in_group[member.name].epoch)
        places = [each for each in places if each not in member.owned] or places
    offsets = {random.choice(places): random.randrange(1_000)}
    request = commit_request(GROUP, member_id, epoch, offsets)
    world.timeline.after(
        0, lambda: world.process.handle(node_id, request, lambda _: None, "outside")
    )


def _heartbeat_of_old(world: ConsumerSimulation, member: ConsumerMember) -> None:
    """Let a heartbeat arrive that a member sent long ago, when it owned nothing."""
    shard, node_id = world.watch.shard, world.process.coordinator(GROUP)
    group = None if shard is None else shard.consumer
    known = None if group is None else group.members.get(member.name)
    if known is None or node_id is None or min(known.previous_epoch, known.epoch) < 2:
        return
    # the epoch before the present one would count: the answer to it may have been lost
    epoch = world.random.randrange(1, min(known.previous_epoch, known.epoch))
    request = ConsumerGroupHeartbeatRequest(
        GROUP, member.name, epoch, member.instance_id, topic_partitions=()
    )
    world.timeline.after(
        0, lambda: world.process.handle(node_id, request, lambda _: None, member.name)
    )


FAULTS: Final[tuple[Fault, ...]] = (
    _pause, _pause, _break, _break, _cut, _kill, _leave, _leave, _subscribe, _subscribe, _grow,
    _crash, _lose_power, _lose_power_in_a_write, _move, _stop_node, _pause_broker, _fill_disk, _compact,
    _commit_from_outside, _commit_from_outside, _heartbeat_of_old, _heartbeat_of_old,
)  # fmt: skip


def random_consumer_run(seed: int) -> ConsumerSimulation:
    """Let some members of a consumer group live through some faults, and see that all is well afterwards."""
    world = ConsumerSimulation(seed)
    random = world.random
    for number in range(random.randrange(1, 5)):
        temper = ConsumerTemper(random.choice((5, 50, 900, 5_000)), random.choice((0.05, 0.3)))
        static = f"i{number}" if random.random() < 0.3 else None
        world.add(temper, random.choice(SUBSCRIPTIONS), static)
        if random.random() < 0.5:
            world.run(random.randrange(0, 3_000))
    for _ in range(random.randrange(1, 8)):
        world.run(random.choice((5, 100, 700, 1_500, 4_000)) * random.randrange(1, 4))
        living = [each for each in world.members if each.phase is not Phase.GONE]
        if living:
            fault, member = random.choice(FAULTS), random.choice(living)
            # as a part of the run, so that what it raises is told with the seed
            world.timeline.after(0, partial(fault, world, member))
            world.run(0)
    for each in world.members:
        each.temper.callbacks_ms = min(each.temper.callbacks_ms, 900)
    world.process.files.before = None
    world.settle(75_000)
    world.check_log()
    return world
