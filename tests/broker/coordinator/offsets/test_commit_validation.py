"""Tests which commits of a classic group's members are accepted."""

from groupsdk.broker.coordinator.classic.group import ClassicGroup
from groupsdk.broker.coordinator.classic.member import GroupMember
from groupsdk.broker.coordinator.group_status import GroupState
from groupsdk.broker.coordinator.offsets.commit_validation import validate_commit
from groupsdk.error_code import ErrorCode
from groupsdk.wire.messages.offsets import OffsetCommitRequest


def test_a_commit_is_checked_by_instance_id_member_id_and_generation() -> None:
    group = ClassicGroup("g", 1)
    group.protocol_type = "consumer"
    for member_id, instance_id in (("a", None), ("s", "i")):
        group.add(GroupMember(group, member_id, instance_id, "c", "/h", 60_000, 10_000, ()))
    group.generation_id = 3
    group.state = GroupState.STABLE
    for member_id, instance_id, generation_id, error in (
        ("a", None, 3, ErrorCode.NONE),
        ("s", "i", 3, ErrorCode.NONE),
        # a member that is there, with the instance id of another one: its place was taken
        ("a", "i", 3, ErrorCode.FENCED_INSTANCE_ID),
        ("gone", "i", 3, ErrorCode.FENCED_INSTANCE_ID),
        ("a", "unknown", 3, ErrorCode.UNKNOWN_MEMBER_ID),
        ("gone", None, 3, ErrorCode.UNKNOWN_MEMBER_ID),
        ("", None, -1, ErrorCode.UNKNOWN_MEMBER_ID),
        ("a", None, 2, ErrorCode.ILLEGAL_GENERATION),
        ("s", "i", 4, ErrorCode.ILLEGAL_GENERATION),
    ):
        request = OffsetCommitRequest("g", generation_id, member_id, instance_id)
        found = validate_commit(group, request, 9, lambda _: ())
        assert found is error, (member_id, instance_id, generation_id)
