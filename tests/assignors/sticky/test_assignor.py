"""`sticky` is Kafka's: name, user data, and its results where those are the only right ones."""

import copy
import gc
import pickle
import random
from collections.abc import Iterator, Mapping, Sequence

import pytest
from kafka.coordinator.assignors.sticky.user_data import StickyAssignorUserData
from typing_extensions import override

from assignors.cooperative_sticky import CooperativeStickyAssignor
from assignors.sticky import StickyAssignor
from assignors.sticky.assignor import _FEW
from assignors.sticky.user_data import decode_claim, encode_claim
from groupsdk.assignment import (
    Assignment,
    Cluster,
    PartitionAssignor,
    Partitions,
    RebalanceProtocol,
    Subscription,
)
from tests.assignors.sticky.oracle import Group, best, quality
from tests.assignors.sticky.random_groups import random_group


def _parse(text: str) -> dict[str, dict[str, tuple[int, ...]]]:
    """Read "C0 t0-0 t0-2; C1": members, each with its partitions."""
    found: dict[str, dict[str, tuple[int, ...]]] = {}
    for part in text.split(";"):
        member, *names = part.split()
        found[member] = {}
        for name in sorted(names):
            topic, number = name.rsplit("-", 1)
            found[member][topic] = (*found[member].get(topic, ()), int(number))
    return found


def _group(
    counts: dict[str, int],
    topics: dict[str, Sequence[str]],
    owned: dict[str, dict[str, tuple[int, ...]]] | None = None,
    generation_id: int = 1,
) -> tuple[Cluster, dict[str, Subscription]]:
    claims = owned or {}
    return Cluster(counts), {
        member: Subscription(
            wanted,
            encode_claim(claims[member], generation_id) if member in claims else None,
        )
        for member, wanted in topics.items()
    }


def _assign(cluster: Cluster, subscriptions: dict[str, Subscription]) -> dict[str, Partitions]:
    found = StickyAssignor().assign(cluster, subscriptions)
    return {member: assignment.partitions for member, assignment in found.items()}


_ALL = ("t0", "t1", "t2", "t3")

# What Kafka's StickyAssignor 4.1.0 gives a fresh group.
_FRESH = [
    ({"t0": 3, "t1": 3}, {"C0": _ALL, "C1": _ALL}, "C0 t0-0 t0-2 t1-1; C1 t0-1 t1-0 t1-2"),
    (
        {"t": 10},
        {"C0": ["t"], "C1": ["t"], "C2": ["t"]},
        "C0 t-0 t-3 t-6 t-9; C1 t-1 t-4 t-7; C2 t-2 t-5 t-8",
    ),
    ({"t": 2}, {"C0": ["t"], "C1": ["t"], "C2": ["t"], "C3": ["t"]}, "C0 t-0; C1 t-1; C2; C3"),
    (
        {"t0": 1, "t1": 2, "t2": 3},
        {"C0": ["t0"], "C1": ["t0", "t1"], "C2": ["t0", "t1", "t2"]},
        "C0 t0-0; C1 t1-0 t1-1; C2 t2-0 t2-1 t2-2",
    ),
    ({"t": 4}, {"m-0": ["t"], "m-a": ["t"], "m-z": ["t"]}, "m-0 t-0 t-3; m-a t-1; m-z t-2"),
    ({"t": 3}, {"C0": ["t", "missing"], "C1": ["t", "missing"]}, "C0 t-0 t-2; C1 t-1"),
    (
        {"t0": 2, "t1": 2, "t2": 2, "t3": 2},
        {"C0": _ALL, "C1": _ALL, "C2": _ALL},
        "C0 t0-0 t1-1 t3-0; C1 t0-1 t2-0 t3-1; C2 t1-0 t2-1",
    ),
]


@pytest.mark.parametrize(("counts", "topics", "expected"), _FRESH)
def test_fresh_groups_as_in_java(
    counts: dict[str, int], topics: dict[str, Sequence[str]], expected: str
) -> None:
    assert _assign(*_group(counts, topics)) == _parse(expected)


def test_loads_as_in_java_where_the_extra_may_go_to_either() -> None:
    topics: dict[str, Sequence[str]] = {"C0": ["t0"], "C1": ["t0", "t1"], "C2": ["t0", "t1"]}
    found = _assign(*_group({"t0": 5, "t1": 2}, topics))
    assert sorted(sum(map(len, each.values())) for each in found.values()) == [2, 2, 3]


