"""In which order a commit or a fetch of a consumer group's member is checked, as tests beside Kafka found it."""

import pytest

from groupsdk.wire.messages.offsets import (
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
    OffsetFetchRequest,
    OffsetFetchRequestGroup,
)
from tests.broker.coordinator.consumer.rig import Rig, Topics


TOO_LARGE = "x" * 4_097


@pytest.fixture
def rig() -> Rig:
    """A group whose member m has been given a topic in epoch 3."""
    made = Rig(Topics(t=1, u=1))
    for names, epoch in ((("t",), 2), (("t", "u"), 3)):
        assert made.heartbeat("m", subscribed_topic_names=names).member_epoch == epoch
    return made


def commit(rig: Rig, epoch: int, **metadata: str) -> dict[str, int]:
    """Commits partition 0 of topics with this metadata; returns the codes."""
    topics = tuple(
        OffsetCommitRequestTopic(name, partitions=(OffsetCommitRequestPartition(0, 1, -1, text),))
        for name, text in metadata.items()
    )
    answer = rig.ask(OffsetCommitRequest("g", epoch, "m", topics=topics), 9)
    return {topic.name: topic.partitions[0].error_code for topic in answer.topics}


def test_metadata_is_measured_before_an_older_epoch_is_looked_at(rig: Rig) -> None:
    assert commit(rig, 2, t="") == {"t": 0}
    assert commit(rig, 2, u="") == {"u": 113}
    assert commit(rig, 2, u=TOO_LARGE) == {"u": 12}
    assert commit(rig, 2, t="", u=TOO_LARGE) == {"t": 0, "u": 12}
    assert commit(rig, 2, t=TOO_LARGE, u="") == {"t": 113, "u": 113}
    assert commit(rig, 4, u=TOO_LARGE) == {"u": 113}


def test_an_epoch_without_a_member_id_is_a_fault_of_the_request(rig: Rig) -> None:
    for member_id, epoch, code in ((None, -1, 0), (None, 3, -1), ("", 3, 25), ("m", 3, 0)):
        asked = OffsetFetchRequestGroup("g", member_id, epoch, None)
        (group,) = rig.ask(OffsetFetchRequest(groups=(asked,)), 9).groups
        assert group.error_code == code


def test_commit_for_a_partition_under_revocation_is_accepted_in_an_older_epoch() -> None:
    rig = Rig(Topics(t=2, u=1))

    def joins(member_id: str, *names: str) -> int:
        return int(rig.heartbeat(member_id, subscribed_topic_names=names).member_epoch)

    def codes() -> list[int]:
        partitions = tuple(OffsetCommitRequestPartition(each, 1, -1, "") for each in range(2))
        topics = (OffsetCommitRequestTopic("t", partitions=partitions),)
        answer = rig.ask(OffsetCommitRequest("g", 2, "m", topics=topics), 9)
        return [each.error_code for each in answer.topics[0].partitions]

    assert [joins("m", "t"), joins("m", "t", "u"), joins("n", "t")] == [2, 3, 4]
    told = rig.heartbeat("m", 3)
    assert told.member_epoch == 3, "it has not given anything up"
    left = told.assignment.topic_partitions
    assert sum(len(each.partitions) for each in left) == 2
    assert codes() == [0, 0]
    assert rig.heartbeat("m", 3, topic_partitions=left).member_epoch == 4
    assert 113 in codes()
