"""Test the values that every layer shares."""

from collections.abc import Mapping
from dataclasses import FrozenInstanceError, fields

import pytest

from groupsdk.types import (
    NO_GENERATION,
    NO_GENERATION_ID,
    UNKNOWN_MEMBER_ID,
    Generation,
    GroupMembers,
    GroupMembershipOperation,
    ProtocolMetadata,
)


def test_no_generation_is_that_of_kafka() -> None:
    assert Generation(-1, "", None) == NO_GENERATION
    assert (NO_GENERATION_ID, UNKNOWN_MEMBER_ID) == (-1, "")
    assert not NO_GENERATION.has_member_id
    assert NO_GENERATION.is_reset


@pytest.mark.parametrize(
    ("generation", "has_member_id", "is_reset"),
    [
        (Generation(3, "m", "v0"), True, False),
        (Generation(-1, "m", None), True, True),  # the id outlived the generation
        (Generation(-1, "", "v0"), False, False),
        (Generation(0, "", None), False, False),
    ],
)
def test_generation_knows_whether_it_has_a_member_and_is_reset(
    generation: Generation, has_member_id: bool, is_reset: bool
) -> None:
    assert generation.has_member_id is has_member_id
    assert generation.is_reset is is_reset


def test_a_generation_is_a_value() -> None:
    generation = Generation(3, "m", "v0")
    assert generation == Generation(3, "m", "v0")
    assert hash(generation) == hash(Generation(3, "m", "v0"))
    assert generation != Generation(4, "m", "v0")
    for field in fields(generation):
        with pytest.raises(FrozenInstanceError):
            setattr(generation, field.name, None)


def test_members_are_a_mapping_in_its_order() -> None:
    members = GroupMembers({"b": b"2", "a": b"1"}, {"a": "static"})
    assert isinstance(members, Mapping)
    assert list(members) == ["b", "a"]
    assert dict(members) == {"b": b"2", "a": b"1"}
    assert len(members) == 2
    assert members["a"] == b"1"
    assert members.get("c") is None
    assert "b" in members
    assert members.instance_ids == {"a": "static"}
    with pytest.raises(KeyError):
        members["c"]


def test_members_are_equal_to_any_mapping_of_the_same_items() -> None:
    members = GroupMembers({"a": b"1"}, {"a": "static"})
    assert members == {"a": b"1"}
    assert members == GroupMembers({"a": b"1"})
    assert members != {"a": b"2"}
    with pytest.raises(TypeError, match="unhashable"):
        hash(members)


def test_members_without_static_ones() -> None:
    assert GroupMembers({"a": b""}).instance_ids == {}


def test_metadata_is_a_pair() -> None:
    name, metadata = ProtocolMetadata("v0", b"x")
    assert (name, metadata) == ("v0", b"x") == ProtocolMetadata("v0", b"x")


def test_the_ways_to_close_are_those_of_kafka() -> None:
    assert {each.name for each in GroupMembershipOperation} == {
        "DEFAULT",
        "LEAVE_GROUP",
        "REMAIN_IN_GROUP",
    }
