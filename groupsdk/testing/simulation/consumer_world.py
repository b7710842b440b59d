"""Run consumers of both protocols, which may switch between them, and check what their processes believe (KIP-848)."""

from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final, TypeVar

from groupsdk.broker.coordinator.group.shard import GroupCoordinatorShard
from groupsdk.broker.coordinators import CatalogueImage, consumer_group_settings
from groupsdk.broker.log.errors import StorageError
from groupsdk.broker.settings.table import BrokerConfig, GroupConfig, MigrationPolicy
from groupsdk.lazy_imports import override
from groupsdk.settings.config import ConsumerMemberConfig, MemberConfig
from groupsdk.testing.simulation.broker_process import BrokerProcess
from groupsdk.testing.simulation.consumer_member import (
    ConsumerMember,
    ConsumerSetup,
    SpokenProtocol,
)
from groupsdk.testing.simulation.faults import (
    ON_BROKERS,
    ON_MEMBERS,
    Fault,
    come_to_rest,
    live_through,
    step_clock,
)
from groupsdk.testing.simulation.member_process import CallerBehavior
from groupsdk.testing.simulation.work import TopicPartition
from groupsdk.testing.simulation.world import GROUP, NODES, World
from groupsdk.types import GroupMembershipOperation


SESSION_MS: Final = 6_000
INTERVAL_MS: Final = 500
TOPICS: Final = {"work": 5, "more": 2}
RETENTION_MINUTES: Final = 1
_NEVER_MS: Final = -(10**9)


