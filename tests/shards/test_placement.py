"""Holds where shards are placed: as even, and with as few moves, as any placement; compared with trying all of them."""

import math
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import replace
from itertools import product
from random import Random

import pytest
from hypothesis import given, settings, strategies as st

from groupsdk.shards.placement import place
from groupsdk.shards.types import Shard
from groupsdk.shards.work import NOBODY, Work
from groupsdk.wire.shards.protocol import MemberState
from tests.support.cases import each_case


NEEDS = st.sampled_from([frozenset[str](), frozenset({"gpu"}), frozenset({"gpu", "ssd"})])
CAPABILITIES = st.sampled_from(
    [frozenset[str](), frozenset({"gpu"}), frozenset({"gpu", "ssd"}), frozenset({"ssd"})]
)
ZONES = st.sampled_from([None, "a", "b"])


def work_of(
    shards: Sequence[Shard] | int,
    states: Sequence[MemberState] | int,
    owners: Sequence[int] | None = None,
    standbys: Mapping[int, Sequence[int]] | None = None,
    weights: Sequence[float] | None = None,
) -> Work:
    """Make shards and members, which own nothing unless told otherwise."""
    if isinstance(shards, int):
        shards = [Shard(f"s-{number}") for number in range(shards)]
    if isinstance(states, int):
        states = [MemberState()] * states
    members = [f"m-{number:03d}" for number in range(len(states))]
    owners = [NOBODY] * len(shards) if owners is None else owners
    return Work(shards, members, states, owners, standbys or {}, weights)


@st.composite
def works(draw: st.DrawFn, *, zones: bool = False, limits: bool = False) -> Work:
    """Draw a small group with equal weights."""
    shards = [
        Shard(f"s-{number}", needs=draw(NEEDS), zone=draw(ZONES) if zones else None)
        for number in range(draw(st.integers(1, 5)))
    ]
    states = [
        MemberState(
            capabilities=draw(CAPABILITIES),
            zone=draw(ZONES) if zones else None,
            max_shards=draw(st.none() | st.integers(0, 3)) if limits else None,
        )
        for _ in range(draw(st.integers(1, 3)))
    ]
    owners = [draw(st.integers(NOBODY, len(states) - 1)) for _ in shards]
    return work_of(shards, states, owners)


def is_valid(work: Work, targets: Sequence[int]) -> bool:
    """Return whether everybody is able to own what it gets, and nobody gets more than its limit."""
    counts = Counter(targets)
    return all(
        target == NOBODY or target in work.able[kind]
        for target, kind in zip(targets, work.kinds, strict=True)
    ) and all(counts[member] <= limit for member, limit in enumerate(work.limits))


def moves(work: Work, targets: Sequence[int]) -> int:
    """Count the shards that leave an owner."""
    return sum(
        owner not in (NOBODY, target) for owner, target in zip(work.owners, targets, strict=True)
    )


def off_zone(work: Work, targets: Sequence[int]) -> int:
    """Count the shards in another zone than their own, though a member that is able to own them is in that."""
    count = 0
    for shard, kind, target in zip(work.shards, work.kinds, targets, strict=True):
        zones = {work.states[member].zone for member in work.able[kind]}
        if shard.zone is not None and shard.zone in zones and target != NOBODY:
            count += work.states[target].zone not in (None, shard.zone)
    return count


def loads(work: Work, targets: Sequence[int]) -> list[int]:
    """Return how many shards members have, the most first."""
    counts = Counter(targets)
    return sorted((counts[member] for member in range(len(work.members))), reverse=True)


def best(work: Work) -> tuple[int, list[int], int, int]:
    """Return what the best of all placements has: unplaced, loads, off zone, moves."""
    everybody = range(NOBODY, len(work.members))
    return min(
        measure(work, targets)
        for targets in product(everybody, repeat=len(work.shards))
        if is_valid(work, targets)
    )


def measure(work: Work, targets: Sequence[int]) -> tuple[int, list[int], int, int]:
    """Return by what placements are compared."""
    return (
        list(targets).count(NOBODY),
        loads(work, targets),
        off_zone(work, targets),
        moves(work, targets),
    )


@pytest.mark.parametrize(
    ("zones", "limits"),
    [
        pytest.param(False, False, id="equal shards"),
        pytest.param(True, False, id="zones come after balance and before moves"),
        pytest.param(False, True, id="limits and needs"),
        pytest.param(True, True, id="limits, needs and zones"),
    ],
)
@settings(max_examples=150, deadline=None)
@given(data=st.data())
def test_no_placement_is_better(zones: bool, limits: bool, data: st.DataObject) -> None:
    work = data.draw(works(zones=zones, limits=limits))

    targets = place(work)

    assert is_valid(work, targets)
    assert measure(work, targets) == best(work)


def even_moves(sizes: Sequence[int], count: int) -> int:
    """Return how many shards have to leave their owners in any even placement: the closed form of docs/sticky.md."""
    quota, longer = divmod(count, len(sizes))
    kept = sum(min(size, quota) for size in sizes)
    return sum(sizes) - kept - min(longer, sum(size > quota for size in sizes))


