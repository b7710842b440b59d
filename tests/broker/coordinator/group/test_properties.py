"""Random schedules of members, time, failures and restarts: what must hold in every one of them.

The numbers are those of the project's invariants.
"""

import logging
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from hypothesis import given, settings, strategies as st
from typing_extensions import override

from groupsdk.broker.coordinator.classic.group import ClassicGroup
from groupsdk.broker.coordinator.classic.member import metadata_of
from groupsdk.broker.coordinator.group.records import CommittedOffset
from groupsdk.broker.coordinator.group_status import GroupState
from groupsdk.broker.coordinator.runtime.contract import ProducerStamp, Result
from groupsdk.broker.settings.table import GroupConfig
from groupsdk.error_code import ErrorCode
from groupsdk.wire.messages.groups import JoinGroupResponse
from tests.broker.coordinator.group.driving import GROUP, Driver, protocols, subscription


CONFIG = GroupConfig(group_initial_rebalance_delay_ms=1_000)
SLOTS = 4
SESSIONS = (6_000, 10_000, 30_000)
REBALANCE_MS = 20_000
OFFERS = (
    protocols("range", "sticky", metadata=subscription("t")),
    protocols("sticky", "range", metadata=subscription("t")),
    protocols("range", metadata=subscription("t", "u")),
)
LONGEST_MS = 400_000  # above the time that a new member may be parked, and every session
FAILURES = (ErrorCode.KAFKA_STORAGE_ERROR, ErrorCode.NOT_ENOUGH_REPLICAS)
GONE = (ErrorCode.UNKNOWN_MEMBER_ID, ErrorCode.FENCED_INSTANCE_ID, ErrorCode.GROUP_MAX_SIZE_REACHED)

slots = st.integers(0, SLOTS - 1)
partitions = st.integers(0, 2)
ACTS = st.one_of(
    st.tuples(st.just("join"), slots, st.integers(0, len(OFFERS) - 1), st.sampled_from((3, 9))),
    st.tuples(st.just("join"), slots, st.just(0), st.just(9)),
    st.tuples(st.just("sync"), slots),
    st.tuples(st.just("sync"), slots),
    *[st.tuples(st.just("settle"), st.integers(1, 2**SLOTS - 1), st.integers(0, 2))] * 3,
    st.tuples(st.just("beat")),
    st.tuples(st.just("heartbeat"), slots),
    st.tuples(st.just("leave"), slots),
    st.tuples(st.just("commit"), slots, partitions),
    st.tuples(st.just("commit_simply"), partitions),
    st.tuples(st.just("commit_in_transaction"), st.integers(1, 2), partitions),
    st.tuples(st.just("marker"), st.integers(1, 2), st.booleans()),
    st.tuples(st.just("pass_ms"), st.sampled_from((1, 999, 1_000, 5_000, 9_999, 20_000))),
    st.tuples(st.just("restart")),
    st.tuples(st.just("delete")),
    st.tuples(st.just("delete_topic")),
)


@dataclass
class Slot:
    """A client as it sees itself."""

    session_ms: int
    instance_id: str | None
    member_id: str = ""
    generation_id: int = -1


@dataclass
class Batches:
    """What was there after each append, to be compared with what a replay so far gives."""

    offsets: list[dict[tuple[str, int], CommittedOffset]] = field(default_factory=list)
    group_ids: list[tuple[str, ...]] = field(default_factory=list)


class Expelled(logging.Handler):
    """Hear of every session that ended."""

    def __init__(self, world: "World") -> None:
        super().__init__()
        self._world = world

    @override
    def emit(self, record: logging.LogRecord) -> None:
        if "its session timed out" in record.msg and record.args:
            self._world.session_ended(str(tuple(record.args)[1]))


