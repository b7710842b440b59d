"""Tests what all nodes of a process share."""

import logging

import pytest

from groupsdk.broker.cluster import ClusterError
from groupsdk.broker.log.errors import StorageError
from groupsdk.broker.log.files import MemoryFiles
from groupsdk.error_code import ErrorCode
from tests.broker.clients import batch
from tests.broker.log.logs import failing, pairs, read_all
from tests.broker.rig import ClusterRig


def leaders(rig: ClusterRig, name: str) -> list[int]:
    """Returns the leader of each partition."""
    return [each.leader for each in rig.cluster.catalogue.topics[name].partitions]


def test_leaders_are_dealt_out_over_the_running_nodes() -> None:
    rig = ClusterRig(nodes=3)
    rig.nodes[2].running = False
    rig.cluster.create_topics({"a": 3, "b": 1})
    assert leaders(rig, "a") == [1, 3, 1]
    assert leaders(rig, "b") == [3]
    rig.cluster.add_partitions("b", 3)
    assert leaders(rig, "b") == [3, 1, 3]
    assert rig.cluster.controller_id == 1


def test_a_log_is_for_its_leader_in_its_epoch() -> None:
    rig = ClusterRig(nodes=2, topics={"t": 1})
    cluster = rig.cluster
    assert cluster.led_log(1, "t", 0).log_end_offset == 0
    assert cluster.led_log(1, "t", 0, 0) is cluster.log("t", 0)

    def refused(*asked: object) -> ErrorCode:
        with pytest.raises(ClusterError) as caught:
            cluster.led_log(*asked)  # type: ignore[arg-type]  # node, topic, partition, epoch
        return caught.value.error_code

    assert refused(2, "t", 0) is ErrorCode.NOT_LEADER_OR_FOLLOWER
    assert refused(1, "t", 1) is ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    assert refused(1, "t", -1) is ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    assert refused(1, "u", 0) is ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    assert refused(1, "t", 0, 1) is ErrorCode.UNKNOWN_LEADER_EPOCH
    cluster.move_leaders({("t", 0): 2})
    assert refused(1, "t", 0) is ErrorCode.NOT_LEADER_OR_FOLLOWER
    assert refused(2, "t", 0, 0) is ErrorCode.FENCED_LEADER_EPOCH
    assert cluster.led_log(2, "t", 0, 1).log_end_offset == 0


def test_a_move_to_where_it_is_moves_nothing() -> None:
    rig = ClusterRig(nodes=2, topics={"t": 1})
    rig.cluster.move_leaders({("t", 0): 1, ("none", 0): 2})
    assert rig.cluster.leader_epoch("t", 0) == 0
    rig.cluster.move_leaders({("t", 0): 2})
    assert rig.cluster.leader_epoch("t", 0) == 1


def test_the_running_nodes_take_over() -> None:
    rig = ClusterRig(nodes=3, topics={"t": 6})
    rig.nodes[2].running = False
    rig.cluster.take_over(2)
    assert 2 not in leaders(rig, "t")
    assert sorted(leaders(rig, "t")) == [1, 1, 1, 3, 3, 3]
    rig.nodes[1].running = rig.nodes[3].running = False
    rig.cluster.take_over(1)
    assert 1 in leaders(rig, "t")


def test_readers_are_woken_by_what_concerns_them() -> None:
    rig = ClusterRig(nodes=2, topics={"t": 2, "u": 1})
    woken: list[str] = []

    def wake() -> None:
        woken.append("t-0")

    rig.cluster.wait([("t", 0), ("u", 0)], wake)
    rig.cluster.appended(("t", 1))
    assert woken == []
    rig.cluster.appended(("t", 0))
    rig.cluster.move_leaders({("u", 0): 2 if leaders(rig, "u") == [1] else 1})
    assert len(woken) == 2
    rig.cluster.unwait([("t", 0)], wake)
    rig.cluster.delete_topics(("u",))
    assert len(woken) == 3
    rig.cluster.unwait([("u", 0), ("none", 0)], wake)
    rig.cluster.appended(("t", 0))
    assert len(woken) == 3


