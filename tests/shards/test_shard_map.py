"""Test who owns which shard, from descriptions of a group."""

import pytest

from groupsdk.errors import ConfigError
from groupsdk.shards.shard_map import DescribedMember, OwnerChange, ShardMap, ShardOwner
from groupsdk.wire.shards.protocol import (
    MemberState,
    ShardAssignment,
    encode_assignment,
    encode_member,
)


def member(
    member_id: str, owned: dict[str, int], standbys: tuple[str, ...] = ()
) -> DescribedMember:
    state = MemberState(endpoint=f"http://{member_id}", zone="z", client_id="c")
    given = ShardAssignment(1, 1, owned, standbys)
    return DescribedMember(member_id, encode_member(state), encode_assignment(given))


def owner(member_id: str, epoch: int) -> ShardOwner:
    return ShardOwner(member_id, f"http://{member_id}", epoch, "z", None, "c")


def test_owners_and_standbys_are_those_of_the_assignments() -> None:
    found = ShardMap("g")
    changes = found.update(
        "Stable", "shards", [member("a", {"s-1": 5}, ("s-2",)), member("b", {"s-2": 6})]
    )
    assert changes == (
        OwnerChange("s-1", None, owner("a", 5)),
        OwnerChange("s-2", None, owner("b", 6)),
    )
    assert dict(found.ownership.owners) == {"s-1": owner("a", 5), "s-2": owner("b", 6)}
    assert found.ownership.standbys == {"s-2": (owner("a", 0),)}


def test_owners_stay_while_the_group_rebalances_and_go_when_it_is_empty() -> None:
    found = ShardMap("g")
    found.update("Stable", "shards", [member("a", {"s": 5})])
    for state in ("PreparingRebalance", "CompletingRebalance"):
        assert found.update(state, "", []) == ()
        assert found.ownership.owners
    assert found.update("Stable", "shards", [member("b", {"s": 9})]) == (
        OwnerChange("s", owner("a", 5), owner("b", 9)),
    )
    assert found.update("Empty", "", []) == (OwnerChange("s", owner("b", 9), None),)
    assert not found.ownership.owners


def test_the_greater_epoch_decides_between_two_owners() -> None:
    found = ShardMap("g")
    found.update("Stable", "shards", [member("a", {"s": 5}), member("b", {"s": 4})])
    assert found.ownership.owners["s"] == owner("a", 5)


def test_a_member_that_cannot_be_read_is_left_out_with_a_warning(
    caplog: pytest.LogCaptureFixture,
) -> None:
    found = ShardMap("g")
    broken = DescribedMember("b", b"\0\0", b"\0\0\1")
    found.update("Stable", "shards", [member("a", {"s": 5}), broken])
    assert list(found.ownership.owners) == ["s"]
    assert "group=g member=b generation=-: what it owns cannot be read" in caplog.text


def test_a_group_without_shards_is_refused() -> None:
    with pytest.raises(ConfigError, match=r"'g' shares out no shards: .* 'range', not 'shards'"):
        ShardMap("g").update("Stable", "range", [])