class World:
    """A coordinator, some clients, and what it has promised them."""

    def __init__(self) -> None:
        self.driver = Driver(CONFIG)
        self.batches = Batches()
        self.slots = [
            Slot(SESSIONS[i % len(SESSIONS)], "static" if i == 0 else None) for i in range(SLOTS)
        ]
        self.joins: dict[int, Slot] = {}
        self.syncs: dict[int, tuple[Slot, str, int]] = {}
        self.accepted: dict[str, tuple[int, int]] = {}  # when last heard of, and the session
        self.stored: dict[int, int] = {}
        self.pending: dict[int, dict[int, tuple[int, int]]] = {}
        self.generations: dict[int, str | None] = {}
        self.assigned: dict[int, dict[str, bytes]] = {}
        self.places: dict[int, int] = {}
        self.next = 0
        self.watch()

    def watch(self) -> None:
        deal_with = self.driver.deal_with

        def watched(result: Result) -> None:
            before = len(self.driver.log)
            deal_with(result)
            if len(self.driver.log) > before:
                self.note()
            self.learn()

        # a dataclass's method, replaced for this one object
        object.__setattr__(self.driver, "deal_with", watched)

    def note(self) -> None:
        self.batches.offsets.append(dict(self.driver.shard.offsets(GROUP)))
        self.batches.group_ids.append(self.driver.shard.group_ids)

    # What happens.

    def act(self, act: tuple[Any, ...]) -> None:
        name, *arguments = act
        getattr(self, name)(*arguments)
        self.learn()
        self.check()
        self.check_reload()

    def join(self, index: int, offer: int, version: int) -> None:
        slot = self.slots[index]
        token = self.driver.join(
            slot.member_id,
            version=max(version, 5) if slot.instance_id else version,
            group_instance_id=slot.instance_id,
            session_timeout_ms=slot.session_ms,
            rebalance_timeout_ms=REBALANCE_MS,
            protocol_type="consumer",
            protocols=OFFERS[offer],
        )
        self.joins[token] = slot

    def sync(self, index: int) -> None:
        slot = self.slots[index]
        group = self.driver.shard.group(GROUP)
        assignments: dict[str, bytes] = {}
        completing = group is not None and group.state is GroupState.COMPLETING_REBALANCE
        leads = group is not None and slot.member_id == group.leader_id
        if group is not None and completing and leads and slot.generation_id == group.generation_id:
            assignments = {each: f"{slot.generation_id}{each}".encode() for each in group.members}
            if self.driver.fail_next is None:
                self.assigned[slot.generation_id] = assignments
        token = self.driver.sync(
            slot.member_id,
            slot.generation_id,
            group_instance_id=slot.instance_id,
            protocol_type="consumer",
            protocol_name=group.protocol_name or "range" if group else "range",
            assignments=assignments,
        )
        self.syncs[token] = slot, slot.member_id, slot.generation_id

    def settle(self, mask: int, offer: int) -> None:
        """Let some clients do all that it takes to get to work."""
        some = [index for index in range(SLOTS) if mask >> index & 1]
        for _ in range(2):
            for index in some:
                self.join(index, offer, 9)
                self.learn()
        self.pass_ms(2_000)
        self.learn()
        for index in some:
            self.sync(index)
            self.learn()

    def beat(self) -> None:
        for index in range(SLOTS):
            self.heartbeat(index)

    def heartbeat(self, index: int) -> None:
        slot = self.slots[index]
        error = self.driver.heartbeat(
            slot.member_id, slot.generation_id, group_instance_id=slot.instance_id
        )
        if error in (ErrorCode.NONE, ErrorCode.REBALANCE_IN_PROGRESS):
            self.heard_of(slot)
        elif error in GONE:
            slot.member_id = ""

    def leave(self, index: int) -> None:
        slot = self.slots[index]
        self.driver.leave(slot.member_id, group_instance_id=slot.instance_id)
        slot.member_id, slot.generation_id = "", -1

    def commit(self, index: int, partition: int) -> None:
        slot = self.slots[index]
        self.next += 1
        before = dict(self.driver.shard.offsets(GROUP))
        group = self.driver.shard.group(GROUP)
        (error,) = self.driver.commit(
            {partition: self.next},
            slot.member_id,
            slot.generation_id,
            group_instance_id=slot.instance_id,
        )
        if error is ErrorCode.NONE:
            # 14: nobody but a member of this generation, or anybody while there are none
            empty = group is None or group.state is GroupState.EMPTY
            current = group is not None and slot.generation_id == group.generation_id
            assert (empty and slot.generation_id < 0) or (
                current and group is not None and slot.member_id in group.members
            )
            self.keep(partition)
            if not empty:
                self.heard_of(slot)
        else:
            assert self.driver.shard.offsets(GROUP) == before

    def commit_simply(self, partition: int) -> None:
        self.next += 1
        group = self.driver.shard.group(GROUP)
        (error,) = self.driver.commit({partition: self.next})
        if error is ErrorCode.NONE:
            assert group is None or not group.members
            self.keep(partition)

    def commit_in_transaction(self, producer: int, partition: int) -> None:
        self.next += 1
        (error,) = self.driver.commit_in_transaction(
            {partition: self.next}, producer=ProducerStamp(producer, 0)
        )
        if error is ErrorCode.NONE:
            self.pending.setdefault(producer, {})[partition] = (self.next, len(self.driver.log))

    def marker(self, producer: int, committed: bool) -> None:
        self.driver.marker(committed=committed, producer=ProducerStamp(producer, 0))
        self.note()
        for partition, (offset, place) in self.pending.pop(producer, {}).items():
            # 15: the later record counts
            if committed and place > self.places.get(partition, -1):
                self.stored[partition], self.places[partition] = offset, place

    def keep(self, partition: int) -> None:
        self.stored[partition], self.places[partition] = self.next, len(self.driver.log)

    def pass_ms(self, duration_ms: int) -> None:
        self.driver.pass_ms(duration_ms)

    def restart(self) -> None:
        answered = len(self.driver.answers)
        error = ErrorCode.NOT_COORDINATOR
        self.driver.deal_with(self.driver.shard.unload(error, self.driver.now_ms))
        self.learn()
        assert len(self.driver.answers) >= answered
        old, self.driver = self.driver, self.driver.restarted()
        self.driver._tokens = old._tokens
        self.driver.answers, self.driver.versions = old.answers, old.versions
        self.watch()
        self.generations.clear()
        group = self.driver.shard.group(GROUP)
        for each in group.members.values() if group is not None else ():
            self.accepted[each.member_id] = self.driver.now_ms, each.session_timeout_ms

    def delete(self) -> None:
        if self.driver.delete() is ErrorCode.NONE:
            self.forget()
            self.generations.clear()

    def delete_topic(self) -> None:
        failing = self.driver.fail_next is not None
        (result,) = self.driver.shard.topics_deleted(("t", "other"), self.driver.now_ms)
        self.driver.deal_with(result)
        if not (failing and result.records):
            self.forget()

    def forget(self) -> None:
        self.stored.clear()
        self.pending.clear()
        self.places.clear()

    # What the clients learn of it.

    def heard_of(self, slot: Slot) -> None:
        self.accepted[slot.member_id] = self.driver.now_ms, slot.session_ms

    def learn(self) -> None:
        for token in [each for each in self.joins if not self.driver.waits(each)]:
            self.join_answered(self.joins.pop(token), self.driver.joined(token))
        for token in [each for each in self.syncs if not self.driver.waits(each)]:
            slot, member_id, generation_id = self.syncs.pop(token)
            answer = self.driver.synced(token)
            if answer.error_code == ErrorCode.NONE:
                self.accepted[member_id] = self.driver.now_ms, slot.session_ms
                if member_id in self.assigned.get(generation_id, {}):
                    # 1: a generation has one assignment
                    assert answer.assignment == self.assigned[generation_id][member_id]

    def join_answered(self, slot: Slot, answer: JoinGroupResponse) -> None:
        if answer.error_code in (ErrorCode.NONE, ErrorCode.MEMBER_ID_REQUIRED):
            slot.member_id, slot.generation_id = answer.member_id, answer.generation_id
            self.accepted[answer.member_id] = self.driver.now_ms, slot.session_ms
        elif answer.error_code in GONE:
            slot.member_id = ""
        if answer.error_code == ErrorCode.NONE:
            # 1: one protocol a generation, and generations only grow
            known = self.generations.setdefault(answer.generation_id, answer.protocol_name)
            assert known == answer.protocol_name
            assert answer.generation_id == max(self.generations)

    def session_ended(self, member_id: str) -> None:
        # 5: not before its time, and not more than a bucket after it
        since_ms, session_ms = self.accepted.get(member_id, (None, 0))
        if since_ms is not None:
            silent_ms = self.driver.now_ms - since_ms
            assert session_ms <= silent_ms

    # What has to hold.

    def check(self) -> None:
        # 13 to 15: what is served is what was acknowledged
        found = {place[1]: each.offset for place, each in self.driver.shard.offsets(GROUP).items()}
        assert found == self.stored
        unstable = {each for pending in self.pending.values() for each in pending}
        for index, (offset, error) in enumerate(self.driver.fetch(0, 1, 2, require_stable=True)):
            assert (error is ErrorCode.UNSTABLE_OFFSET_COMMIT) == (index in unstable)
            assert offset == (-1 if index in unstable else self.stored.get(index, -1))
        status = self.driver.shard.status(GROUP)
        if status is not None and status.is_rebalancing:
            # 6: it never waits without an end
            assert status.until_ms is not None
            assert status.until_ms >= self.driver.now_ms
            deadline_ms = self.driver.shard.deadline_ms
            assert deadline_ms is not None
            assert deadline_ms <= status.until_ms
        self.check_books()

    def check_books(self) -> None:
        """The counts that a group keeps agree with its members."""
        group = self.driver.shard._registry.groups.get(GROUP)
        if group is None:
            return
        counted: dict[str, int] = {}
        for member in group.members.values():
            for name, _ in member.protocols:
                counted[name] = counted.get(name, 0) + 1
        assert group.supported == counted
        assert group.awaiting_joins == sum(m.join is not None for m in group.members.values())
        assert (group.leader_id is None) == (not group.members)
        assert group.leader_id is None or group.leader_id in group.members
        assert (group.static_members or {}) == {
            m.instance_id: m.member_id for m in group.members.values() if m.instance_id is not None
        }
        assert (group.state is GroupState.EMPTY) <= (not group.members)
        assert set(group.pending_syncs or ()) <= set(group.members)

    def check_reload(self) -> None:
        """17: after each step what lasts is what a coordinator loads from the log: one replay makes both."""
        again = self.driver.restarted(loaded=False)
        running, loaded = self.driver.shard, again.shard
        assert set(loaded.group_ids) == set(running.group_ids)
        assert loaded._offsets._by_group == running._offsets._by_group
        assert loaded._offsets._pending == running._offsets._pending
        assert loaded._offsets._open == running._offsets._open
        assert again.recorded == self.driver.recorded
        for group_id, group in running._registry.groups.items():
            other = loaded._registry.groups[group_id]
            recorded = self.driver.recorded.get(group_id)
            as_recorded = ClassicGroup(group_id, other.state_timestamp_ms)
            if recorded is not None:
                as_recorded.replay(recorded)
            assert served(other) == served(as_recorded)
            at_rest = group.state in (GroupState.STABLE, GroupState.EMPTY)
            if at_rest and group.generation_id == (recorded.generation if recorded else 0):
                assert served(group) == served(other)

    def check_replay(self) -> None:
        """17: replaying the log gives the running state, from any prefix that ends at a batch's end."""
        assert len(self.batches.offsets) == len(self.driver.log)
        for count, (offsets, group_ids) in enumerate(
            zip(self.batches.offsets, self.batches.group_ids, strict=True), start=1
        ):
            again = self.driver.restarted(count, loaded=False)
            assert values(again.shard.offsets(GROUP)) == values(offsets)
            assert set(again.shard.group_ids) == set(group_ids)
        running = self.driver.shard.group(GROUP)
        loaded = self.driver.restarted().shard.group(GROUP)
        if running is not None and running.state in (GroupState.STABLE, GroupState.EMPTY):
            assert loaded is not None
            assert loaded.state is running.state
            assert loaded.generation_id == running.generation_id
            assert loaded.protocol_name == running.protocol_name
            assert loaded.leader_id == running.leader_id
            assert {m.member_id: m.assignment for m in loaded.members.values()} == {
                m.member_id: m.assignment for m in running.members.values()
            }

    def end(self) -> None:
        """6, 8, 12: left alone, the group comes to rest, answers all, and is empty."""
        self.driver.fail_next = None
        self.driver.pass_ms(LONGEST_MS)
        self.learn()
        assert self.joins == {}
        assert self.syncs == {}
        group = self.driver.shard.group(GROUP)
        assert group is None or (group.state is GroupState.EMPTY and not group.members)
        for producer in (1, 2):
            self.driver.marker(committed=False, producer=ProducerStamp(producer, 0))
        self.driver.pass_ms(CONFIG.offsets_retention_ms + LONGEST_MS)
        self.driver.pass_ms(CONFIG.offsets_retention_check_interval_ms)
        assert self.driver.shard.group_ids == ()
        assert self.driver.restarted().shard.group_ids == ()