def test_the_internal_topics_come_when_they_are_needed() -> None:
    rig = ClusterRig(offsets_topic_num_partitions=7)
    assert not rig.cluster.catalogue.topics
    assert len(rig.cluster.internal_topic("__consumer_offsets").partitions) == 7
    assert rig.cluster.internal_topic("__consumer_offsets").is_internal
    config = rig.cluster.catalogue.config("topic", "__consumer_offsets")
    assert config["cleanup.policy"] == "compact"
    assert rig.cluster.coordinators("t") is None
    assert rig.cluster.coordinators("__consumer_offsets", create=False) is None
    assert rig.cluster.coordinators("__consumer_offsets") is rig.cluster.groups


@pytest.mark.parametrize("name", ["__consumer_offsets", "__transaction_state"])
def test_the_segments_of_internal_topics_may_be_small(name: str) -> None:
    rig = ClusterRig(offsets_topic_segment_bytes=300, transaction_state_log_segment_bytes=300)
    rig.cluster.internal_topic(name)

    assert rig.cluster.log(name, 0).config.segment_bytes == 300


def test_a_deleted_topic_leaves_no_records() -> None:
    rig = ClusterRig(topics={"t": 1})
    rig.cluster.log("t", 0).append(batch(b"v"), now_ms=1_000)
    rig.cluster.delete_topics(("t",))
    assert rig.cluster.leader("t", 0) is None
    rig.cluster.create_topics({"t": 1})
    assert rig.cluster.log("t", 0).log_end_offset == 0
    rig.cluster.close()


def test_a_topic_whose_deletion_the_disk_prevented_can_be_made_anew() -> None:
    rig = ClusterRig(topics={"t": 1})
    rig.cluster.log("t", 0).append(batch(b"v"), now_ms=1_000)
    assert isinstance(rig.files, MemoryFiles)
    rig.files.before = failing("rename", ending="t-0")
    with pytest.raises(StorageError):
        rig.cluster.delete_topics(("t",))
    rig.files.before = None
    rig.cluster.create_topics({"t": 1})
    assert rig.cluster.log("t", 0).log_end_offset == 0
    assert not rig.cluster.catalogue.deleted
    rig.cluster.close()


def test_a_topic_made_anew_while_its_namesake_is_deleted_keeps_what_is_written() -> None:
    rig = ClusterRig(topics={"t": 200})
    for partition in range(200):
        rig.cluster.log("t", partition).append(batch(b"old"), now_ms=1_000)
    deletion = rig.cluster.deletion(("t",))
    next(deletion)
    assert rig.cluster.leader("t", 0) is None
    rig.cluster.create_topics({"t": 200})
    for partition in range(200):
        rig.cluster.log("t", partition).append(batch(b"new"), now_ms=1_000)
    for _ in deletion:
        assert rig.cluster.leader("t", 0) is not None
    assert not rig.cluster.catalogue.deleted
    for partition in (0, 100, 199):
        log = rig.cluster.log("t", partition)
        assert [value for _, value in pairs(read_all(log))] == [b"new"]
    rig.cluster.close()


def test_a_topic_made_anew_before_its_namesakes_records_are_deleted_keeps_its_log() -> None:
    rig = ClusterRig(topics={"t": 1, "u": 1})
    for name in ("t", "u"):
        rig.cluster.log(name, 0).append(batch(b"old"), now_ms=1_000)
    gone = [rig.cluster.catalogue.delete_topic(name) for name in ("t", "u")]
    rig.cluster.create_topics({"t": 1})
    log = rig.cluster.log("t", 0)
    log.append(batch(b"new"), now_ms=1_000)
    for _ in rig.cluster.records_deletion(gone):
        pass
    assert rig.cluster.logs.is_open("t", 0)
    assert [value for _, value in pairs(read_all(log))] == [b"new"]
    assert not rig.cluster.catalogue.deleted
    rig.cluster.close()


def test_the_log_tells_what_becomes_of_topics_and_leaders(caplog: pytest.LogCaptureFixture) -> None:
    rig = ClusterRig(nodes=2, topics={"t": 2})
    with caplog.at_level(logging.INFO):
        rig.cluster.add_partitions("t", 12)
        rig.cluster.move_leaders({("t", partition): 1 for partition in range(12)})
        rig.cluster.delete_topics(("t",))
    assert caplog.messages == [
        "topic t: now has 12 partitions, before 2",
        "node 1: leads 6 more partitions: t-1, t-3, t-5, t-7, t-9, ...",
        "topic t: deleted",
    ]
