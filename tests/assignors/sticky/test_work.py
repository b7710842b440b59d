"""Groups that an adversary found to take most work, or memory, for their size: both stay within a budget."""

import tracemalloc
from collections.abc import Iterable, Iterator, Mapping

import pytest
from pytest_mock import MockerFixture

from assignors.sticky import min_cost_flow
from assignors.sticky.plan import fairest
from assignors.sticky.sparse_min_cost_flow import SparseMinCostFlow
from groupsdk.assignment import Cluster, Subscription
from tests.assignors.sticky.adversary import Shape, attack, make_group, size, work
from tests.assignors.sticky.oracle import Group, best, quality


_LINES_IF_SPARSE = 1500
_BYTES = 4_000


def test_groups_of_an_adversary_take_work_by_their_size() -> None:
    worst, _ = attack(lines=300_000, most=40, seed=1)
    group = make_group(worst)
    plan = fairest(group.cluster, group.subscriptions, group.claims, group.generations)
    assert quality(group, plan.holdings) == best(group, moves_first=False)


def test_groups_of_some_hundred_members_take_work_by_their_size() -> None:
    attack(lines=1_500_000, most=300, seed=3)


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(6))
def test_larger_groups_of_an_adversary_take_work_by_their_size(seed: int) -> None:
    attack(lines=20_000_000, most=1200, seed=seed)


@pytest.mark.parametrize("is_sparse", [True, False])
def test_groups_of_many_components_take_work_by_the_greatest(
    mocker: MockerFixture, *, is_sparse: bool
) -> None:
    mocker.patch("assignors.sticky.plan._is_sparse", return_value=is_sparse)
    # rings with gaps, in racks: some thirteen members each, however many there are
    works = [
        work(
            make_group(Shape(140 * factor, 150 * factor, 2, 2, 3, near=True, claims="half", seed=3))
        )
        for factor in (1, 8)
    ]
    assert works[1] < 1.5 * works[0]


@pytest.mark.parametrize("racks", [0, 3])
@pytest.mark.parametrize("read", [1, 2, 3])
def test_members_of_one_partition_topics_take_work_by_their_number(
    mocker: MockerFixture, read: int, racks: int
) -> None:
    mocker.patch("assignors.sticky.plan._is_sparse", return_value=True)
    shape = Shape(400, 700, read, 1, racks, near=False, claims="half", seed=1)
    assert work(make_group(shape), _LINES_IF_SPARSE)


def test_nothing_is_looked_for_beyond_the_last_layer_of_a_search(mocker: MockerFixture) -> None:
    mocker.patch("assignors.sticky.plan._is_sparse", return_value=True)
    search, steps = SparseMinCostFlow._search, SparseMinCostFlow._free_steps_to_member
    last = [0]
    layers: list[bool] = []

    def searched(flow: SparseMinCostFlow) -> None:
        search(flow)
        last[0] = max(flow._hops.values())

    def steps_to(flow: SparseMinCostFlow, member: int, layer: int) -> Iterator[tuple[int, int]]:
        layers.append(layer <= last[0])
        return steps(flow, member, layer)

    mocker.patch.object(SparseMinCostFlow, "_search", searched)
    mocker.patch.object(SparseMinCostFlow, "_free_steps_to_member", steps_to)
    group = make_group(Shape(400, 2_000, 40, 1, 0, near=False, claims="drawn", seed=1))
    fairest(group.cluster, group.subscriptions, group.claims, group.generations)
    assert layers
    assert all(layers)


def _with_a_topic_of_its_own(group: Group) -> Group:
    """Add a member that reads one partition and nothing else: no loads are even then."""
    counts = {**group.cluster.partition_counts, "lone": 1}
    return Group(
        Cluster(counts, group.cluster.replica_racks),
        {**group.subscriptions, "lone": Subscription(["lone"])},
        {**group.claims, "lone": {}},
        {**group.generations, "lone": 1},
    )


