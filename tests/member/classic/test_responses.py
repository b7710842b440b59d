"""Test the checks of answers that carry no error."""

import pytest

from groupsdk.errors import DecodeError, GroupSdkError, InconsistentGroupProtocolError
from groupsdk.member.classic.requests import (
    join_response_error,
    joined_members,
    sync_response_error,
)
from groupsdk.types import Generation, ProtocolMetadata
from groupsdk.wire.messages.groups import (
    JoinGroupResponse,
    JoinGroupResponseMember,
    SyncGroupResponse,
)
from tests.member.driving import joined, synced


OFFER = (ProtocolMetadata("even", b""), ProtocolMetadata("any", b""))
GENERATION = Generation(1, "m-1", "even")


@pytest.mark.parametrize(
    "response",
    [
        joined(),
        joined(0),
        joined(protocol_type=None),
        joined(protocol_name="any"),
        joined(leader="m-1", members=("m-1", "m-2")),
    ],
)
def test_a_right_join(response: JoinGroupResponse) -> None:
    assert join_response_error(response, "work", OFFER) is None


@pytest.mark.parametrize(
    ("response", "error", "says"),
    [
        (joined(protocol_type="consumer"), InconsistentGroupProtocolError, "'consumer' as 'work'"),
        (joined(protocol_name="odd"), InconsistentGroupProtocolError, "'odd'.*not offered"),
        (joined(protocol_name=None), InconsistentGroupProtocolError, "None.*not offered"),
        (joined(-1), DecodeError, "generation -1"),
        (joined(-(2**31)), DecodeError, "generation"),
        (joined(member_id=""), DecodeError, "member ''"),
        (joined(leader="m-1", members=("m-1", "m-2", "m-1")), DecodeError, "twice"),
        (
            joined(leader="m-1", members=("m-2",)),
            DecodeError,
            "leader of a group that does not list it",
        ),
        (joined(leader="m-1"), DecodeError, "leader of a group that does not list it"),
    ],
)
def test_a_wrong_join(response: JoinGroupResponse, error: type[GroupSdkError], says: str) -> None:
    with pytest.raises(error, match=says):
        raise join_response_error(response, "work", OFFER) or AssertionError("taken for right")


@pytest.mark.parametrize(
    "response",
    [synced(), synced(b""), synced(protocol_type=None, protocol_name=None)],
)
def test_a_right_sync(response: SyncGroupResponse) -> None:
    assert sync_response_error(response, "work", GENERATION) is None


@pytest.mark.parametrize(
    ("response", "says"),
    [
        (synced(protocol_type="consumer"), "'consumer' as 'work'"),
        (synced(protocol_name="any"), "'even'.*'any'"),
    ],
)
def test_a_wrong_sync(response: SyncGroupResponse, says: str) -> None:
    with pytest.raises(InconsistentGroupProtocolError, match=says):
        raise sync_response_error(response, "work", GENERATION) or AssertionError("taken for right")


def test_members_come_in_the_order_of_their_ids_with_their_instance_ids() -> None:
    members = joined_members(
        JoinGroupResponse(
            members=(
                JoinGroupResponseMember(member_id="b", group_instance_id="i-b", metadata=b"2"),
                JoinGroupResponseMember(member_id="a", metadata=b"1"),
            )
        )
    )
    assert list(members.items()) == [("a", b"1"), ("b", b"2")]
    assert members.instance_ids == {"b": "i-b"}
