"""Run consumers of both protocols, brokers and faults under one clock, and check what must hold (KIP-848)."""

from collections.abc import Callable, Iterator, Mapping
from typing import Any, Final
from uuid import UUID

from typing_extensions import override

from groupsdk.broker.catalogue import OFFSETS_TOPIC
from groupsdk.broker.coordinator.group_status import ConsumerGroupState, GroupState
from groupsdk.broker.coordinator.runtime.coordinator_runtime import Marker, Replayed
from groupsdk.broker.coordinators import (
    CatalogueImage,
    PartitionCoordinatorLog,
    consumer_group_settings,
)
from groupsdk.broker.log.errors import StorageError
from groupsdk.broker.settings.table import BrokerConfig, GroupConfig, MigrationPolicy
from groupsdk.member.consumer.config import ConsumerMemberConfig
from groupsdk.member.state import MemberState
from groupsdk.settings.config import MemberConfig
from groupsdk.testing.simulation.broker_process import BrokerProcess
from groupsdk.testing.simulation.broker_world import GROUP, NODES
from groupsdk.testing.simulation.consumer_member import (
    ConsumerMember,
    ConsumerSetup,
    SpokenProtocol,
)
from groupsdk.testing.simulation.consumer_watch import ConsumerWatch, WatchedShard
from groupsdk.testing.simulation.group_watches import GroupWatches
from groupsdk.testing.simulation.member_process import CallerBehavior
from groupsdk.testing.simulation.member_world import MemberWorld
from groupsdk.testing.simulation.work import TopicPartition
from groupsdk.types import GroupMembershipOperation
from groupsdk.wire.schema import Request, Response


SESSION_MS: Final = 6_000
INTERVAL_MS: Final = 500
TOPICS: Final = {"work": 5, "more": 2}
RETENTION_MINUTES: Final = 1
_LEAVE_MS: Final = 1_000
"""By when a leave has arrived where nothing is in its way."""
_NEVER_MS: Final = -(10**9)


