"""Holds the values of shards: what a shard may be, and what a lease says."""

import math
from typing import Any

import pytest

from groupsdk.shards import Lease, Shard, ShardError
from groupsdk.shards.types import check_name, checked_shards, digest_of
from groupsdk.wire.shards.names import GREATEST_NAME
from groupsdk.wire.shards.protocol import GREATEST_WEIGHT


def test_a_shard_has_weight_1_and_no_needs_unless_told() -> None:
    shard = Shard("shard-1")

    assert (shard.weight, shard.needs, shard.zone) == (1.0, frozenset(), None)


def test_needs_of_any_kind_become_a_frozen_set() -> None:
    needs: Any = ["gpu", "ssd", "gpu"]

    assert Shard("a", needs=needs).needs == frozenset({"gpu", "ssd"})


@pytest.mark.parametrize("name", ["", "x" * (GREATEST_NAME + 1), "é" * 125, "\ud800", 3, None])
def test_a_name_out_of_bounds_is_refused(name: Any) -> None:
    with pytest.raises(ShardError, match="the name of a shard"):
        Shard(name)


@pytest.mark.parametrize("name", ["x", "x" * GREATEST_NAME, "é" * 124, "a b/c:\n", "007"])
def test_a_name_within_bounds_is_taken_as_it_is(name: str) -> None:
    assert Shard(name).name == name


@pytest.mark.parametrize(
    "weight", [0, -1.0, math.nan, math.inf, 2 * GREATEST_WEIGHT, True, "1", None]
)
def test_a_weight_out_of_bounds_is_refused_with_the_name_of_the_shard(weight: Any) -> None:
    with pytest.raises(ShardError, match="the weight of shard 'a' must be"):
        Shard("a", weight=weight)


@pytest.mark.parametrize("needs", ["gpu", 3, [""], [4]])
def test_needs_that_are_not_a_set_of_names_are_refused(needs: Any) -> None:
    with pytest.raises(ShardError, match="shard 'a'"):
        Shard("a", needs=needs)


def test_an_empty_zone_is_refused() -> None:
    with pytest.raises(ShardError, match="zone of shard 'a'"):
        Shard("a", zone="")


def test_a_checked_name_is_called_what_the_caller_says() -> None:
    with pytest.raises(ShardError, match="the zone must be a string, not 3"):
        check_name(3, "the zone")


def test_a_lease_asks_its_holder_whether_it_is_held() -> None:
    held = True
    asked: list[Lease] = []

    def is_held(lease: Lease) -> bool:
        asked.append(lease)
        return held

    lease = Lease("a", 7, "member-1", is_held)

    assert lease.held()
    held = False
    assert not lease.held()
    assert asked == [lease, lease]


def test_leases_are_equal_by_name_epoch_and_holder() -> None:
    def yes(_: Lease) -> bool:
        return True

    def no(_: Lease) -> bool:
        return False

    assert Lease("a", 7, "m", yes) == Lease("a", 7, "m", no)
    assert Lease("a", 7, "m", yes) != Lease("a", 8, "m", yes)


def test_names_become_shards_in_the_order_of_their_numbers() -> None:
    shards = checked_shards(["s-10", Shard("s-9", weight=2), "a"])

    assert shards == (Shard("a"), Shard("s-9", weight=2), Shard("s-10"))


@pytest.mark.parametrize(
    ("shards", "problem"),
    [
        (["a", "b", "a"], "'a' twice"),
        (["a", Shard("a")], "'a' twice"),
        (["a", 3], "must return names or Shards, not 3"),
        ("abc", "must return names or Shards, not 'abc'"),
        (None, "must return names or Shards, not None"),
        ([""], "1 to 249 bytes, not 0"),
        ((str(number) for number in range(500_001)), "more than 500000"),
    ],
)
def test_a_wrong_list_is_refused(shards: Any, problem: str) -> None:
    with pytest.raises(ShardError, match=problem):
        checked_shards(shards)


def test_the_digest_depends_on_the_shards_and_not_on_their_order() -> None:
    some = checked_shards(["a", "b"])

    assert digest_of(some) == digest_of((Shard("b", weight=1), Shard("a")))
    others: list[list[str | Shard]] = [
        ["a", "c"],
        ["a", Shard("b", weight=2)],
        ["a", Shard("b", needs=frozenset({"gpu"}))],
        ["a", Shard("b", zone="z")],
        ["a"],
    ]
    digests = {digest_of(checked_shards(each)) for each in others}
    assert len(digests | {digest_of(some)}) == len(others) + 1
    assert digest_of(checked_shards(["ab", "c"])) != digest_of(checked_shards(["a", "bc"]))
    assert 0 <= digest_of(()) < 2**64
