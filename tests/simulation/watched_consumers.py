"""Runs of consumers, with a watch over the records, responses and decisions of their group's coordinator."""

from collections.abc import Iterator
from typing import Any, Final
from uuid import UUID

from typing_extensions import override

from groupsdk.assignment.subscriptions import decode_assignment
from groupsdk.broker.catalogue import OFFSETS_TOPIC
from groupsdk.broker.coordinator.group_status import ConsumerGroupState, GroupState
from groupsdk.broker.coordinator.runtime.coordinator_runtime import Marker, Replayed
from groupsdk.broker.coordinators import PartitionCoordinatorLog
from groupsdk.member.state import MemberState
from groupsdk.testing.simulation.consumer_member import ConsumerMember, SpokenProtocol
from groupsdk.testing.simulation.consumer_world import (
    FAULTS,
    SESSION_MS,
    TOPICS,
    ConsumerWorld,
    play_consumers,
)
from groupsdk.testing.simulation.faults import Fault
from groupsdk.testing.simulation.work import TopicPartition, commit_request
from groupsdk.testing.simulation.world import GROUP
from groupsdk.types import Generation, GroupMembershipOperation
from groupsdk.wire.messages.consumer_groups import ConsumerGroupHeartbeatRequest
from groupsdk.wire.schema import Request, Response
from tests.simulation.consumer_watch import ConsumerWatch, WatchedShard


_LEAVE_MS: Final = 1_000
"""By when a leave has arrived where nothing is in its way."""
_NEVER_MS: Final = -(10**9)


