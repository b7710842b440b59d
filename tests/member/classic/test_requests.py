"""Test what a member asks of its coordinator."""

from groupsdk.error_code import ErrorCode
from groupsdk.member.classic.requests import (
    MAX_REASON_LENGTH,
    heartbeat_request,
    in_words,
    join_request,
    leave_request,
    sync_request,
)
from groupsdk.member.requests import payload
from groupsdk.settings.config import MemberConfig
from groupsdk.types import Generation, ProtocolMetadata
from groupsdk.wire.messages.groups import (
    HeartbeatRequest,
    JoinGroupRequest,
    JoinGroupRequestProtocol,
    LeaveGroupRequest,
    MemberIdentity,
    SyncGroupRequest,
    SyncGroupRequestAssignment,
)
from groupsdk.wire.schema import ApiKey
from tests.member.driving import SETTINGS


CONFIG = MemberConfig.of(SETTINGS, group_instance_id="worker-3")
GENERATION = Generation(7, "m-1", "even")
LONG = "why " * 100


def test_join_carries_the_offer_in_order_of_preference() -> None:
    offer = (ProtocolMetadata("even", b"1"), ProtocolMetadata("any", b"2"))
    assert join_request(CONFIG, "m-1", "work", offer, "new shards") == JoinGroupRequest(
        group_id="g",
        session_timeout_ms=10_000,
        rebalance_timeout_ms=60_000,
        member_id="m-1",
        group_instance_id="worker-3",
        protocol_type="work",
        protocols=(
            JoinGroupRequestProtocol(name="even", metadata=b"1"),
            JoinGroupRequestProtocol(name="any", metadata=b"2"),
        ),
        reason="new shards",
    )


def test_reasons_are_cut_to_what_the_wire_carries() -> None:
    join = join_request(CONFIG, "", "work", (), LONG)
    leave = leave_request(CONFIG, "m-1", LONG)
    assert join.reason == leave.members[0].reason == LONG[:MAX_REASON_LENGTH]


def test_sync_names_type_and_protocol_and_sorts_the_plan() -> None:
    assert sync_request(CONFIG, GENERATION, "work", {"b": b"2", "a": b"1"}) == SyncGroupRequest(
        group_id="g",
        generation_id=7,
        member_id="m-1",
        group_instance_id="worker-3",
        protocol_type="work",
        protocol_name="even",
        assignments=(
            SyncGroupRequestAssignment(member_id="a", assignment=b"1"),
            SyncGroupRequestAssignment(member_id="b", assignment=b"2"),
        ),
    )


def test_heartbeat_carries_the_instance_id_so_that_a_fenced_member_learns_it() -> None:
    assert heartbeat_request(CONFIG, GENERATION) == HeartbeatRequest(
        group_id="g", generation_id=7, member_id="m-1", group_instance_id="worker-3"
    )


def test_leave_names_the_process_and_not_the_instance() -> None:
    assert leave_request(CONFIG, "m-1", "bye") == LeaveGroupRequest(
        group_id="g", members=(MemberIdentity(member_id="m-1", reason="bye"),)
    )


def test_the_payload_is_what_the_user_put_in() -> None:
    offer = (ProtocolMetadata("even", b"123"), ProtocolMetadata("any", b"45"))
    assert payload(join_request(CONFIG, "m-1", "work", offer, LONG)) == ("metadata", 5)
    plan = {"a": b"1234", "b": b"5"}
    assert payload(sync_request(CONFIG, GENERATION, "work", plan)) == ("a plan", 5)
    assert payload(sync_request(CONFIG, GENERATION, "work", {})) == ("a plan", 0)
    assert payload(heartbeat_request(CONFIG, GENERATION)) == ("", 0)


def test_an_error_names_the_setting_that_it_is_about() -> None:
    assert (
        in_words(CONFIG, ApiKey.HEARTBEAT, ErrorCode.UNKNOWN_MEMBER_ID) == "HEARTBEAT of group 'g'"
    )
    fenced = in_words(CONFIG, ApiKey.HEARTBEAT, ErrorCode.FENCED_INSTANCE_ID)
    assert fenced == "HEARTBEAT of group 'g' as group.instance.id='worker-3'"
    session = in_words(CONFIG, ApiKey.JOIN_GROUP, ErrorCode.INVALID_SESSION_TIMEOUT)
    assert session == "JOIN_GROUP of group 'g' with session.timeout.ms=10000"