def test_member_leaves_as_in_java() -> None:
    before = _parse("C0 t0-0; C1 t1-0 t1-1; C2 t2-0 t2-1 t2-2")
    topics: dict[str, Sequence[str]] = {"C1": ["t0", "t1"], "C2": ["t0", "t1", "t2"]}
    found = _assign(*_group({"t0": 1, "t1": 2, "t2": 3}, topics, before))
    assert found == _parse("C1 t0-0 t1-0 t1-1; C2 t2-0 t2-1 t2-2")

    before = _parse("C0 t0-0 t1-1 t3-0; C1 t0-1 t2-0 t3-1; C2 t1-0 t2-1")
    counts = {"t0": 2, "t1": 2, "t2": 2, "t3": 2}
    found = _assign(*_group(counts, {"C0": _ALL, "C2": _ALL}, before))
    assert found == _parse("C0 t0-0 t0-1 t1-1 t3-0; C2 t1-0 t2-0 t2-1 t3-1")


def test_claims_of_partitions_that_are_gone() -> None:
    # Java assigns them, or throws; a topic was made anew with fewer partitions.
    owned: dict[str, dict[str, tuple[int, ...]]] = {"a": {"t": (0, 8)}, "b": {"t": (1, 9)}}
    found = _assign(*_group({"t": 4}, {"a": ["t"], "b": ["t"]}, owned))
    assert found == _parse("a t-0 t-2; b t-1 t-3")


def test_user_data_that_does_not_parse_claims_nothing() -> None:
    subscriptions = {"a": Subscription(["t"], b"\xff\xff"), "b": Subscription(["t"], b"")}
    assert _assign(Cluster({"t": 2}), subscriptions) == _parse("a t-0; b t-1")


def test_nothing_moves_for_nothing_among_kafka_pythons_members() -> None:
    # six topics, two members, and shares that no assignor would make from nothing
    owned = {"a": {"t": (0, 3, 4), "u": (1, 2, 5)}, "b": {"t": (1, 2, 5), "u": (0, 3, 4)}}
    subscriptions = {
        member: Subscription(["t", "u"], StickyAssignorUserData(list(claim.items()), 3).encode())
        for member, claim in owned.items()
    }

    plan = StickyAssignor().assign(Cluster({"t": 6, "u": 6}), subscriptions)

    assert {member: dict(each.partitions) for member, each in plan.items()} == owned


def test_newer_generation_wins_whoever_is_asked_first() -> None:
    for older in ("a", "b"):
        subscriptions = {
            member: Subscription(["t"], encode_claim({"t": [0, 1]}, 4 if member == older else 5))
            for member in ("a", "b")
        }
        found = _assign(Cluster({"t": 2}), subscriptions)
        newer = "b" if older == "a" else "a"
        assert found[newer] == {"t": (0,)}
        assert found[older] == {"t": (1,)}


def test_owned_partitions_of_the_subscription_do_not_count() -> None:
    # Eager members have given them up; only the user data tells what they had, as in Java.
    subscriptions = {
        "a": Subscription(["t"], owned_partitions={"t": [1]}, generation_id=7),
        "b": Subscription(["t"]),
    }
    assert _assign(Cluster({"t": 2}), subscriptions) == _parse("a t-0; b t-1")


def test_tells_the_leader_what_it_had() -> None:
    assignor = StickyAssignor()
    assert assignor.subscription_user_data(["t"]) is None
    assignor.on_assignment(Assignment({"t": (0, 3)}), 7)
    data = assignor.subscription_user_data(["t"])
    assert data is not None
    claim = decode_claim(data)
    assert (claim.partitions, claim.generation_id) == ({"t": (0, 3)}, 7)


