import pytest

from groupsdk.broker.coordinator.classic.group import ClassicGroup
from groupsdk.broker.coordinator.classic.member import GroupMember
from groupsdk.broker.coordinator.classic.responses import (
    heartbeat_answer,
    join_answer,
    join_error,
    leave_answer,
    sync_answer,
)
from groupsdk.error_code import ErrorCode
from groupsdk.wire.messages.groups import MemberResponse
from tests.support.cases import each_case


def generation() -> ClassicGroup:
    group = ClassicGroup("g", 1)
    group.protocol_type, group.protocol_name, group.generation_id = "work", "even", 3
    for each in ("a", "b"):
        offer = (("odd", b"o"), ("even", each.encode()))
        group.add(GroupMember(group, each, None, "c", "/h", 1, 2, offer))
    return group


def test_the_leader_is_shown_the_metadata_in_use() -> None:
    answer = join_answer(generation(), "a", 9, members=True)

    assert (answer.generation_id, answer.leader, answer.protocol_name) == (3, "a", "even")
    assert [(each.member_id, each.metadata) for each in answer.members] == [
        ("a", b"a"),
        ("b", b"b"),
    ]
    assert join_answer(generation(), "b", 9).members == ()
    assert join_answer(generation(), "a", 8, leader="old").leader == "old"


@pytest.mark.parametrize(("version", "name"), [(0, ""), (6, ""), (7, None), (9, None)])
def test_the_name_of_no_protocol(version: int, name: str | None) -> None:
    group = generation()
    group.protocol_name = None

    assert join_answer(group, "a", version).protocol_name == name
    assert join_error(ErrorCode.UNKNOWN_MEMBER_ID, "", version).protocol_name == name


def test_a_sync_names_the_protocol() -> None:
    answer = sync_answer(generation(), b"all")

    assert (answer.protocol_type, answer.protocol_name, answer.assignment) == (
        "work",
        "even",
        b"all",
    )


@pytest.mark.parametrize(
    ("version", "error", "members", "top"),
    [
        (2, ErrorCode.NONE, (25,), 25),
        (2, ErrorCode.NONE, (0,), 0),
        (2, ErrorCode.COORDINATOR_NOT_AVAILABLE, (25,), 15),
        (2, ErrorCode.NOT_COORDINATOR, (), 16),
        (3, ErrorCode.NONE, (25, 0), 0),
    ],
)
def test_one_members_error_stands_for_the_whole_up_to_version_2(
    version: int, error: ErrorCode, members: tuple[int, ...], top: int
) -> None:
    each = tuple(MemberResponse("m", None, code) for code in members)

    answer = leave_answer(error, each, version)

    assert answer.error_code == top
    assert answer.members == (each if version >= 3 else ())


@each_case("error", ErrorCode)
def test_every_error_has_its_heartbeat(error: ErrorCode) -> None:
    assert heartbeat_answer(error).error_code == error