@each_case("seed", range(40))
def test_large_groups_move_as_little_as_the_closed_form_says(seed: int) -> None:
    random = Random(seed)
    count, members = random.randrange(1, 400), random.randrange(1, 30)
    # skewed, as after members have come or gone
    owners = [
        min(int(random.expovariate(4 / members)), members - 1) if random.random() < 0.8 else NOBODY
        for _ in range(count)
    ]
    work = work_of(count, members, owners)

    targets = place(work)

    sizes = [owners.count(member) for member in range(members)]
    assert moves(work, targets) == even_moves(sizes, count)
    assert set(loads(work, targets)) <= {count // members, -(-count // members)}


def weighted(work: Work, weights: Sequence[float]) -> Work:
    """Return the same with weights."""
    shards = [
        replace(shard, weight=weight) for shard, weight in zip(work.shards, weights, strict=True)
    ]
    return replace(work, shards=shards, weights=list(weights))


@settings(max_examples=150, deadline=None)
@given(works(limits=True, zones=True), st.data())
def test_weighted_shards_are_placed_validly_and_none_is_left_out_in_vain(
    work: Work, data: st.DataObject
) -> None:
    weights = [data.draw(st.sampled_from([0.5, 1.0, 3.0, 100.0])) for _ in work.shards]
    work = weighted(work, weights)

    targets = place(work)

    assert is_valid(work, targets)
    assert measure(work, targets)[0] == best(work)[0]


@each_case("seed", range(30))
def test_the_greatest_load_is_within_the_bound_of_longest_first(seed: int) -> None:
    random = Random(seed)
    count, members = random.randrange(1, 200), random.randrange(1, 12)
    weights = [random.choice([1.0, random.expovariate(1) + 0.01, 5.0]) for _ in range(count)]
    owners = [random.randrange(-1, members) for _ in range(count)]
    work = weighted(work_of(count, members, owners), weights)

    targets = place(work)

    carried = [
        math.fsum(weight for weight, each in zip(weights, targets, strict=True) if each == member)
        for member in range(members)
    ]
    least = max(math.fsum(weights) / members, *weights)
    assert max(carried) <= (2 - 2 / (members + 1)) * least * 1.02
    again = place(replace(work, owners=targets))
    assert again == targets


def test_members_get_as_much_as_their_capacities_say() -> None:
    states = [MemberState(capacity=2.0), MemberState(capacity=1.0)]
    work = work_of(300, states, weights=[1.0] * 300)

    counts = Counter(place(work))

    assert counts[0] == pytest.approx(200, abs=3)


def test_a_member_at_its_limit_keeps_what_it_owns_and_the_rest_is_even() -> None:
    states = [MemberState(max_shards=2), MemberState(), MemberState()]
    work = work_of(12, states, [0] * 6 + [1] * 6)

    targets = place(work)

    assert loads(work, targets) == [5, 5, 2]
    assert moves(work, targets) == 4 + 1


def test_others_pass_shards_on_for_one_that_only_a_full_member_is_able_to_own() -> None:
    shards = [Shard("a"), Shard("b"), Shard("g", needs=frozenset({"gpu"}))]
    states = [MemberState(max_shards=2, capabilities=frozenset({"gpu"})), MemberState(max_shards=1)]

    targets = place(work_of(shards, states, [0, 0, NOBODY]))

    assert targets[2] == 0
    assert sorted(targets) == [0, 0, 1]


def test_a_running_shard_is_not_left_out_for_a_new_one() -> None:
    owners = [NOBODY, NOBODY, 0, 0, 1, 1]
    work = work_of(6, [MemberState(max_shards=2)] * 2, owners)

    assert place(work) == owners


def test_a_shard_without_an_owner_goes_to_the_standby_that_is_preferred() -> None:
    standbys = {0: [2, 1], 1: [2], 2: [1], 3: [0]}
    work = work_of(6, 3, standbys=standbys)

    targets = place(work)

    assert loads(work, targets) == [2, 2, 2]
    assert all(targets[shard] in standbys[shard] for shard in standbys)


def test_a_standby_passes_a_shard_on_to_another_standby_for_one_that_has_no_other() -> None:
    assert place(work_of(2, 2, standbys={0: [0, 1], 1: [0]})) == [1, 0]


def test_a_weighted_shard_goes_to_its_standby_where_that_has_room() -> None:
    work = work_of(4, 2, standbys={0: [1], 1: [1]}, weights=[4.0, 3.0, 2.0, 5.0])

    targets = place(work)

    assert targets[:2] == [1, 1]


def test_nothing_is_placed_without_members_and_without_shards() -> None:
    assert place(work_of(1, 0)) == [NOBODY]
    assert place(work_of(0, 1)) == []
    assert place(work_of(1, 0, weights=[1.0])) == [NOBODY]
