"""An adversary looks for groups that take most work, or memory, for their size: both stay within a budget.

Work is counted in lines of Python, so that it is the same on every machine; the size of a group is the number of
its members, subscriptions, partitions and claims. Both engines are tried on every group, whatever its size.
"""

import random
import tracemalloc
from collections.abc import Iterator
from dataclasses import dataclass, replace

import pytest
from pytest_mock import MockerFixture

from assignors.sticky.plan import fairest
from assignors.sticky.sparse_min_cost_flow import SparseMinCostFlow
from groupsdk.assignment import Cluster, Subscription
from groupsdk.assignment.check.steps import StepLimit
from tests.assignors.sticky.oracle import Group, best, quality


_LINES = 2500
_LINES_IF_SPARSE = 1500
_BYTES = 4_000
_CLAIMS = ("none", "first", "drawn", "half", "last")


@dataclass(frozen=True)
class Shape:
    """What the adversary chooses."""

    members: int
    topics: int
    read: int
    partitions: int
    racks: int
    near: bool
    claims: str
    seed: int

    def mutated(self, chance: random.Random, most: int) -> "Shape":
        """Return a shape that differs in one or two choices."""
        changed = self
        for _ in range(chance.randint(1, 2)):
            changed = replace(
                changed,
                **chance.choice(
                    (
                        {"members": chance.randint(2, most)},
                        {"topics": chance.randint(1, 2 * most)},
                        {"read": chance.choice((1, 1, 2, 2, 3, 5, 10))},
                        {"partitions": chance.choice((1, 1, 1, 2, 3, 4))},
                        {"racks": chance.choice((0, 0, 2, 3, 12))},
                        {"near": chance.random() < 0.5},
                        {"claims": chance.choice(_CLAIMS)},
                        {"seed": chance.randrange(1000)},
                    )
                ),
            )
        return changed


def make_group(shape: Shape) -> Group:
    """Make a group: each member reads some topics, drawn from all or next to each other."""
    chance = random.Random(shape.seed)
    topics = [f"t{number:05d}" for number in range(shape.topics)]
    racks = "abcdefghijkl"[: shape.racks]
    replicas = {
        topic: [frozenset(chance.sample(racks, 2)) for _ in range(shape.partitions)]
        for topic in topics
        if racks
    }
    subscriptions, readers = {}, dict[str, list[str]]()
    read = min(shape.read, shape.topics)
    for number in range(shape.members):
        member = f"m{number:05d}"
        first = number * shape.topics // shape.members
        wanted = (
            [topics[(first + step) % shape.topics] for step in range(read)]
            if shape.near
            else chance.sample(topics, read)
        )
        subscriptions[member] = Subscription(
            wanted, rack_id=chance.choice(racks) if racks else None
        )
        for topic in wanted:
            readers.setdefault(topic, []).append(member)
    claims: dict[str, dict[str, list[int]]] = {member: {} for member in subscriptions}
    for topic, those in readers.items():
        for number in range(shape.partitions):
            if shape.claims == "none" or (shape.claims == "half" and chance.random() < 0.5):
                continue
            owner = {"first": those[0], "last": those[-1]}.get(shape.claims) or chance.choice(those)
            claims[owner].setdefault(topic, []).append(number)
    counts = dict.fromkeys(topics, shape.partitions)
    return Group(Cluster(counts, replicas), subscriptions, dict(claims), dict.fromkeys(claims, 1))


def size(group: Group) -> int:
    """Return how much the assignor has to read and to write."""
    read = {topic for each in group.subscriptions.values() for topic in each.topics}
    return (
        len(group.subscriptions)
        + sum(len(each.topics) for each in group.subscriptions.values())
        + sum(group.cluster.partition_counts[topic] for topic in read)
        + sum(len(numbers) for claim in group.claims.values() for numbers in claim.values())
    )


def _work(group: Group, lines: int = _LINES) -> float:
    """Return the lines of Python that a plan takes, by the size of the group; stops beyond the budget."""
    steps = StepLimit(lines * size(group))
    with steps:
        fairest(group.cluster, group.subscriptions, group.claims, group.generations)
    return steps.taken / size(group)


def _attack(mocker: MockerFixture, lines: int, most: int, seed: int) -> Shape:
    """Climb towards the group that takes most work, by so many lines of plans in all, whatever else the machine does.

    A budget that is exceeded fails with the shape.
    """
    chance = random.Random(seed)
    engine = mocker.patch("assignors.sticky.plan._is_sparse")
    worst, most_work = Shape(most // 2, most, 2, 1, 3, near=False, claims="none", seed=seed), 0.0
    left = float(lines)
    while left > 0:
        shape = worst.mutated(chance, most)
        group = make_group(shape)
        for engine.return_value in (True, False):
            try:
                work = _work(group)
            except BaseException as error:
                # Also of TooManySteps, which is not an Exception.
                error.add_note(f"{shape}, sparse: {engine.return_value}")
                raise
            left -= work * size(group)
            if work > most_work:
                worst, most_work = shape, work
    return worst


def test_groups_of_an_adversary_take_work_by_their_size(mocker: MockerFixture) -> None:
    worst = _attack(mocker, lines=300_000, most=40, seed=1)
    group = make_group(worst)
    plan = fairest(group.cluster, group.subscriptions, group.claims, group.generations)
    assert quality(group, plan.holdings) == best(group, moves_first=False)


def test_groups_of_some_hundred_members_take_work_by_their_size(mocker: MockerFixture) -> None:
    _attack(mocker, lines=1_500_000, most=300, seed=3)


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(6))
def test_larger_groups_of_an_adversary_take_work_by_their_size(
    mocker: MockerFixture, seed: int
) -> None:
    _attack(mocker, lines=20_000_000, most=1200, seed=seed)


@pytest.mark.parametrize("is_sparse", [True, False])
def test_groups_of_many_components_take_work_by_the_greatest(
    mocker: MockerFixture, *, is_sparse: bool
) -> None:
    mocker.patch("assignors.sticky.plan._is_sparse", return_value=is_sparse)
    # rings with gaps, in racks: some thirteen members each, however many there are
    work = [
        _work(
            make_group(Shape(140 * factor, 150 * factor, 2, 2, 3, near=True, claims="half", seed=3))
        )
        for factor in (1, 8)
    ]
    assert work[1] < 1.5 * work[0]


@pytest.mark.parametrize("racks", [0, 3])
@pytest.mark.parametrize("read", [1, 2, 3])
def test_members_of_one_partition_topics_take_work_by_their_number(
    mocker: MockerFixture, read: int, racks: int
) -> None:
    mocker.patch("assignors.sticky.plan._is_sparse", return_value=True)
    shape = Shape(400, 700, read, 1, racks, near=False, claims="half", seed=1)
    assert _work(make_group(shape), _LINES_IF_SPARSE)


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


def test_twelve_racks_take_work_by_the_partitions(mocker: MockerFixture) -> None:
    mocker.patch("assignors.sticky.plan._is_sparse", return_value=False)
    work = []
    for factor in (1, 5):
        shape = Shape(20 * factor, 10 * factor, 5, 20, 12, near=False, claims="drawn", seed=1)
        work.append(_work(make_group(shape)))
    # Five times the partitions: the work for each stays.
    assert work[1] < 2 * work[0]


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
