"""Test the way from members' bytes to assignors, and of a plan to bytes."""

from dataclasses import replace

import pytest

from groupsdk.assignment import Assignment, Subscription
from groupsdk.assignment.subscriptions import (
    decode_assignment,
    decode_subscriptions,
    encode_assignments,
    encode_subscription,
)
from groupsdk.errors import DecodeError, EncodeError
from groupsdk.types import GroupMembers


MEMBER = Subscription(
    ("a", "t"),
    user_data=b"\x01",
    owned_partitions={"t": (1, 2)},
    generation_id=4,
    rack_id="r",
    group_instance_id="i",
)


def test_subscriptions_of_a_group() -> None:
    data = encode_subscription(MEMBER)
    members = GroupMembers({"m2": data, "m1": data}, {"m2": "i"})

    read = decode_subscriptions(members)

    assert list(read) == ["m2", "m1"]
    assert read["m2"] == MEMBER
    assert read["m1"].group_instance_id is None
    assert read["m1"].topics is read["m2"].topics


def test_a_plain_dict_will_do() -> None:
    read = decode_subscriptions({"m": encode_subscription(MEMBER)})

    assert read == {"m": replace(MEMBER, group_instance_id=None)}


def test_older_versions_tell_less() -> None:
    (read,) = decode_subscriptions(GroupMembers({"m": encode_subscription(MEMBER, 0)})).values()

    assert read == Subscription(("a", "t"), b"\x01")


def test_the_member_with_wrong_bytes_is_named() -> None:
    with pytest.raises(DecodeError, match=r"member 'bad': the 1 bytes of the subscription end"):
        decode_subscriptions(GroupMembers({"good": encode_subscription(MEMBER), "bad": b"\x00"}))


def test_a_plan_there_and_back() -> None:
    plan = {"m1": Assignment({"t": (0, 2), "a": (1,)}, b"u"), "m2": Assignment()}

    written = encode_assignments(plan)

    assert {member: decode_assignment(data) for member, data in written.items()} == plan


def test_the_version_is_that_asked_for() -> None:
    assert encode_assignments({"m": Assignment()}, 1)["m"][:2] == b"\x00\x01"
    assert encode_assignments({"m": Assignment()})["m"][:2] == b"\x00\x03"


def test_the_member_whose_share_does_not_fit_is_named() -> None:
    with pytest.raises(EncodeError, match="member 'm': cannot encode the assignment"):
        encode_assignments({"m": Assignment({"t": (1 << 31,)})})


def test_a_wrong_assignment() -> None:
    with pytest.raises(DecodeError, match="of the assignment end within"):
        decode_assignment(b"")