class ConsumerWorld(World[ConsumerMember]):
    """One run of a consumer group: what happens in it follows from its seed.

    Args:
        harsh: see `World`; then a partition may be believed in by two, and only the fence holds.
        extended: let some runs have two groups, and some commit as consumers do or in transactions.
    """

    settle_step_ms = 2_000

    def __init__(self, seed: int, *, harsh: bool = False, extended: bool = False) -> None:
        super().__init__(seed, harsh=harsh)
        self.protocols: tuple[SpokenProtocol, ...] = (SpokenProtocol.CONSUMER,)
        """Those that members of this run may speak."""
        self.policy = self._policy_of(seed)
        self.has_patterns = seed % 7 == 6
        """Whether members of the consumer protocol may subscribe with an expression for the broker."""
        self.has_transactions = extended and seed % 9 in (1, 6)
        """Whether members commit as consumers do, with retries, or in transactions."""
        self._config = BrokerConfig.of(
            group_consumer_migration_policy=self.policy.value,
            offsets_topic_num_partitions=1,
            offsets_topic_segment_bytes=4_000,
            transaction_state_log_num_partitions=1,
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
        self.group_settings = GroupConfig(
            offsets_retention_minutes=self._config.offsets_retention_minutes,
            offsets_retention_check_interval_ms=self._config.offsets_retention_check_interval_ms,
            group_initial_rebalance_delay_ms=self.random.choice((0, 0, 1_000)),
        )
        # an eighth of the runs has two groups of one coordinator
        self.group_ids = (GROUP, "h") if extended and seed % 8 == 5 else (GROUP,)
        self._helped: set[str] = set()
        self._deleted_ms: dict[str, int] = {}
        """When each topic was deleted last."""
        self._names_late_until_ms = _NEVER_MS
        self.process = BrokerProcess(
            self.timeline,
            self,
            self._config,
            dict(TOPICS),
            nodes=NODES,
            as_bytes=self.random.random() < 0.1,
            many_connections=bool(seed & 1),
        )
        self.start()

    @staticmethod
    def _policy_of(seed: int) -> MigrationPolicy:
        """Return whether groups may change their protocol; by the seed, so that older runs stay what they were."""
        if seed % 5 != 4:
            return MigrationPolicy.BIDIRECTIONAL
        others = (MigrationPolicy.DISABLED, MigrationPolicy.UPGRADE, MigrationPolicy.DOWNGRADE)
        return others[seed // 5 % 3]

    @override
    def make_shard(self, partition: int) -> GroupCoordinatorShard:
        return GroupCoordinatorShard(self.group_settings, self._new_id, **self.settings_of_shard())

    def settings_of_shard(self) -> dict[str, Any]:
        """Return the settings of a coordinator that are beside those of classic groups."""
        cluster = self.process.cluster
        image = CatalogueImage(cluster)
        return {
            "consumer_settings": consumer_group_settings(cluster),
            "image": lambda: image,
            "topics": cluster.catalogue.topics,
        }

    def partition_counts(self) -> Mapping[str, int]:
        """Return how many partitions each topic has; of those that members may read."""
        if not self.process.alive:
            return {}
        topics = self.process.cluster.catalogue.topics
        return {name: len(each.partitions) for name, each in topics.items() if name[0] != "_"}

    @property
    def names_are_late(self) -> bool:
        """Whether no broker has heard of any topic's name yet."""
        return self.timeline.now_ms() < self._names_late_until_ms

    def was_deleted_since(self, topic: str, since_ms: int) -> bool:
        """Return whether a topic was deleted since a time, so that its name means something else by now."""
        return self._deleted_ms.get(topic, _NEVER_MS) >= since_ms

    def delay_names(self, duration_ms: int) -> None:
        """Let no broker know the name of any topic for so long."""
        self._names_late_until_ms = self.timeline.now_ms() + duration_ms
        self.disturb(duration_ms)

    def delete_topic(self, name: str) -> None:
        self._deleted_ms[name] = self.timeline.now_ms()
        self._change_topics(lambda: self.process.cluster.delete_topics((name,)))

    def create_topic(self, name: str, count: int) -> None:
        """Create a topic, as a new one with another id where there was one of that name."""
        if self.process.alive and name not in self.process.cluster.catalogue.topics:
            self._change_topics(lambda: self.process.cluster.create_topics({name: count}))

    def grow_topic(self, name: str, count: int) -> None:
        """Let a topic grow to so many partitions."""
        self._change_topics(lambda: self.process.cluster.add_partitions(name, count))

    def _change_topics(self, change: Callable[[], object]) -> None:
        try:
            self.process.run(change)
        except StorageError as error:
            self.note(f"topics: {error}")
        for member in self.members:
            if member.alive and member.setup.protocol.is_classic:
                member.rejoin()  # the consumers of a classic group watch the topics themselves

    def add(
        self,
        behavior: CallerBehavior,
        setup: ConsumerSetup,
        *,
        group_id: str = GROUP,
        callbacks_ms: int = 50,
        **settings: object,
    ) -> ConsumerMember:
        """Start a process."""
        name = f"p{len(self.members)}"
        given: dict[str, Any] = {
            "bootstrap_servers": "broker-1",
            "group_id": group_id,
            "rebalance_timeout_ms": 8_000,
            "max_poll_interval_ms": 8_000,
            "request_timeout_ms": 4_000,
            **settings,
        }
        if setup.protocol.is_classic:
            given |= {"session_timeout_ms": SESSION_MS, "heartbeat_interval_ms": INTERVAL_MS}
            config = MemberConfig(**given)
        else:
            config = ConsumerMemberConfig(**given)
        member = ConsumerMember(self, name, config, behavior, setup, callbacks_ms)
        self.members.append(member)
        self.note(
            f"{name} starts, {config.group_instance_id or 'dynamic'}, {setup.protocol.value},"
            f" reads {' '.join(setup.topics)}"
        )
        return member

    @override
    def start_like(self, member: ConsumerMember) -> None:
        config = member.config
        self.add(
            member.behavior,
            member.next_setup or member.setup,
            group_id=config.group_id,
            callbacks_ms=member.callbacks_ms,
            rebalance_timeout_ms=config.rebalance_timeout_ms,
            max_poll_interval_ms=config.max_poll_interval_ms,
            **({"group_instance_id": config.group_instance_id} if config.group_instance_id else {}),
        )

    @override
    def happened(self) -> None:
        for member in self.members:
            if member.was_away:
                self.fail(11, f"{member.name} gave its membership up, and could have joined again")
            if member.is_refused and not member.replaced:
                self._go_over(member)
        if not self.harsh:
            self.check_owners()

    def _go_over(self, member: ConsumerMember) -> None:
        """Restart a process in the protocol that the group has, as `group.protocol=auto` or an operator does."""
        was_classic = member.setup.protocol.is_classic
        other = next(
            protocol for protocol in self.protocols if protocol.is_classic is not was_classic
        )
        self.note(f"{member.name} is refused as one of {member.setup.protocol.value}")
        member.next_setup = ConsumerSetup(member.setup.topics, other)
        self.restart(member, 1_000)

    @property
    def knows_exceptions(self) -> bool:
        """Whether `overlooked` of each member tells what Kafka's coordinator forgets while a group changes its protocol."""
        return len(self.protocols) == 1

    def check_owners(self) -> None:
        """Check that no two believe in a partition (invariant 4), and nobody whose caller is stuck in any (22)."""
        now_ms = self.timeline.now_ms()
        owners: dict[tuple[str, TopicPartition], ConsumerMember] = {}
        for member in self.members:
            if not member.owned:
                continue
            if now_ms >= member.polled_ms + member.config.poll_interval_ms and member.believes():
                self.fail(22, f"{member.name} believes though its caller is stuck")
            if not self.knows_exceptions:
                continue
            believed = [
                each for each in sorted(member.believes()) if not self._is_excepted(member, each)
            ]
            for place in believed:
                other = owners.setdefault((member.config.group_id, place), member)
                if other is not member:
                    self.fail(4, f"{other.name} and {member.name} both believe in {place}")
            if believed:
                self.check_believer(member, believed)

    def check_believer(self, member: ConsumerMember, believed: list[TopicPartition]) -> None:
        """Check a member that believes in partitions."""

    def _is_excepted(self, member: ConsumerMember, place: TopicPartition) -> bool:
        """Return whether a belief may be wrong, as Kafka's protocol knows no better.

        The name of a topic that was deleted may be that of another by now. And where a group is upgraded while
        a cooperative member is giving partitions up, or while there is no new assignment yet, the coordinator
        takes the newest assignment for what the member has. So it does for members of any kind where the group had
        become a classic one just before, and is upgraded again before they have joined again. Where a static member makes
        the group a classic one, it is given its target at once, whether or not others have given that up.
        """
        if place in member.overlooked:
            return True
        return self.was_deleted_since(place[0], member.taken_ms[place])

    @override
    def not_converged(self) -> tuple[int, str] | None:
        if self.starting:
            return 6, "a process is yet to start"
        return next(filter(None, map(self.unsettled_in, self.group_ids)), None)

    def unsettled_in(self, group_id: str) -> tuple[int, str] | None:
        """Return what is missing in one group, as `not_converged` does."""
        living = self.living_in(group_id)
        if living and not self.process.alive:
            return 6, "there is no coordinator"
        for member in living:
            if not member.active:
                view = member.view
                return 6, f"{member.name} is not active: {view.state} call={view.call}"
        problem = self.unsettled_group(group_id)
        if problem is not None or not living:
            return problem
        owned = sorted(place for each in living for place in each.believes())
        wanted = sorted(self.wanted_in(group_id))
        if owned != wanted:
            return 2, f"{owned} are worked on, not {wanted}"
        return None

    def unsettled_group(self, group_id: str) -> tuple[int, str] | None:
        """Return what is missing in a group as its coordinator has it, where the world looks at that."""
        return None

    def topics_in(self, group_id: str) -> set[str]:
        """Return the topics to which living members of a group subscribe."""
        return {topic for each in self.living_in(group_id) for topic in each.setup.topics}

    def wanted_in(self, group_id: str) -> set[TopicPartition]:
        counts = self.partition_counts()
        return {
            (topic, index)
            for topic in self.topics_in(group_id)
            for index in range(counts.get(topic, 0))
        }

    def members_in(self, group_id: str) -> list[ConsumerMember]:
        """Return the processes of a group, those that are over among them."""
        return [member for member in self.members if member.config.group_id == group_id]

    def living_in(self, group_id: str) -> list[ConsumerMember]:
        """Return the processes that are to take part in a group."""
        return [each for each in self.members_in(group_id) if each.alive and not each.fenced]

    @override
    def helped_on(self, problem: tuple[int, str]) -> bool:
        """Add a member, once: Kafka's coordinator keeps an outdated assignment until the group changes."""
        group_id = next(filter(self.unsettled_in, self.group_ids), None)
        if (
            group_id is None
            or group_id in self._helped
            or not self.may_need_help(group_id, problem)
        ):
            return False
        self._helped.add(group_id)
        self.note(f"one comes, as {problem[1]}")
        behavior = CallerBehavior(tick_ms=100, raises=0.0, slow=0.0, slow_ms=500)
        topics = tuple(sorted(self.topics_in(group_id)))
        self.add(behavior, ConsumerSetup(topics), group_id=group_id)
        return True

    def may_need_help(self, group_id: str, problem: tuple[int, str]) -> bool:
        """Return whether a group may stay as it is until it changes, for a reason of Kafka's protocol."""
        return problem[0] == 2


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
