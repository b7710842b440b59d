"""Test what becomes of a group while an assignor computes its target elsewhere."""

from typing import Any
from uuid import UUID

from groupsdk.broker.coordinator.consumer.assignment_jobs import AssignmentJob, is_quick
from groupsdk.broker.coordinator.consumer.assignors import (
    GroupSpec,
    MemberSpec,
    RangeAssignor,
    UniformAssignor,
)
from groupsdk.broker.coordinator.consumer.group import ConsumerGroup
from groupsdk.broker.coordinator.consumer.topics import TopicInfo
from groupsdk.wire.messages.consumer_groups import TopicPartitions
from tests.broker.coordinator.consumer.rig import Rig, Topics


class Mine(UniformAssignor):
    """Not one of Kafka's, and so run elsewhere."""

    name = "mine"


class Elsewhere:
    """A coordinator whose assignor runs when the test says so."""

    def __init__(self) -> None:
        self.jobs: list[AssignmentJob] = []
        self.rig = Rig(Topics(t=4), assignors={"mine": Mine()}, start_assignment=self.jobs.append)

    @property
    def state(self) -> str:
        return self.group.state.value

    @property
    def group(self) -> ConsumerGroup:
        return self.rig.group

    def heartbeat(self, member_id: str, epoch: int = 0, **fields: Any) -> Any:
        return self.rig.heartbeat(member_id, epoch, **fields)

    def finish(self, failure: Exception | None = None) -> None:
        job = self.jobs.pop(0)
        outcome = job.run() if failure is None else failure
        self.rig.do(self.rig.shard.assigned(job, outcome, self.rig.now_ms))


def test_a_member_gets_its_partitions_with_the_heartbeat_after_the_result() -> None:
    it = Elsewhere()
    joined = it.heartbeat("m1")
    assert (joined.error_code, joined.member_epoch) == (0, 1)
    assert joined.assignment.topic_partitions == ()
    assert it.state == "Assigning"
    assert it.heartbeat("m1", 1).assignment is None
    assert len(it.jobs) == 1
    it.finish()
    told = it.heartbeat("m1", 1)
    assert told.member_epoch == 2
    assert told.assignment.topic_partitions[0].partitions == (0, 1, 2, 3)
    assert it.state == "Stable"


def test_members_that_come_meanwhile_are_in_the_next_target() -> None:
    it = Elsewhere()
    it.heartbeat("m1")
    for number in range(2, 5):
        it.heartbeat(f"m{number}")
    assert len(it.jobs) == 1
    it.finish()
    # for the epoch that it was computed for, which is behind the group's
    assert (it.group.assignment_epoch, it.group.epoch) == (2, 5)
    assert it.heartbeat("m2", 1).member_epoch == 2
    it.finish()
    assert it.group.assignment_epoch == 5
    assert [len(it.group.target(f"m{each}")) for each in range(1, 5)] == [1, 1, 1, 1]


def test_a_failure_is_told_once_and_the_last_target_stays() -> None:
    it = Elsewhere()
    it.heartbeat("m1")
    it.finish()
    it.heartbeat("m1", 1)
    it.heartbeat("m2")
    before = it.group.targets
    it.finish(LookupError("lost"))
    refused = it.heartbeat("m2", 2)
    assert (refused.error_code, "lost" in refused.error_message) == (-1, True)
    assert it.group.targets == before
    # the one after it tries again
    assert it.heartbeat("m2", 2).error_code == 0
    it.finish()
    assert it.heartbeat("m2", 2).member_epoch == 3


def test_results_for_what_has_changed_since_are_not_taken() -> None:
    it = Elsewhere()
    it.heartbeat("m1", instance_id="one")
    job = it.jobs[0]
    assert it.heartbeat("m1", -2, instance_id="one").error_code == 0
    # under another id, without a new epoch: the result knows nothing of it
    assert it.heartbeat("m2", instance_id="one").error_code == 0
    it.finish()
    assert it.group.assignment_epoch == 1
    it.heartbeat("m2", it.group.members["m2"].epoch)
    it.finish()
    assert it.group.assignment_epoch == it.group.epoch
    # nor twice, nor by a coordinator that has taken the group over since
    it.heartbeat("m3")
    late = it.jobs.pop()
    it.rig.reload()
    records = len(it.rig.log)
    for each in (job, late):
        it.rig.do(it.rig.shard.assigned(each, each.run(), it.rig.now_ms))
    assert len(it.rig.log) == records


def test_a_member_that_left_meanwhile_is_left_out() -> None:
    it = Elsewhere()
    it.heartbeat("m1")
    it.heartbeat("m2")
    it.finish()
    it.heartbeat("m1", 1)
    job = it.jobs[-1]
    assert set(job.spec.members) == {"m1", "m2"}
    assert it.heartbeat("m2", -1).error_code == 0
    it.finish()
    assert set(it.group.targets) == {"m1"}
    it.heartbeat("m1", it.group.members["m1"].epoch, topic_partitions=())
    it.finish()
    assert it.group.target("m1")[it.rig.topics.id_of("t")] == (0, 1, 2, 3)
    # and when the last one goes while it is computed, nothing is left of it
    it.rig.topics.create("t", 5)
    it.heartbeat("m1", it.group.members["m1"].epoch)
    it.heartbeat("m1", -1)
    it.finish()
    assert it.group.targets == {}


def test_only_kafkas_own_on_groups_that_are_not_huge_run_at_once() -> None:
    it = Elsewhere()
    it.heartbeat("m1")
    spec = it.jobs[0].spec
    assert is_quick(UniformAssignor(), spec)
    it.rig.topics.create("t", 5_000)
    it.finish()
    it.heartbeat("m1", 1, topic_partitions=(TopicPartitions(it.rig.topics.id_of("t"), ()),))
    assert not is_quick(UniformAssignor(), it.jobs[0].spec)
    # also few members and partitions, if each member subscribes to many topics: range looks at each pair
    ids = [UUID(int=number) for number in range(700)]
    for names, count, quick in (
        (ids[:10], 60, True),
        (ids[:100], 60, False),
        (ids[:1], 300, True),
        # each of very many members that join has it run once more
        (ids[:1], 400, False),
        (ids[:600], 1, True),
        (ids, 1, False),
    ):
        members = {
            f"m{number}": MemberSpec(
                member_id=f"m{number}",
                instance_id=None,
                rack_id=None,
                subscribed=frozenset(names),
                target={},
            )
            for number in range(count)
        }
        topics = {each: TopicInfo(each, str(each), 1) for each in names}
        group = GroupSpec(members=members, topics=topics, is_homogeneous=True)
        assert [is_quick(each, group) for each in (UniformAssignor(), RangeAssignor())] == [
            quick
        ] * 2
        assert not is_quick(Mine(), group)
