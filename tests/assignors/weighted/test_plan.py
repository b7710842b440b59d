"""Holds plans by weight to their bound, on small cases against the optimum."""

from itertools import product

from hypothesis import given, settings, strategies as st

from assignors.sticky.ownership import Ownership
from assignors.weighted.plan import Planner
from assignors.weighted.workload import Workload
from groupsdk.assignment import Partitions


TOLERANCE = 0.02


def workload(
    weights: list[float],
    capacities: list[float],
    owners: list[int] | None = None,
    racks: tuple[str | None, ...] = (),
    replicas: str = "",
) -> Workload:
    """Makes a workload of one topic; `owners` has the owner of each partition, -1 for none."""
    owners = owners or [-1] * len(weights)
    owned: list[Partitions] = [
        {"t": [p for p, owner in enumerate(owners) if owner == member]} if member in owners else {}
        for member in range(len(capacities))
    ]
    return Workload(
        capacities,
        {"t": weights},
        {"t": list(range(len(capacities)))},
        Ownership(owned, [], {"t": [p for p, owner in enumerate(owners) if owner < 0]}),
        racks,
        {"t": [frozenset(rack) for rack in replicas]} if replicas else {},
    )


def shared(work: Workload, rack_moves: int = 0) -> list[list[int]]:
    """Shares out; returns the partitions of each member."""
    hands = Planner(work, TOLERANCE, rack_moves).assignments()
    result = [list(hand.get("t", ())) for hand in hands]
    assert sorted(p for each in result for p in each) == list(range(len(work.weights["t"])))
    return result


def heaviest(work: Workload, hands: list[list[int]]) -> float:
    weights = work.weights["t"]
    return max(
        sum(weights[p] for p in hand) / capacity
        for hand, capacity in zip(hands, work.capacities, strict=True)
    )


def optimum(work: Workload) -> float:
    """Tries everything."""
    weights, members = work.weights["t"], range(len(work.capacities))
    return min(
        heaviest(work, [[p for p, owner in enumerate(owners) if owner == m] for m in members])
        for owners in product(members, repeat=len(weights))
    )


few_weights = st.lists(st.integers(1, 30).map(float), min_size=1, max_size=7)


@given(few_weights, st.integers(1, 3), st.data())
@settings(deadline=None, max_examples=150)
def test_the_bound_with_equal_members(weights: list[float], size: int, data: st.DataObject) -> None:
    owners = data.draw(
        st.lists(st.integers(-1, size - 1), min_size=len(weights), max_size=len(weights))
    )
    work = workload(weights, [1.0] * size, owners)

    load = heaviest(work, shared(work))

    assert load <= (1 + TOLERANCE) * 4 / 3 * optimum(work) + 1e-9
    stated = max(sum(weights) / size, max(weights))
    assert load <= (1 + TOLERANCE) * (2 - 2 / (size + 1)) * stated + 1e-9


@given(few_weights, st.lists(st.sampled_from([0.5, 1.0, 2.0]), min_size=1, max_size=3))
@settings(deadline=None, max_examples=150)
def test_the_bound_with_members_of_different_capacity(
    weights: list[float], capacities: list[float]
) -> None:
    work = workload(weights, capacities)

    assert heaviest(work, shared(work)) <= (1 + TOLERANCE) * 2 * optimum(work) + 1e-9


@settings(deadline=None)
@given(st.lists(st.floats(0.1, 100), min_size=1, max_size=60), st.integers(1, 6))
def test_its_own_result_is_kept_whole(weights: list[float], size: int) -> None:
    first = shared(workload(weights, [1.0] * size))
    owners = [
        next(member for member, hand in enumerate(first) if p in hand) for p in range(len(weights))
    ]

    assert shared(workload(weights, [1.0] * size, owners)) == first


@settings(deadline=None)
@given(st.integers(1, 60), st.integers(1, 7))
def test_equal_weights_are_shared_out_evenly(count: int, size: int) -> None:
    sizes = [len(hand) for hand in shared(workload([1.0] * count, [1.0] * size))]

    assert max(sizes) - min(sizes) <= 1


def test_plan_balanced_well_enough_is_kept() -> None:
    # 10.1 and 9.9 are within two percent of the mean
    work = workload([5.0, 5.1, 5.0, 4.9], [1.0, 1.0], [0, 0, 1, 1])

    assert shared(work) == [[0, 1], [2, 3]]


def test_one_move_is_enough_where_one_is() -> None:
    weights = [1.0] * 11 + [1.0] * 9

    moved = shared(workload(weights, [1.0, 1.0], [0] * 11 + [1] * 9))

    assert sorted(map(len, moved)) == [10, 10]
    assert set(moved[1]) > set(range(11, 20))


def test_member_with_more_capacity_gets_more_partitions() -> None:
    assert [len(hand) for hand in shared(workload([1.0] * 12, [1.0, 3.0, 2.0]))] == [2, 6, 4]


RACKS = ("a", "b")


def test_unplaced_partition_goes_to_a_rack_of_its_replicas() -> None:
    work = workload([1.0] * 6, [1.0, 1.0], racks=RACKS, replicas="bbbaaa")

    assert shared(work) == [[3, 4, 5], [0, 1, 2]]


def test_weighted_balance_comes_before_racks() -> None:
    work = workload([1.0] * 6, [1.0, 1.0], racks=RACKS, replicas="aaaaaa")

    assert sorted(map(len, shared(work))) == [3, 3]


def test_without_a_price_nothing_moves_for_its_rack() -> None:
    work = workload([1.0] * 4, [1.0, 1.0], [0, 0, 1, 1], RACKS, "bbaa")

    assert shared(work) == [[0, 1], [2, 3]]


@settings(deadline=None)
@given(st.integers(0, 8), st.text("ab", min_size=8, max_size=8))
def test_no_more_moves_for_racks_than_the_price(price: int, replicas: str) -> None:
    owners = [0] * 4 + [1] * 4
    work = workload([1.0] * 8, [1.0, 1.0], owners, RACKS, replicas)

    hands = shared(work, rack_moves=price)

    moved = [p for p, owner in enumerate(owners) if p not in hands[owner]]
    assert len(moved) <= price
    # and what moves is in a rack of its replicas then
    assert all(replicas[p] == "ba"[owners[p]] for p in moved)


def test_the_price_is_spent_on_the_heaviest() -> None:
    work = workload([1.0, 3.0, 1.0, 3.0], [1.0, 1.0], [0, 0, 1, 1], RACKS, "bbaa")

    assert shared(work, rack_moves=2) == [[0, 3], [1, 2]]


def test_weighted_plan_heeds_different_subscriptions() -> None:
    # the second topic is for the second member alone: it gets less of the first
    both, second = [0, 1], [1]
    work = Workload(
        [1.0, 1.0],
        {"t": [1.0] * 6, "u": [1.0] * 2},
        {"t": both, "u": second},
        Ownership([{}, {}], [], {"t": range(6), "u": range(2)}),
    )

    hands = Planner(work, TOLERANCE, 0).assignments()

    assert [{t: len(p) for t, p in hand.items()} for hand in hands] == [{"t": 4}, {"t": 2, "u": 2}]