@pytest.mark.parametrize("even", [True, False])
def test_twelve_racks_take_work_by_the_partitions(mocker: MockerFixture, *, even: bool) -> None:
    mocker.patch("assignors.sticky.plan._is_sparse", return_value=False)
    works = []
    for factor in (1, 5):
        group = make_group(
            Shape(20 * factor, 10 * factor, 5, 20, 12, near=False, claims="drawn", seed=1)
        )
        works.append(work(group if even else _with_a_topic_of_its_own(group)))
    # Five times the partitions: the work for each stays.
    assert works[1] < 2 * works[0]


def test_racks_need_no_flow_where_loads_cannot_be_even(mocker: MockerFixture) -> None:
    mocker.patch("assignors.sticky.plan._is_sparse", return_value=False)
    flow = mocker.spy(min_cost_flow.MinCostFlow, "run")
    drawn = make_group(Shape(30, 8, 8, 30, 3, near=False, claims="drawn", seed=1))
    group = _with_a_topic_of_its_own(drawn)
    plan = fairest(group.cluster, group.subscriptions, group.claims, group.generations)
    assert not flow.call_count
    assert quality(group, plan.holdings) == best(group, moves_first=False)


_FLOWS = [
    Shape(400, 700, 2, 1, 3, near=False, claims="half", seed=1),
    Shape(300, 500, 3, 3, 3, near=False, claims="drawn", seed=1),
    Shape(300, 500, 3, 3, 12, near=False, claims="half", seed=1),
    Shape(300, 500, 3, 3, 0, near=False, claims="half", seed=1),
    Shape(300, 310, 2, 2, 3, near=True, claims="half", seed=3),
    Shape(300, 200, 2, 1, 3, near=True, claims="last", seed=1),
    Shape(200, 400, 10, 2, 12, near=False, claims="last", seed=1),
]


@pytest.mark.parametrize("shape", _FLOWS)
def test_a_flow_keeps_its_bounds_of_rounds_and_of_work_in_a_round(
    mocker: MockerFixture, shape: Shape
) -> None:
    mocker.patch("assignors.sticky.plan._is_sparse", return_value=True)
    run, search, steps = SparseMinCostFlow.run, SparseMinCostFlow._search, SparseMinCostFlow._steps
    free_steps = SparseMinCostFlow._free_steps
    # By flow: the nodes that each of its rounds took up, in both halves.
    rounds: list[tuple[list[list[int]], list[list[int]]]] = []

    def counted_run(flow: SparseMinCostFlow) -> None:
        rounds.append(([], []))
        run(flow)

    def counted_search(flow: SparseMinCostFlow) -> None:
        rounds[-1][0].append([])
        rounds[-1][1].append([])
        search(flow)

    def counted_steps(
        flow: SparseMinCostFlow, node: int, least: Mapping[int, int], base: int, one: int
    ) -> Iterable[tuple[int, int]]:
        rounds[-1][0][-1].append(node)
        return steps(flow, node, least, base, one)

    def counted_free_steps(flow: SparseMinCostFlow, node: int) -> Iterator[tuple[int, int]]:
        rounds[-1][1][-1].append(node)
        return free_steps(flow, node)

    mocker.patch.multiple(
        SparseMinCostFlow,
        run=counted_run,
        _search=counted_search,
        _steps=counted_steps,
        _free_steps=counted_free_steps,
    )
    group = make_group(shape)
    fairest(group.cluster, group.subscriptions, group.claims, group.generations)

    read = {topic for each in group.subscriptions.values() for topic in each.topics}
    partitions = sum(group.cluster.partition_counts[topic] for topic in read)
    assert rounds
    for searched, moved in rounds:
        assert len(searched) <= partitions ** (7 / 8 if shape.racks else 3 / 4)
        # No node is taken up twice in a round: its work is that of looking at all once, besides paths.
        assert all(len(set(nodes)) == len(nodes) for nodes in (*searched, *moved))


@pytest.mark.parametrize("is_sparse", [True, False])
def test_memory_goes_by_the_size(mocker: MockerFixture, *, is_sparse: bool) -> None:
    mocker.patch("assignors.sticky.plan._is_sparse", return_value=is_sparse)
    group = make_group(Shape(300, 500, 2, 1, 3, near=False, claims="half", seed=1))
    tracemalloc.start()
    try:
        fairest(group.cluster, group.subscriptions, group.claims, group.generations)
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert peak < _BYTES * size(group)
