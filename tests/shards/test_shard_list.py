"""Holds what a list of shards may be, and its digest."""

from typing import Any

import pytest

from groupsdk.shards import Shard, ShardError
from groupsdk.shards.shard_list import checked_shards, digest_of


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
