"""Tests what cannot be encoded, and what is left out."""

import tracemalloc
from typing import Any
from uuid import UUID

import pytest

from groupsdk.errors import EncodeError
from groupsdk.wire.compiler import encode
from groupsdk.wire.encoder import compile_encoder
from groupsdk.wire.messages.connection import ApiVersionsResponse, SupportedFeatureKey
from groupsdk.wire.messages.consumer_groups import (
    Assignment,
    ConsumerGroupHeartbeatResponse,
    TopicPartitions,
)
from groupsdk.wire.messages.fetch import (
    FetchableTopicResponse,
    FetchRequest,
    FetchResponse,
    PartitionData,
    ReplicaState,
)
from groupsdk.wire.messages.group_admin import ConsumerGroupDescribeResponse, DescribedGroup, Member
from groupsdk.wire.messages.groups import (
    DescribeGroupsRequest,
    HeartbeatRequest,
    JoinGroupRequest,
    LeaveGroupRequest,
    MemberIdentity,
    SyncGroupRequest,
    SyncGroupRequestAssignment,
)
from groupsdk.wire.messages.metadata import FindCoordinatorRequest, MetadataRequest
from groupsdk.wire.messages.offsets import OffsetCommitRequest
from groupsdk.wire.primitives import TaggedField


UNKNOWN = (TaggedField(9, b"x"),)


def test_an_ignorable_field_is_left_out_where_the_version_lacks_it() -> None:
    assert encode(JoinGroupRequest("g", reason="why"), 7) == encode(JoinGroupRequest("g"), 7)
    assert encode(JoinGroupRequest("g", reason="why"), 8) != encode(JoinGroupRequest("g"), 8)


@pytest.mark.parametrize(
    ("message", "version", "problem"),
    [
        (
            HeartbeatRequest(group_instance_id="i"),
            2,
            r"HeartbeatRequest v2: group_instance_id is not in this version, only in 3\+",
        ),
        (
            FindCoordinatorRequest(key="g"),
            4,
            r"v4: key is not in this version, only in 0-3; leave it at its default ''",
        ),
        (
            MetadataRequest(include_cluster_authorized_operations=True),
            11,
            r"include_cluster_authorized_operations is not in this version, only in 8-10",
        ),
        (LeaveGroupRequest("g", members=(MemberIdentity(),)), 2, r"members is not in this version"),
    ],
)
def test_any_other_field_must_have_its_default_there(
    message: Any, version: int, problem: str
) -> None:
    with pytest.raises(EncodeError, match=problem):
        encode(message, version)


@pytest.mark.parametrize(
    "message",
    [
        HeartbeatRequest(unknown_tagged_fields=UNKNOWN),
        LeaveGroupRequest(members=(MemberIdentity(unknown_tagged_fields=UNKNOWN),)),
    ],
)
def test_tagged_fields_need_a_flexible_version(message: HeartbeatRequest) -> None:
    assert encode(message, 4).count(b"\x01\x09\x01x") == 1
    with pytest.raises(EncodeError, match="v3: has tagged fields, which this version does not"):
        encode(message, 3)


@pytest.mark.parametrize("tag", [0, 1, 2])
def test_an_unknown_tag_may_not_be_that_of_a_known_field(tag: int) -> None:
    message = ApiVersionsResponse(
        supported_features=(SupportedFeatureKey("f"),),
        finalized_features_epoch=5,
        unknown_tagged_fields=(TaggedField(tag, b""),),
    )
    if tag == 2:  # at its default, so not written: the number is free
        assert encode(message, 3)
        return
    with pytest.raises(EncodeError, match=f"has the tag {tag} twice"):
        encode(message, 3)


@pytest.mark.parametrize("version", [0, 4])
@pytest.mark.parametrize(
    ("message", "problem"),
    [
        (HeartbeatRequest(group_id=None), "group_id is None, which it may not be"),  # type: ignore[arg-type]
        (HeartbeatRequest(group_id=b"g"), "group_id must be str, not bytes"),  # type: ignore[arg-type]
        (
            HeartbeatRequest(group_id="x" * 32768),
            "group_id has 32768 bytes in UTF-8, over the limit",
        ),
        (HeartbeatRequest(member_id="\ud800"), "member_id has a character that UTF-8 cannot carry"),
        (
            HeartbeatRequest(generation_id=1 << 31),
            "generation_id is 2147483648, which does not fit 32",
        ),
        (HeartbeatRequest(generation_id="1"), "generation_id must be int, not str"),  # type: ignore[arg-type]
        (HeartbeatRequest(generation_id=None), "generation_id is None"),  # type: ignore[arg-type]
    ],
)
def test_a_wrong_value_is_named(message: HeartbeatRequest, problem: str, version: int) -> None:
    with pytest.raises(EncodeError, match=f"HeartbeatRequest v{version}: {problem}"):
        encode(message, version)


