"""The promises: valid, balanced, fewest moves, settled, and the same for the same input."""

import copy
import hashlib
import os
import random
import subprocess
import sys
import tracemalloc
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from pytest_mock import MockerFixture

from assignors.sticky import plan as plan_module
from assignors.sticky.ownership import OrderedPartitions
from assignors.sticky.plan import fairest
from groupsdk.assignment import Cluster, Partitions, Subscription
from tests.assignors.sticky.oracle import Group, best, quality
from tests.assignors.sticky.random_groups import random_group


_CASES, _CHUNKS = 12_000, 12


def _assign(group: Group, *, moves_first: bool = False) -> dict[str, OrderedPartitions]:
    return fairest(
        group.cluster, group.subscriptions, group.claims, group.generations, moves_first=moves_first
    ).holdings


@pytest.mark.parametrize("chunk", range(_CHUNKS))
def test_equals_the_exact_solver(chunk: int) -> None:
    size = _CASES // _CHUNKS
    for seed in range(chunk * size, (chunk + 1) * size):
        group = random_group(random.Random(seed))
        moves_first = bool(seed & 1)
        assigned = _assign(group, moves_first=moves_first)
        assert quality(group, assigned) == best(group, moves_first=moves_first), seed
        again = replace(group, claims=dict(assigned), generations=dict.fromkeys(assigned, 9))
        assert _assign(again, moves_first=moves_first) == assigned, f"not settled: {seed}"