def test_tells_what_it_had_again_and_again_since_when_it_had_it_last() -> None:
    assignor = StickyAssignor()
    had: list[dict[str, list[int]]] = [
        {"t": [0, 3]},
        {"t": [0, 3]},
        {"t": [0, 3], "u": [1]},
        {},
        {},
        {"u": [1]},
    ]
    for generation_id, partitions in enumerate(had):
        assignor.on_assignment(Assignment(partitions), generation_id)
        assert assignor.subscription_user_data(["t"]) == encode_claim(partitions, generation_id)
    # the caller's own lists are not what it compares with
    had[-1]["u"].append(2)
    assignor.on_assignment(Assignment(had[-1]), 9)
    assert assignor.subscription_user_data(["t"]) == encode_claim({"u": (1, 2)}, 9)


def test_a_leader_that_has_led_before_shares_out_as_a_new_one() -> None:
    leader = StickyAssignor()
    rng = random.Random(3)
    for generation_id in range(40):
        numbers = list(range(12))
        rng.shuffle(numbers)
        sizes = rng.choice([(4, 4, 4), (6, 6, 0), (2, 5, 5)])
        claims = {}
        for place, size in enumerate(sizes):
            mine, numbers = numbers[:size], numbers[size:]
            claims[f"m{place}"] = {rng.choice("tu"): tuple(sorted(mine))} if mine else {}
        members = ["m0", "m1", "m2", f"new-{generation_id}"]
        topics: dict[str, Sequence[str]] = dict.fromkeys(members, ("t", "u"))
        group = _group({"t": 12, "u": 12}, topics, claims, generation_id)
        expected = StickyAssignor().assign(*group)
        assert leader.assign(*group) == expected
        # what it has learnt can be left behind, and need not be copied
        for other in (copy.deepcopy(leader), pickle.loads(pickle.dumps(leader))):
            assert other.assign(*group) == expected


def test_memory_of_a_sticky_leader_is_bounded() -> None:
    leader = StickyAssignor()

    def lead(members: int, topic: str) -> None:
        claims: dict[str, dict[str, tuple[int, ...]]] = {
            f"m{n}": {topic: (n,)} for n in range(members)
        }
        wanted: dict[str, Sequence[str]] = dict.fromkeys(claims, ("t",))
        leader.assign(*_group({"t": 99}, wanted, claims))

    for number in range(300):
        lead(3, f"t{number}")
        reader = vars(leader)["_StickyAssignor__reader"]
        assert reader is None or reader.size <= _FEW
    lead(_FEW + 1, "t")
    assert vars(leader)["_StickyAssignor__reader"] is None


def test_sticky_assignor_is_a_partition_assignor() -> None:
    assignor = StickyAssignor()
    assert isinstance(assignor, PartitionAssignor)
    assert assignor.name == "sticky"
    assert assignor.version == 0
    assert assignor.supported_protocols == {RebalanceProtocol.EAGER}


@pytest.mark.parametrize("moves_before_racks", [False, True])
def test_order_of_racks_and_moves(moves_before_racks: bool) -> None:
    assignor = StickyAssignor(moves_before_racks=moves_before_racks)
    for seed in range(100):
        group = random_group(random.Random(f"order {seed}"), racks=True)
        subscriptions = {
            member: Subscription(
                each.topics,
                encode_claim(
                    {t: [n for n in ns if n < 2**31] for t, ns in group.claims[member].items()},
                    group.generations[member],
                ),
                rack_id=each.rack_id,
            )
            for member, each in group.subscriptions.items()
        }
        found = assignor.assign(group.cluster, subscriptions)
        whole = Group(group.cluster, subscriptions, group.claims, group.generations)
        measured = quality(whole, {member: each.partitions for member, each in found.items()})
        assert measured == best(whole, moves_first=moves_before_racks)


def test_the_collector_is_paused_unless_the_caller_says_otherwise() -> None:
    seen: list[bool] = []

    class Watched(Mapping[str, int]):
        @override
        def __getitem__(self, topic: str) -> int:
            seen.append(gc.isenabled())
            return 4

        @override
        def __iter__(self) -> Iterator[str]:
            return iter(["t"])

        @override
        def __len__(self) -> int:
            return 1

    for assignor, expected in (
        (StickyAssignor(), False),
        (StickyAssignor(pause_collector=False), True),
        (CooperativeStickyAssignor(), False),
        (CooperativeStickyAssignor(pause_collector=False), True),
    ):
        seen.clear()
        assignor.assign(Cluster(Watched()), {"m": Subscription(["t"])})
        assert set(seen) == {expected}
        assert gc.isenabled()