class ConsumerSimulation(ConsumerWorld):
    """One run of consumer groups whose coordinator is watched."""

    def __init__(self, seed: int, *, harsh: bool = False, extended: bool = False) -> None:
        self._names: dict[UUID, str] = {}
        self._upgrades: dict[str, int] = {}
        self._downgrades: dict[str, int] = {}
        self._expelled: set[str] = set()
        """The ids of the members that the coordinator removed by time."""
        self._grown_ms: dict[TopicPartition, int] = {}
        """When each partition was added to its topic."""
        super().__init__(seed, harsh=harsh, extended=extended)

    @override
    def start(self) -> None:
        self.watches = {
            group_id: ConsumerWatch(self, group_id, SESSION_MS, self.policy)
            for group_id in self.group_ids
        }
        super().start()

    @property
    @override
    def knows_exceptions(self) -> bool:
        return True

    def watch_of(self, member: ConsumerMember) -> ConsumerWatch:
        """Return the watch of a member's group."""
        return self.watches[member.config.group_id]

    @override
    def coordinator_lost(self) -> None:
        for watch in self.watches.values():
            watch.lost()

    @override
    def make_shard(self, partition: int) -> WatchedShard:
        shard = WatchedShard(
            self.group_settings,
            self._new_id,
            GROUP,
            tuple(self.watches.values()),
            **self.settings_of_shard(),
        )
        shard.timed_out = lambda group_id, *removal: self.watches[group_id].timed_out(*removal)
        shard.takes_older_epochs = not self.has_transactions or self.seed % 2 == 0
        return shard

    @override
    def answered(self, request: Request[Any], response: Response) -> None:
        super().answered(request, response)
        for watch in self.watches.values():
            watch.answered(request, response, self.timeline.now_ms())

    def now_ms(self) -> int:
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

    @override
    def delete_topic(self, name: str) -> None:
        for watch in self.watches.values():
            watch.offsets.topic_deleted(name)
        super().delete_topic(name)

    @override
    def grow_topic(self, name: str, count: int) -> None:
        for index in range(self.partition_counts().get(name, 0), count):
            self._grown_ms[name, index] = self.timeline.now_ms()
        super().grow_topic(name, count)

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
            for watch in self.watches.values():
                watch.check()
        super().happened()

    @override
    def check_owners(self) -> None:
        """Check as well that nobody believes in a partition that the group does not know as theirs (invariant 7)."""
        for watch in self.watches.values():
            if watch.upgrades != self._upgrades.get(watch.group_id, 0):
                self._note_upgrade(watch)
            if watch.downgrades != self._downgrades.get(watch.group_id, 0):
                self._note_downgrade(watch)
        super().check_owners()

    @override
    def check_believer(self, member: ConsumerMember, believed: list[TopicPartition]) -> None:
        wrong = self.watch_of(member).lacks(member.view.generation.member_id, believed)
        if wrong is not None:
            self.fail(7, f"{member.name} believes in {believed}, but {wrong}")

    def _note_upgrade(self, watch: ConsumerWatch) -> None:
        self._upgrades[watch.group_id] = watch.upgrades
        was_just_downgraded = watch.upgraded_from == watch.downgraded_in is not None
        for member in self.members_in(watch.group_id):
            is_eager = member.setup.protocol is SpokenProtocol.EAGER
            if member.setup.protocol is SpokenProtocol.COOPERATIVE or (
                is_eager and was_just_downgraded
            ):
                member_id = member.view.generation.member_id
                has = member.owned | member.taking
                member.overlooked = frozenset(
                    each for each in has if watch.lacks(member_id, [each])
                )
                watch.offsets.overlook(member.name, member.overlooked)

    def _note_downgrade(self, watch: ConsumerWatch) -> None:
        """Note what is given to others before members give it up: no rebalance follows the downgrade by a static member."""
        self._downgrades[watch.group_id] = watch.downgrades
        if watch.classic is None or watch.state is not GroupState.STABLE:
            return
        given = {each.member_id: each.assignment for each in watch.classic.members}
        for member in self.members_in(watch.group_id):
            generation = member.view.generation
            assignment = given.get(generation.member_id)
            if assignment is not None and generation.generation_id < watch.classic.generation:
                kept = {(each.topic, each.partition) for each in decode_assignment(assignment)}
                member.overlooked |= (member.owned | member.taking) - kept
                watch.offsets.overlook(member.name, member.overlooked)

    @override
    def unsettled_group(self, group_id: str) -> tuple[int, str] | None:
        watch, living = self.watches[group_id], self.living_in(group_id)
        if watch.shard is None or not self.process.alive:
            return (6, "there is no coordinator") if living else None
        if not living:
            return (12, f"nobody lives, yet the group has {watch.ids}") if watch.ids else None
        if watch.state not in (ConsumerGroupState.STABLE, GroupState.STABLE):
            return 6, f"the group is {watch.state}"
        ids = {each.view.generation.member_id for each in living}
        return None if ids == watch.ids else (11, f"living {ids}, in it {watch.ids}")

    @override
    def may_need_help(self, group_id: str, problem: tuple[int, str]) -> bool:
        """Return whether Kafka's coordinator keeps an outdated assignment until the group changes.

        It does so where a static member of the classic protocol returns with other topics, and where one returns between
        the two rebalances of a cooperative one, in whichever protocol: neither is a change of the group. Where one takes
        the place of the last member of the consumer protocol, the group becomes a classic one without a rebalance, though
        others still wait for their partitions. The same holds where another coordinator takes over right after a group became
        a classic one: the rebalance that was to follow is forgotten. Where one takes the place of a leader that was away while topics grew, it is
        told to skip the assignment (KIP-814). And where only classic members are left of a group that may not become a
        classic one: their heartbeats make no new assignment.
        """
        watch = self.watches[group_id]
        is_old = super().may_need_help(group_id, problem) and self._may_keep_an_old_assignment(
            watch
        )
        return is_old or self._has_only_classic_members(watch)

    def _has_only_classic_members(self, watch: ConsumerWatch) -> bool:
        """Return whether a consumer group waits for a new assignment that no heartbeat of its members makes."""
        waits = watch.state is ConsumerGroupState.ASSIGNING
        return waits and all(member.is_classic for member in watch.members.values())

    def _has_forgotten_to_rebalance(self, watch: ConsumerWatch) -> bool:
        """Return whether the coordinator was loaded in the generation in which the group became a classic one."""
        return watch.classic_generation == watch.downgraded_in == watch.loaded_in is not None

    def _may_keep_an_old_assignment(self, watch: ConsumerWatch) -> bool:
        if self._has_forgotten_to_rebalance(watch):
            return True
        static = [
            each
            for each in self.members_in(watch.group_id)
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
        living, topics = self.living_in(watch.group_id), self.topics_in(watch.group_id)
        worked_on = {topic for each in living for topic, _ in each.believes()}
        was_upgraded = watch.upgrades > 0 and SpokenProtocol.COOPERATIVE in self.protocols
        return worked_on != topics or was_upgraded

    def _leader_has_missed_growth(self, watch: ConsumerWatch) -> bool:
        """Return whether nothing is missing but partitions that were added to a generation before its leader came back."""
        if watch.classic is None:
            return False
        formed_ms = watch.formed_ms.get(watch.classic.generation)
        living, wanted = self.living_in(watch.group_id), self.wanted_in(watch.group_id)
        leader = next((each for each in living if each.view.is_leader), None)
        if formed_ms is None or leader is None or leader.config.group_instance_id is None:
            return False
        owned = [place for each in living for place in each.believes()]
        missing = wanted.difference(owned)
        return set(owned) <= wanted and all(
            formed_ms <= self._grown_ms.get(each, _NEVER_MS) <= leader.asked_ms for each in missing
        )

    @override
    def check_log(self) -> None:
        """Replay the log from its start and compare (invariants 13, 17 and 18)."""
        if not self.process.alive or self.watches[GROUP].shard is None:
            return
        fresh = self.make_shard(0)
        for entry in self.whole_log():
            fresh.replay_entry(entry)
        for watch in self.watches.values():
            watch.check_state(fresh, 18)


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
    if watch.takes_commits(member_id, epoch):
        return  # a loss of power took the epochs that came after this one
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


_FAULTS: Final[tuple[Fault, ...]] = (
    *FAULTS[:-2], _commit_from_outside, _commit_from_outside, _heartbeat_of_old, _heartbeat_of_old, *FAULTS[-2:],
)  # fmt: skip
"""The order is that of the seeds which once found a mistake."""


def random_consumer_run(
    seed: int, *, harsh: bool = False, extended: bool = False
) -> ConsumerSimulation:
    """Run some consumers through some faults, and check that their groups recover."""
    return play_consumers(ConsumerSimulation(seed, harsh=harsh, extended=extended), _FAULTS)