@pytest.mark.parametrize("version", [0, 5])
def test_a_wrong_value_in_an_array_is_named(version: int) -> None:
    good, bad = SyncGroupRequestAssignment("m"), SyncGroupRequestAssignment("n", "text")  # type: ignore[arg-type]

    with pytest.raises(EncodeError, match=r"assignments\[1\]\.assignment must be bytes, not str"):
        encode(SyncGroupRequest("g", assignments=(good, bad)), version)


@pytest.mark.parametrize("version", [0, 6])
def test_a_string_is_no_array_of_strings(version: int) -> None:
    with pytest.raises(EncodeError, match="groups must be a tuple, not str"):
        encode(DescribeGroupsRequest("abc"), version)  # type: ignore[arg-type]


def test_null_where_the_version_lacks_it() -> None:
    assert encode(MetadataRequest(None), 1)
    with pytest.raises(
        EncodeError, match="MetadataRequest v0: topics is None, which it may not be"
    ):
        encode(MetadataRequest(None), 0)


def test_a_struct_in_a_field_of_its_own() -> None:
    assignment = Assignment((TopicPartitions(UUID(int=7), (1, 2)),))
    inner = b"\2" + UUID(int=7).bytes + b"\3" + (1).to_bytes(4) + (2).to_bytes(4) + b"\0\0"

    assert encode(ConsumerGroupHeartbeatResponse(), 0)[-2:] == b"\xff\0"
    assert encode(ConsumerGroupHeartbeatResponse(assignment=assignment), 0).endswith(
        b"\0" * 4 + b"\1" + inner + b"\0"
    )
    with pytest.raises(
        EncodeError, match=r"members\[0\]\.target_assignment is None, which it may not"
    ):
        encode(
            ConsumerGroupDescribeResponse(
                groups=(DescribedGroup(members=(Member(target_assignment=None),)),)  # type: ignore[arg-type]
            ),
            1,
        )
    with pytest.raises(EncodeError, match="assignment must be Assignment, not tuple"):
        encode(ConsumerGroupHeartbeatResponse(assignment=()), 0)  # type: ignore[arg-type]
    wrong = Assignment((TopicPartitions(UUID(int=7), (1 << 31,)),))
    with pytest.raises(
        EncodeError, match=r"assignment\.topic_partitions\[0\]\.partitions\[0\] is 2147483648"
    ):
        encode(ConsumerGroupHeartbeatResponse(assignment=wrong), 0)


def test_a_tagged_struct_is_written_where_it_is_not_its_default() -> None:
    plain = FetchRequest(replica_id=-1)
    follower = FetchRequest(replica_state=ReplicaState(5, 6))

    assert encode(plain, 15)[-1:] == b"\0"
    assert encode(follower, 15).endswith(b"\1\1\x0d" + (5).to_bytes(4) + (6).to_bytes(8) + b"\0")
    with pytest.raises(
        EncodeError, match=r"v14: replica_state is not in this version, only in 15\+"
    ):
        encode(follower, 14)


@pytest.mark.parametrize("version", [4, 12])
def test_records_are_copied_into_the_message_once(version: int) -> None:
    records = bytes(1 << 20)
    partition = PartitionData(records=records)
    message = FetchResponse(responses=(FetchableTopicResponse("t", partitions=(partition,)),))
    encode(FetchResponse(), version)  # compiled by now
    tracemalloc.start()
    try:
        assert records in encode(message, version)
        assert tracemalloc.get_traced_memory()[1] < 1.1 * len(records)
    finally:
        tracemalloc.stop()


def test_secrets_stay_out_of_errors() -> None:
    with pytest.raises(EncodeError) as caught:
        encode(HeartbeatRequest(member_id="secret\ud800" + "x" * 40000), 4)

    assert "secret" not in str(caught.value)


def test_a_compiled_function_can_be_used_alone() -> None:
    assert compile_encoder(OffsetCommitRequest, 8)(OffsetCommitRequest("g")) == encode(
        OffsetCommitRequest("g"), 8
    )
