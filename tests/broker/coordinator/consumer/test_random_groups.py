"""Lets random members of both protocols play in one group, with time, topics, faults and restarts."""

import random
from typing import Any

from groupsdk.broker.coordinator.group_status import ConsumerGroupState
from groupsdk.broker.coordinator.runtime.contract import RequestContext
from groupsdk.error_code import ErrorCode
from groupsdk.wire.messages.consumer_groups import ConsumerGroupHeartbeatRequest, TopicPartitions
from tests.broker.coordinator.consumer.rig import Rig, Topics, heartbeat_request


GROUP = "g"


class _Member:
    """A member that does what it is told: it gives up at once, or when it feels like it."""

    def __init__(self, rig: Rig, member_id: str, instance_id: str | None) -> None:
        self.rig = rig
        self.member_id = member_id
        self.instance_id = instance_id
        self.topics: tuple[str, ...] = ("t",)
        self.epoch = 0
        self.owned: dict[Any, tuple[int, ...]] = {}
        self.tell = True

    def heartbeat(self, epoch: int | None = None) -> int:
        """Sends a heartbeat and takes the answer; returns the error."""
        joins = self.epoch == 0
        if joins:
            self.owned = {}
        answer = self.rig.ask(
            ConsumerGroupHeartbeatRequest(
                GROUP,
                self.member_id,
                self.epoch if epoch is None else epoch,
                self.instance_id,
                rebalance_timeout_ms=2_000 if joins else -1,
                subscribed_topic_names=self.topics if joins or self.tell else None,
                topic_partitions=tuple(TopicPartitions(*each) for each in self.owned.items())
                if joins or self.tell
                else None,
            )
        )
        if answer.error_code in {110, 25, 82, 69}:
            self.epoch, self.tell = 0, True
        elif answer.error_code == 0:
            assert answer.member_epoch >= self.epoch or joins or epoch is not None
            self.epoch = max(answer.member_epoch, 0)
            self.tell = False
            if answer.assignment is not None:
                given = answer.assignment.topic_partitions
                new = {each.topic_id: each.partitions for each in given}
                self.tell = new != self.owned
                self.owned = new
        return int(answer.error_code)


def play(seed: int) -> None:
    chosen = random.Random(seed)
    topics = Topics(t=chosen.randint(1, 6), u=2)
    rig = Rig(topics, check_reload=seed % 10 == 0)
    members: list[_Member] = []
    made = 0
    for _ in range(60):
        action = chosen.random()
        if action < 0.2 or not members:
            made += 1
            static = chosen.random() < 0.3
            members.append(_Member(rig, f"m{made}", f"i{made % 3}" if static else None))
        elif action < 0.28:
            member = members.pop(chosen.randrange(len(members)))
            if chosen.random() < 0.6 and member.epoch:
                member.heartbeat(-2 if member.instance_id and chosen.random() < 0.5 else -1)
        elif action < 0.34:
            member = chosen.choice(members)
            member.topics, member.tell = chosen.choice([("t",), ("u",), ("t", "u"), ()]), True
        elif action < 0.38:
            topics.create("t", len(range(chosen.randint(6, 9))))
        elif action < 0.42:
            rig.advance(chosen.choice([100, 1_000, 5_000, 50_000]))
        elif action < 0.45:
            rig.reload()
        else:
            chosen.choice(members).heartbeat()
        _check_owners(rig, members)
    _settle(rig, members)


def _check_owners(rig: Rig, members: list[_Member]) -> None:
    """Holds that no two members of their own present epoch own a partition."""
    group = rig.shard.consumer_group(GROUP)
    if group is None:
        return
    owners: dict[tuple[Any, int], str] = {}
    for member in members:
        known = group.members.get(member.member_id)
        if known is None or known.epoch != member.epoch or not member.epoch:
            continue
        for topic_id, partitions in member.owned.items():
            for partition in partitions:
                place = (topic_id, partition)
                assert place not in owners, (place, owners[place], member.member_id)
                owners[place] = member.member_id


def _settle(rig: Rig, members: list[_Member]) -> None:
    """Without faults every reconciliation ends, and everything that is wanted has an owner."""
    rig.advance(120_000)  # whoever is gone is gone
    names = {member.instance_id: member for member in members if member.instance_id}
    alive = [m for m in members if m.instance_id is None or names[m.instance_id] is m]
    for _ in range(12):
        for member in alive:
            member.heartbeat()
    group = rig.group
    assert group.state is ConsumerGroupState.STABLE, group.members
    rig.check()
    wanted = {
        (topic.topic_id, index)
        for member in alive
        for name in member.topics
        if (topic := rig.topics.topic(name)) is not None
        for index in range(topic.partitions)
    }
    owned = [
        (topic_id, index)
        for member in alive
        for topic_id, indexes in member.owned.items()
        for index in indexes
    ]
    assert sorted(owned) == sorted(wanted)


def test_partitions_have_one_owner_and_every_reconciliation_ends() -> None:
    for seed in range(150):
        try:
            play(seed)
        except Exception as error:
            raise AssertionError(f"seed {seed}") from error


def test_a_member_that_must_give_up_and_unsubscribes_owes_both() -> None:
    # Found beside Kafka: what it still had of the topic hid what it was to give up already.
    rig = Rig(Topics(t=2, u=2))
    first, second = _Member(rig, "m1", None), _Member(rig, "m2", None)
    for member in (first, second):
        member.topics = ("t", "u")
    assert first.heartbeat() == 0
    assert second.heartbeat() == 0
    first.tell = False
    assert (
        first.heartbeat() == 0
    )  # told to give up half of each topic, and does not say that it did
    group = rig.group
    owed = {each: set(held) for each, held in group.members["m1"].pending.items()}
    assert owed
    assert rig.heartbeat("m1", first.epoch, subscribed_topic_names=("t",)).error_code == 0
    made = group.members["m1"]
    u = rig.topics.id_of("u")
    assert set(made.pending[u]) == {0, 1}
    assert u not in made.assigned
    for topic_id, partitions in owed.items():
        assert partitions <= set(made.pending[topic_id])


def test_growth_is_not_missed_where_the_request_that_saw_it_could_not_be_written() -> None:
    # Found by the simulation: the disk was full, and the members never got the new partitions.
    rig = Rig(Topics(t=2))
    member = _Member(rig, "m1", None)
    assert member.heartbeat() == 0
    rig.topics.create("t", 3)
    request = heartbeat_request("m1", member.epoch)
    result = rig.shard.handle(request, RequestContext(999, 1, "c"), rig.now_ms)
    assert result.records
    failed = rig.shard.append_failed(result, ErrorCode.NOT_ENOUGH_REPLICAS, rig.now_ms)
    assert [each.token for each in failed.replies] == [999]
    for _ in range(2):
        assert member.heartbeat() == 0
    assert sum(map(len, member.owned.values())) == 3


def test_a_static_member_that_comes_back_under_its_old_id_has_a_session() -> None:
    # Found by the simulation: it was kept for ever where it died before its next heartbeat.
    rig = Rig(Topics(t=2))
    for epoch in (0, -2, 0):
        assert rig.heartbeat("m1", epoch, instance_id="i1").error_code == 0
    rig.advance(60_000)
    assert not rig.group.members
