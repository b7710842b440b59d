"""Holds who stands by: never the owner, elsewhere, evenly, and as before."""

from collections import Counter
from collections.abc import Collection, Mapping, Sequence
from random import Random

from groupsdk.shards.standbys import place_standbys
from groupsdk.shards.types import Shard
from groupsdk.shards.work import NOBODY, Work
from groupsdk.wire.shards.protocol import MemberState
from tests.shards.test_placement import work_of
from tests.support.cases import each_case


def standing(
    work: Work,
    targets: Sequence[int],
    count: int = 1,
    current: Mapping[int, Sequence[int]] | None = None,
    claimed: Mapping[int, Collection[int]] | None = None,
) -> dict[int, list[int]]:
    """Place standbys, and check what holds for all."""
    chosen = place_standbys(work, targets, current or {}, claimed or {}, count)
    for shard, members in chosen.items():
        assert len(set(members)) == len(members) <= count
        assert targets[shard] not in members
        assert not set(members) & set((claimed or {}).get(shard, ()))
        assert set(members) <= set(work.able[work.kinds[shard]])
    return chosen


@each_case("seed", range(20))
def test_standbys_are_spread_evenly_over_all_and_over_those_of_each_owner(seed: int) -> None:
    random = Random(seed)
    members = random.randrange(3, 9)
    work = work_of(members * 20, members)
    targets = [shard % members for shard in range(members * 20)]

    chosen = standing(work, targets, 2)

    counts = Counter(member for each in chosen.values() for member in each)
    assert max(counts.values()) - min(counts.values()) <= members
    for owner in range(members):
        mine = Counter(m for s, each in chosen.items() if targets[s] == owner for m in each)
        assert max(mine.values()) - min(mine.values()) <= 1


def test_standbys_are_in_another_zone_than_the_owner_and_each_other() -> None:
    states = [MemberState(zone=zone) for zone in ("a", "a", "b", "b", "c", None)]
    work = work_of(60, states)
    targets = [shard % 6 for shard in range(60)]

    chosen = standing(work, targets, 2)

    for shard, members in chosen.items():
        zones = [states[member].zone for member in (targets[shard], *members)]
        named = [zone for zone in zones if zone is not None]
        assert len(set(named)) == len(named)


def test_with_one_zone_only_standbys_are_in_that() -> None:
    work = work_of(4, [MemberState(zone="a"), MemberState(zone="a")])

    assert standing(work, [0, 0, 1, 1]) == {0: [1], 1: [1], 2: [0], 3: [0]}


def test_present_standbys_stay_the_best_first() -> None:
    work = work_of(1, 5)

    assert standing(work, [0], 2, current={0: [3, 4, 2]}) == {0: [3, 4]}


def test_a_standby_that_becomes_the_owner_or_claims_the_shard_is_replaced() -> None:
    work = work_of(1, 3)

    assert standing(work, [1], current={0: [1]}, claimed={0: [2]}) == {0: [0]}


def test_a_standby_in_the_zone_of_the_owner_is_replaced_where_another_zone_can_stand_by() -> None:
    states = [MemberState(zone=zone) for zone in ("a", "a", "b")]

    assert standing(work_of(1, states), [0], current={0: [1]}) == {0: [2]}
    assert standing(work_of(1, states[:2]), [0], current={0: [1]}) == {0: [1]}


def test_only_members_that_are_able_to_own_a_shard_stand_by_for_it() -> None:
    states = [MemberState(capabilities=frozenset({"gpu"})), MemberState(), MemberState()]
    work = work_of([Shard("g", needs=frozenset({"gpu"})), Shard("x")], states)

    chosen = standing(work, [0, 0], 2)

    assert 0 not in chosen
    assert sorted(chosen[1]) == [1, 2]


def test_shard_without_an_owner_has_no_standby() -> None:
    assert standing(work_of(2, 2), [NOBODY, 0]) == {1: [1]}
    assert standing(work_of(2, 1), [0, 0]) == {}


@each_case("seed", range(20))
def test_a_member_that_comes_takes_some_standbys_over_and_the_others_stay(seed: int) -> None:
    random = Random(seed)
    work = work_of(100, 5)
    targets = [random.randrange(4) for _ in range(100)]
    before = standing(work_of(100, 4), targets)

    after = standing(work, targets, current=before)

    counts = Counter(member for each in after.values() for member in each)
    assert 15 <= counts[4] <= 20
    changed = [shard for shard in after if after[shard] != before[shard]]
    assert len(changed) <= 20 + sum(max(0, c - 20) for m, c in counts.items() if m < 4) + 10