@pytest.mark.parametrize("size", [3, 6])
def test_equals_the_exact_solver_on_greater_groups(size: int) -> None:
    for seed in range(300 // size):
        for moves_first in (False, True):
            group = random_group(random.Random(seed), size=size)
            assigned = _assign(group, moves_first=moves_first)
            assert quality(group, assigned) == best(group, moves_first=moves_first), seed


@pytest.mark.parametrize("moves_first", [False, True])
def test_equals_the_exact_solver_with_racks(moves_first: bool) -> None:
    for seed in range(1500):
        group = random_group(random.Random(f"racks {seed}"), racks=True)
        assigned = _assign(group, moves_first=moves_first)
        assert quality(group, assigned) == best(group, moves_first=moves_first), seed


def _always_by_lists(mocker: MockerFixture) -> None:
    mocker.patch("assignors.sticky.plan._is_sparse", return_value=True)


def test_equals_the_exact_solver_by_lists(mocker: MockerFixture) -> None:
    _always_by_lists(mocker)
    for seed in range(1200):
        racks = True if seed % 3 == 0 else None
        group = random_group(random.Random(f"lists {seed}"), racks=racks, size=1 + seed % 7 // 6)
        moves_first = bool(seed & 1)
        assigned = _assign(group, moves_first=moves_first)
        assert quality(group, assigned) == best(group, moves_first=moves_first), seed
        again = replace(group, claims=dict(assigned), generations=dict.fromkeys(assigned, 9))
        assert _assign(again, moves_first=moves_first) == assigned, f"not settled: {seed}"


def test_order_does_not_matter_by_lists(mocker: MockerFixture) -> None:
    _always_by_lists(mocker)
    for seed in range(100):
        group = random_group(random.Random(seed))
        expected = repr(_assign(group))
        other = _shuffle_group(group, random.Random(seed))
        assert repr(_assign(other)) == expected, seed


def _many_topics(members: int, per_member: int) -> Group:
    chance = random.Random(members)
    topics = [f"t{number:05d}" for number in range(20 * members)]
    subscriptions = {
        f"m{number:05d}": Subscription(sorted(chance.sample(topics, per_member)))
        for number in range(members)
    }
    return Group(Cluster(dict.fromkeys(topics, 1)), subscriptions, {}, {})


def test_many_topics_with_few_readers_take_memory_as_subscriptions_do(
    mocker: MockerFixture,
) -> None:
    mocker.patch("assignors.sticky.subscription_index._LARGE", 0)
    by_lists = mocker.spy(plan_module, "share_sparsely")
    peaks = []
    for members in (200, 800):
        group = _many_topics(members, 40)
        claims: dict[str, OrderedPartitions] = {member: {} for member in group.subscriptions}
        generations = dict.fromkeys(claims, -1)
        for owner in ("nobody", "all but a tenth"):
            tracemalloc.start()
            plan = fairest(group.cluster, group.subscriptions, claims, generations)
            peaks.append(tracemalloc.get_traced_memory()[1])
            tracemalloc.stop()
            loads = [sum(map(len, holding.values())) for holding in plan.holdings.values()]
            assert max(loads) - min(loads) <= 1, owner
            claims = {
                m: holding if index % 10 else {}
                for index, (m, holding) in enumerate(plan.holdings.items())
            }
    assert by_lists.call_count == 4
    # four times the members, topics and subscriptions; sets of bits take up to sixteen times as much
    assert peaks[2] < 6 * peaks[0], peaks
    assert peaks[3] < 6 * peaks[1], peaks


def _shuffled(mapping: dict[str, Any], chance: random.Random) -> dict[str, Any]:
    keys = list(mapping)
    chance.shuffle(keys)
    return {key: mapping[key] for key in keys}


def _shuffle_group(group: Group, chance: random.Random) -> Group:
    """Say the same in another order, and in other kinds of containers."""
    kinds = (list, tuple, set, frozenset)
    racks = {
        topic: [chance.choice(kinds)(each) for each in replicas]
        for topic, replicas in group.cluster.replica_racks.items()
    }
    claims = {}
    for member, claim in group.claims.items():
        numbers = {topic: chance.sample(list(each), len(each)) for topic, each in claim.items()}
        claims[member] = {t: chance.choice((list, tuple))(n) for t, n in numbers.items()}
    subscriptions = {
        member: replace(each, topics=chance.sample(list(each.topics), len(each.topics)) * 2)
        for member, each in group.subscriptions.items()
    }
    return Group(
        Cluster(_shuffled(dict(group.cluster.partition_counts), chance), _shuffled(racks, chance)),
        _shuffled(subscriptions, chance),
        {m: _shuffled(c, chance) for m, c in _shuffled(claims, chance).items()},
        _shuffled(group.generations, chance),
    )


@pytest.mark.parametrize("chunk", range(4))
def test_order_does_not_matter_down_to_the_order_of_the_result(chunk: int) -> None:
    for seed in range(chunk * 100, chunk * 100 + 100):
        group = random_group(random.Random(seed))
        expected = repr(_assign(group))
        for shuffle in range(3):
            other = _shuffle_group(group, random.Random(seed * 10 + shuffle))
            assert repr(_assign(other)) == expected, seed


def test_arguments_are_not_changed() -> None:
    for seed in range(200):
        group = random_group(random.Random(seed))
        before = copy.deepcopy(group)
        _assign(group)
        assert group == before
        assert repr(group.claims) == repr(before.claims)


_PROGRAM = """
import hashlib, random
from assignors.sticky.plan import fairest
from tests.assignors.sticky.random_groups import random_group
digest = hashlib.sha256()
for seed in range(150):
    group = random_group(random.Random(seed))
    plan = fairest(group.cluster, group.subscriptions, group.claims, group.generations)
    digest.update(repr(plan.holdings).encode())
print(digest.hexdigest())
"""


def test_the_seed_of_hashes_does_not_matter() -> None:
    root = Path(__file__).resolve().parents[3]
    digests = set()
    for seed in ("0", "1", "4711"):
        done = subprocess.run(
            [sys.executable, "-c", _PROGRAM],
            env={**os.environ, "PYTHONHASHSEED": seed, "PYTHONPATH": str(root)},
            capture_output=True,
            text=True,
            check=True,
            cwd=root,
        )
        digests.add(done.stdout.strip())
    assert len(digests) == 1
    expected = hashlib.sha256()
    for case in range(150):
        expected.update(repr(_assign(random_group(random.Random(case)))).encode())
    assert digests == {expected.hexdigest()}


def test_claims_kept_as_a_whole_are_not_copied() -> None:
    claim = {"t": (0, 1)}
    group = Group(
        Cluster({"t": 4}),
        {"a": Subscription(["t"]), "b": Subscription(["t"])},
        {"a": claim, "b": {}},
        {"a": 1, "b": 1},
    )
    assert _assign(group)["a"] is claim


@pytest.mark.parametrize(
    ("counts", "subscriptions"),
    [
        ({}, {}),
        ({"t": 3}, {}),
        ({}, {"m": ["t"]}),
        ({"t": 0}, {"m": ["t"]}),
        ({"t": 3}, {"m": []}),
        ({"t": 3}, {"m": ["other"]}),
    ],
)
def test_plan_without_partitions_or_subscribers_is_empty(
    counts: dict[str, int], subscriptions: dict[str, list[str]]
) -> None:
    found = fairest(
        Cluster(counts),
        {member: Subscription(topics) for member, topics in subscriptions.items()},
        {member: {"t": [0, -1, 99]} for member in subscriptions},
        dict.fromkeys(subscriptions, -1),
    )
    assert found.holdings == {member: {} for member in subscriptions}


def test_a_chain_of_ten_thousand() -> None:
    # Deeper than any recursion could go.
    size = 10_000
    topics = [f"t{index:05d}" for index in range(size + 1)]
    counts = dict.fromkeys(topics, 1) | {topics[0]: 3}
    subscriptions = {
        f"m{index:05d}": Subscription([topics[index], topics[index + 1]]) for index in range(size)
    }
    claims: dict[str, Partitions] = {
        f"m{index:05d}": {topics[index]: tuple(range(counts[topics[index]]))}
        for index in range(size)
    }
    found = fairest(Cluster(counts), subscriptions, claims, dict.fromkeys(claims, 1))
    loads = sorted(sum(map(len, holding.values())) for holding in found.holdings.values())
    assert loads == [1] * (size - 1) + [3 + 1] or loads == [1] * (size - 2) + [2, 3]