class ConsumerSimulation(MemberWorld[ConsumerMember]):
    """One run of a consumer group: what happens in it follows from its seed.

    Args:
        harsh: see `Simulation`; then a partition may be believed in by two, and only the fence holds.
        extended: let some runs have two groups, and some commit as consumers do or in transactions.
    """

    settle_step_ms = 2_000

    def __init__(self, seed: int, *, harsh: bool = False, extended: bool = False) -> None:
        super().__init__(seed, harsh=harsh)
        self.protocols: tuple[SpokenProtocol, ...] = (SpokenProtocol.CONSUMER,)
        """Those that members of this run may speak."""
        policy = self._policy_of(seed)
        self.has_patterns = seed % 7 == 6
        """Whether members of the consumer protocol may subscribe with an expression for the broker."""
        self.has_transactions = extended and seed % 9 in (1, 6)
        """Whether members commit as consumers do, with retries, or in transactions."""
        self._config = BrokerConfig.of(
            group_consumer_migration_policy=policy.value,
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
        self._groups = GroupConfig(
            offsets_retention_minutes=self._config.offsets_retention_minutes,
            offsets_retention_check_interval_ms=self._config.offsets_retention_check_interval_ms,
            group_initial_rebalance_delay_ms=self.random.choice((0, 0, 1_000)),
        )
        # an eighth of the runs has two groups of one coordinator
        group_ids = (GROUP, "h") if extended and seed % 8 == 5 else (GROUP,)
        self.watches = GroupWatches(
            ConsumerWatch(self, each, SESSION_MS, policy) for each in group_ids
        )
        self._names: dict[UUID, str] = {}
        self._upgrades: dict[str, int] = {}
        self._helped: set[str] = set()
        self._expelled: set[str] = set()
        """The ids of the members that the coordinator removed by time."""
        self._deleted_ms: dict[str, int] = {}
        """When each topic was deleted last."""
        self._grown_ms: dict[TopicPartition, int] = {}
        """When each partition was added to its topic."""
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
        self.process.start()

    @staticmethod
    def _policy_of(seed: int) -> MigrationPolicy:
        """Return whether groups may change their protocol; by the seed, so that older runs stay what they were."""
        if seed % 5 != 4:
            return MigrationPolicy.BIDIRECTIONAL
        others = (MigrationPolicy.DISABLED, MigrationPolicy.UPGRADE, MigrationPolicy.DOWNGRADE)
        return others[seed // 5 % 3]

    def watch_of(self, member: ConsumerMember) -> ConsumerWatch:
        """Return the watch of a member's group."""
        return self.watches[member.config.group_id]

    @override
    def coordinator_lost(self) -> None:
        self.watches.lost()

    @override
    def make_shard(self, partition: int) -> WatchedShard:
        cluster = self.process.cluster
        image = CatalogueImage(cluster)
        made = WatchedShard(
            self._groups,
            self._new_id,
            GROUP,
            self.watches,
            consumer_settings=consumer_group_settings(cluster),
            image=lambda: image,
            topics=cluster.catalogue.topics,
        )
        made.timed_out = self.watches.timed_out
        made.takes_older_epochs = not self.has_transactions or self.seed % 2 == 0
        return made

    @override
    def answered(self, request: Request[Any], response: Response) -> None:
        self.watches.answered(request, response, self.timeline.now_ms())

    def now_ms(self) -> int:
        """Return the time."""
        return self.timeline.now_ms()

    def name_of(self, topic_id: UUID) -> str:
        """Return the name of a topic, which may be gone."""
        return self._names[topic_id]

    def is_former(self, topic_id: UUID) -> bool:
        """Return whether a newer topic has, or had, the name of this one."""
        name = self._names[topic_id]
        return topic_id != next(each for each in reversed(self._names) if self._names[each] == name)

    @override
    def new_topic_id(self, name: str) -> UUID:
        topic_id = super().new_topic_id(name)
        self._names[topic_id] = name
        return topic_id

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

    @property
    def is_disturbed(self) -> bool:
        """Whether the broker has troubles, or had some a moment ago."""
        return self.timeline.now_ms() <= self._disturbed_until_ms

    def expelled(self, member_id: str, why: str) -> None:
        """Ask whether that had a reason on the member's side (invariant 5)."""
        self.note(f"group: {member_id} is removed: its {why} timeout")
        self._expelled.add(member_id)
        member = next((m for m in self.members if m.view.generation.member_id == member_id), None)
        if member is None or self.harsh or self._was_told_no_epoch(member):
            return
        excused_ms = max(member.excused_until_ms, self._disturbed_until_ms)
        beating = member.view.state in (MemberState.STABLE, MemberState.COMPLETING_REBALANCE)
        if why != "session" or not beating:  # a caller that is late stops no heartbeat
            excused_ms = max(excused_ms, member.late_until_ms)
            if (
                4 * member.slowest_callbacks_ms + 2 * member.behavior.tick_ms
                > member.config.poll_interval_ms
            ):
                return
        if member.alive and self.timeline.now_ms() > excused_ms:
            self.fail(5, f"{member.name} was removed ({why}) though nothing had happened to it")

    def _was_told_no_epoch(self, member: ConsumerMember) -> bool:
        """Return whether a member was let in with epoch 0, which is none: the group was upgraded before it had a generation.

        A static one that takes a place with the same subscription is no reason for an epoch. The member
        asks again, and is refused for the place that it has itself, until that is free by time.
        """
        known = self.watch_of(member).members.get(member.view.generation.member_id)
        is_out = member.view.generation.is_reset and not member.setup.protocol.is_classic
        return is_out and known is not None and known.epoch == 0 and known.instance_id is not None

    def delay_names(self, duration_ms: int) -> None:
        """Let no broker know the name of any topic for so long."""
        self._names_late_until_ms = self.timeline.now_ms() + duration_ms
        self.disturb(duration_ms)

    def delete_topic(self, name: str) -> None:
        self._deleted_ms[name] = self.timeline.now_ms()
        self.watches.topic_deleted(name)
        self._change_topics(lambda: self.process.cluster.delete_topics((name,)))

    def create_topic(self, name: str, count: int) -> None:
        """Create a topic, as a new one with another id where there was one of that name."""
        if self.process.alive and name not in self.process.cluster.catalogue.topics:
            self._change_topics(lambda: self.process.cluster.create_topics({name: count}))

    def grow_topic(self, name: str, count: int) -> None:
        """Let a topic grow to so many partitions."""
        for index in range(self.partition_counts().get(name, 0), count):
            self._grown_ms[name, index] = self.timeline.now_ms()
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

    def whole_log(self) -> Iterator[Replayed | Marker]:
        """Go through the groups' log."""
        return PartitionCoordinatorLog(self.process.cluster, OFFSETS_TOPIC, 0).replay()

    @override
    def closing(self, member: ConsumerMember, operation: GroupMembershipOperation) -> None:
        """Check that the group has heard of it a moment later, unless something was in the way (invariant 11)."""
        member_id = member.view.generation.member_id
        watch = self.watch_of(member)
        is_consumer = not member.setup.protocol.is_classic and member_id in watch.members
        if not is_consumer or member.view.coordinator is None or self.harsh:
            return
        if member.view.generation.generation_id < 1:
            return  # it left a moment ago, and the group may not have heard of that yet
        static = member.config.group_instance_id is not None
        stays = operation is GroupMembershipOperation.REMAIN_IN_GROUP or (
            operation is GroupMembershipOperation.DEFAULT and static
        )

        def check() -> None:
            now_ms = self.timeline.now_ms()
            known = watch.members.get(member_id)
            if now_ms <= max(member.excused_until_ms, self._disturbed_until_ms):
                return
            if member_id in self._expelled:
                return  # a caller that closes in the middle of a slow callback may be due for that
            if not stays and known is not None:
                self.fail(11, f"{member.name} has left, and is still in the group")
            if stays and static and known is not None and known.epoch > 0:
                self.fail(11, f"{member.name} went to come back, and is in {known.epoch}")
            kept = {each.instance_id for each in watch.members.values()}
            instance_id = member.config.group_instance_id
            # the next process may have taken the place over already, and have left the group for good
            own = instance_id is not None and watch.places.get(instance_id) == member_id
            if stays and watch.classic is None and own and instance_id not in kept:
                self.fail(11, f"{member.name} went to come back, and its place is gone")
            if stays and not static and known is None:
                self.fail(11, f"{member.name} was to stay in the group, and is not in it")

        self.timeline.after(_LEAVE_MS, check)

    @override
    def happened(self) -> None:
        if self.process.paused_until_ms < self.timeline.now_ms():
            self.watches.check()
        for member in self.members:
            if member.was_away:
                self.fail(11, f"{member.name} gave its membership up, and could have joined again")
            if member.is_refused and not member.replaced:
                self._go_over(member)
        if not self.harsh:
            self._check_owners()

    def _go_over(self, member: ConsumerMember) -> None:
        """Restart a process in the protocol that the group has, as `group.protocol=auto` or an operator does."""
        was_classic = member.setup.protocol.is_classic
        other = next(
            protocol for protocol in self.protocols if protocol.is_classic is not was_classic
        )
        self.note(f"{member.name} is refused as one of {member.setup.protocol.value}")
        member.next_setup = ConsumerSetup(member.setup.topics, other)
        self.restart(member, 1_000)

    def _check_owners(self) -> None:
        """Check that no partition is believed held by two, nor by one that the group does not know as its holder."""
        for watch in self.watches:
            if watch.upgrades != self._upgrades.get(watch.group_id, 0):
                self._note_upgrade(watch)
        now_ms = self.timeline.now_ms()
        owners: dict[tuple[str, TopicPartition], ConsumerMember] = {}
        for member in self.members:
            if not member.owned:
                continue
            if now_ms >= member.polled_ms + member.config.poll_interval_ms and member.believes():
                self.fail(22, f"{member.name} believes though its caller is stuck")
            believed = [
                each for each in sorted(member.believes()) if not self._is_excepted(member, each)
            ]
            for place in believed:
                other = owners.setdefault((member.config.group_id, place), member)
                if other is not member:
                    self.fail(4, f"{other.name} and {member.name} both believe in {place}")
            if believed:
                self._check_holder(member, believed)

    def _is_excepted(self, member: ConsumerMember, place: TopicPartition) -> bool:
        """Return whether a belief may be wrong, as Kafka's protocol knows no better.

        The name of a topic that was deleted may be that of another by now. And where a group is upgraded while
        a cooperative member is giving partitions up, or while there is no new assignment yet, the coordinator
        takes the newest assignment for what the member has. So it does for members of any kind where the group had
        become a classic one just before, and is upgraded again before they have joined again.
        """
        if place in member.overlooked:
            return True
        return self.was_deleted_since(place[0], member.taken_ms[place])

    def _note_upgrade(self, watch: ConsumerWatch) -> None:
        self._upgrades[watch.group_id] = watch.upgrades
        was_just_downgraded = watch.upgraded_from == watch.downgraded_in is not None
        for member in self._members_of(watch):
            is_eager = member.setup.protocol is SpokenProtocol.EAGER
            if member.setup.protocol is SpokenProtocol.COOPERATIVE or (
                is_eager and was_just_downgraded
            ):
                member_id = member.view.generation.member_id
                has = member.owned | member.taking
                member.overlooked = frozenset(
                    each for each in has if watch.lacks(member_id, [each])
                )

    def _check_holder(self, member: ConsumerMember, believed: list[TopicPartition]) -> None:
        wrong = self.watch_of(member).lacks(member.view.generation.member_id, believed)
        if wrong is not None:
            self.fail(7, f"{member.name} believes in {believed}, but {wrong}")

    @override
    def not_converged(self) -> tuple[int, str] | None:
        """Return the invariant that is broken if the run ends now, and why; None if the group has converged."""
        if self.starting:
            return 6, "a process is yet to start"
        return next(filter(None, map(self._unsettled_in, self.watches)), None)

    def _unsettled_in(self, watch: ConsumerWatch) -> tuple[int, str] | None:
        living = self._living_of(watch)
        if watch.shard is None or not self.process.alive:
            return (6, "there is no coordinator") if living else None
        if not living:
            if watch.ids:
                return 12, f"nobody lives, yet the group has {watch.ids}"
            return None
        for member in living:
            if not member.active:
                view = member.view
                return 6, f"{member.name} is not active: {view.state} call={view.call}"
        if watch.state not in (ConsumerGroupState.STABLE, GroupState.STABLE):
            return 6, f"the group is {watch.state}"
        ids = {each.view.generation.member_id for each in living}
        if ids != watch.ids:
            return 11, f"living {ids}, in it {watch.ids}"
        counts = self.partition_counts()
        wanted = sorted(
            (topic, index)
            for topic in {topic for each in living for topic in each.setup.topics}
            for index in range(counts.get(topic, 0))
        )
        owned = sorted(place for each in living for place in each.believes())
        if owned != wanted:
            return 2, f"{owned} are worked on, not {wanted}"
        return None

    def _members_of(self, watch: ConsumerWatch) -> list[ConsumerMember]:
        return [member for member in self.members if member.config.group_id == watch.group_id]

    def _living_of(self, watch: ConsumerWatch) -> list[ConsumerMember]:
        return [each for each in self._members_of(watch) if each.alive and not each.fenced]

    @override
    def helped_on(self, problem: tuple[int, str]) -> bool:
        """Let a member come where Kafka's coordinator keeps an assignment that is of the past until the group changes.

        It does so where a static member of the classic protocol returns with other topics, and where one returns between
        the two rebalances of a cooperative one, in whichever protocol: neither is a change of the group. Where one takes
        the place of the last member of the consumer protocol, the group becomes a classic one without a rebalance, though
        others still wait for their partitions. The same holds where another coordinator takes over right after a group became
        a classic one: the rebalance that was to follow is forgotten. Where one takes the place of a leader that was away while topics grew, it is
        told to skip the assignment (KIP-814). And where only classic members are left of a group that may not become a
        classic one: their heartbeats make no new assignment.
        """
        invariant, what = problem
        watch = next(filter(self._unsettled_in, self.watches), None)
        if watch is None or watch.group_id in self._helped:
            return False
        is_old = invariant == 2 and self._may_keep_an_old_assignment(watch)
        if not is_old and not self._has_only_classic_members(watch):
            return False
        self._helped.add(watch.group_id)
        self.note(f"one comes, as {what}")
        behavior = CallerBehavior(tick_ms=100, raises=0.0, slow=0.0, slow_ms=500)
        topics = {topic for each in self._living_of(watch) for topic in each.setup.topics}
        self.add(behavior, ConsumerSetup(tuple(sorted(topics))), group_id=watch.group_id)
        return True

    def _has_only_classic_members(self, watch: ConsumerWatch) -> bool:
        """Return whether a consumer group waits for a new assignment that no heartbeat of its members makes."""
        waits = watch.state is ConsumerGroupState.ASSIGNING
        return waits and all(member.is_classic for member in watch.members.values())

    def _has_forgotten_to_rebalance(self, watch: ConsumerWatch) -> bool:
        """Return whether the coordinator was loaded in the generation in which the group became a classic one."""
        loaded_in = self.watches.loaded_in.get(watch.group_id)
        classic = watch.classic
        return classic is not None and classic.generation == watch.downgraded_in == loaded_in

    def _may_keep_an_old_assignment(self, watch: ConsumerWatch) -> bool:
        if self._has_forgotten_to_rebalance(watch):
            return True
        static = [
            each
            for each in self._members_of(watch)
            if each.setup.protocol.is_classic and each.config.group_instance_id is not None
        ]
        if not static:
            return False
        if self._leader_has_missed_growth(watch):
            return True
        if any(each.owes_join and not each.alive for each in static):
            return True
        if watch.classic is not None and watch.classic.generation == watch.downgraded_in:
            return True
        living = self._living_of(watch)
        topics = {topic for each in living for topic in each.setup.topics}
        worked_on = {topic for each in living for topic, _ in each.believes()}
        was_upgraded = watch.upgrades > 0 and SpokenProtocol.COOPERATIVE in self.protocols
        return worked_on != topics or was_upgraded

    def _leader_has_missed_growth(self, watch: ConsumerWatch) -> bool:
        """Return whether nothing is missing but partitions that were added to a generation before its leader came back."""
        if watch.classic is None:
            return False
        formed_ms = watch.formed_ms.get(watch.classic.generation)
        living, counts = self._living_of(watch), self.partition_counts()
        leader = next((each for each in living if each.view.is_leader), None)
        if formed_ms is None or leader is None or leader.config.group_instance_id is None:
            return False
        owned = [place for each in living for place in each.believes()]
        wanted = {
            (topic, index)
            for topic in {topic for each in living for topic in each.setup.topics}
            for index in range(counts.get(topic, 0))
        }
        missing = wanted.difference(owned)
        return set(owned) <= wanted and all(
            formed_ms <= self._grown_ms.get(each, _NEVER_MS) <= leader.asked_ms for each in missing
        )

    @override
    def check_log(self) -> None:
        """Replay the log from its start and compare (invariants 13, 17 and 18)."""
        if not self.process.alive or self.watches.shard is None:
            return
        fresh = self.make_shard(0)
        for entry in self.whole_log():
            if isinstance(entry, Marker):
                fresh.replay_marker(entry.producer, committed=entry.committed)
            else:
                for decoded in fresh.decode([entry.record]):
                    fresh.replay(decoded, entry.producer)
        self.watches.check_state(fresh, 18)