def served(group: ClassicGroup) -> dict[str, Any]:
    """All that a group at rest is served by, but for what no record says."""
    return {
        "state": group.state,
        "since": group.state_timestamp_ms,
        "generation": group.generation_id,
        "leader": group.leader_id,
        "protocol": (group.protocol_type, group.protocol_name),
        "topics": group.subscribed_topics,
        "instances": group.static_members or {},
        "members": [
            (
                each.member_id,
                each.instance_id,
                each.client_id,
                each.client_host,
                each.session_timeout_ms,
                each.rebalance_timeout_ms,
                metadata_of(each.protocols, group.protocol_name),
                each.assignment,
            )
            for each in group.members.values()
        ],
    }


def values(offsets: Mapping[tuple[str, int], CommittedOffset]) -> dict[tuple[str, int], Any]:
    return {place: each[:5] for place, each in offsets.items()}


def run(world: World, acts: list[tuple[Any, ...]]) -> None:
    logger = logging.getLogger("groupsdk.broker.coordinator.classic")
    handler = Expelled(world)
    level = logger.level
    logger.addHandler(handler)
    logger.setLevel(logging.INFO)
    try:
        for act in acts:
            world.act(act)
    finally:
        logger.removeHandler(handler)
        logger.setLevel(level)


@settings(max_examples=200, deadline=None)
@given(st.lists(ACTS, max_size=60))
def test_random_membership_keeps_the_invariants_of_the_shard(acts: list[tuple[Any, ...]]) -> None:
    world = World()

    run(world, acts)

    world.check_replay()
    world.end()


@settings(max_examples=100, deadline=None)
@given(st.lists(st.tuples(ACTS, st.sampled_from((None, None, *FAILURES))), max_size=60))
def test_writes_fail_now_and_then(acts: list[tuple[Any, ErrorCode | None]]) -> None:
    world = World()

    for act, failure in acts:
        world.driver.fail_next = failure
        run(world, [act])

    world.end()
