"""The newer protocols' records, read alike."""

from uuid import UUID

from groupsdk.history.explain.timeline.modern_protocols import (
    MODERN_PROTOCOLS,
    PROTOCOL_BY_RECORD_TYPE,
    assigned_of,
    member_of,
    revoking_of,
    target_of,
    topic_id_text,
)
from groupsdk.wire.coordinator_records.consumer_group import (
    ClassicMemberMetadata,
    ConsumerGroupMemberMetadataValue,
)
from groupsdk.wire.coordinator_records.offsets_log import KEYS
from groupsdk.wire.coordinator_records.streams_group import (
    CurrentTaskIds,
    StreamsGroupCurrentMemberAssignmentValue,
    StreamsGroupTargetAssignmentMemberValue,
)
from groupsdk.wire.messages.streams_groups import TaskIds


def test_every_record_type_of_a_family_is_declared() -> None:
    assert len(PROTOCOL_BY_RECORD_TYPE) == 5 * len(MODERN_PROTOCOLS)
    for protocol in MODERN_PROTOCOLS:
        names = [
            KEYS[each].__name__ for each in (protocol.epoch, protocol.member, protocol.current)
        ]
        assert all(name.lower().startswith(protocol.name) for name in names)
        assert "GroupMetadata" in KEYS[protocol.epoch].__name__
        assert "GroupMemberMetadata" in KEYS[protocol.member].__name__
        assert "TargetAssignmentMetadata" in KEYS[protocol.target_epoch].__name__
        assert "TargetAssignmentMember" in KEYS[protocol.target].__name__
        assert "CurrentMemberAssignment" in KEYS[protocol.current].__name__


def test_a_topic_id_is_written_as_kafka_writes_it() -> None:
    assert topic_id_text(UUID("e4b83c39-e00c-4050-9469-4541776d0588")) == "5Lg8OeAMQFCUaUVBd20FiA"


def test_a_member_that_was_classic_keeps_its_session_timeout() -> None:
    value = ConsumerGroupMemberMetadataValue(
        "", None, "c", "/h", ("u", "t"), "x.*", 300_000, "uniform", ClassicMemberMetadata(6_000)
    )
    member = member_of("m", value)
    assert member.session_timeout_ms == 6_000
    assert member.topics == ("/x.*/", "t", "u")
    assert member.instance_id is None
    assert member.assignor_offered == "uniform"


def test_active_tasks_stand_by_their_subtopology() -> None:
    tasks = (TaskIds("1", (3, 0)), TaskIds("0", (1,)))
    expected = (("0", (1,)), ("1", (0, 3)))
    assert target_of(StreamsGroupTargetAssignmentMemberValue(tasks)) == expected
    held = (CurrentTaskIds("1", (3, 0), (5, 4)), CurrentTaskIds("0", (1,)))
    value = StreamsGroupCurrentMemberAssignmentValue(
        active_tasks=held, active_tasks_pending_revocation=held[:1]
    )
    assert assigned_of(value) == expected
    assert revoking_of(value) == (("1", (0, 3)),)
