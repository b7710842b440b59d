"""Time the weighted assignor on large groups, and say how near to even it comes and what it moves.

No peer has an assignor like it. CPU seconds, median of the rounds: of `assign`, which reads all members' reports, and of the whole turn of a leader, which
reads the subscriptions and writes the assignments besides. Weights are drawn from a Pareto distribution of
shape 2.5, so that some partitions weigh many times the mean; what drifts is multiplied by 0.7 to 1.3.
"""

import random
import statistics
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from assignors.weighted import WeightedAssignor
from groupsdk.assignment import Assignment, Cluster, GroupAssignment, Subscription
from groupsdk.assignment.subscriptions import (
    decode_subscriptions,
    encode_assignments,
    encode_subscription,
)
from groupsdk.types import GroupMembers
from tests.benchmarks.report import Result, options_of


Weights = dict[str, dict[int, float]]

_SHAPE = 2.5
_DRIFT = 0.3
_NOTE = (
    "Weights are Pareto-distributed (shape 2.5), the tolerance is 2 %. `assign` reads the members' reports. "
    "Moves are partitions that a member lost which is still there. No peer has an assignor like it."
)


@dataclass(frozen=True)
class Case:
    """One group, and what happened to it."""

    partitions: int
    members: int
    event: str

    @property
    def name(self) -> str:
        """What the row is called."""
        return f"{self.partitions:,} partitions x {self.members:,} members, {self.event}"


CASES = [
    Case(partitions, members, event)
    for partitions, members in ((10_000, 100), (100_000, 1_000))
    for event in ("first", "nothing changed", "weights drifted by 30 %", "a tenth replaced")
]


def _counts(case: Case) -> dict[str, int]:
    return {f"topic-{number:03}": 1000 for number in range(case.partitions // 1000)}


def _drawn(case: Case, chance: random.Random) -> Weights:
    return {
        topic: {partition: chance.paretovariate(_SHAPE) for partition in range(count)}
        for topic, count in _counts(case).items()
    }


def _drifted(weights: Weights, chance: random.Random) -> Weights:
    return {
        topic: {p: weight * chance.uniform(1 - _DRIFT, 1 + _DRIFT) for p, weight in each.items()}
        for topic, each in weights.items()
    }


def _part(weights: Weights, assignment: Assignment) -> Weights:
    return {
        topic: {number: weights[topic][number] for number in numbers}
        for topic, numbers in assignment.partitions.items()
    }


def _joined(topics: Sequence[str], owned: Assignment, measured: Weights) -> Subscription:
    assignor = WeightedAssignor(weights=lambda: measured)
    assignor.on_assignment(owned, 1)
    return Subscription(topics, assignor.subscription_user_data(topics))


def build(case: Case) -> tuple[Weights, GroupAssignment, dict[str, bytes]]:
    """Make a group: the weights, who owns what, and the bytes that members join with.

    Every weight is reported once: by the owner, or where there is none by a member that owns nothing.
    """
    chance = random.Random(case.partitions)
    weights = _drawn(case, chance)
    topics, nothing = tuple(weights), Assignment()
    owned: dict[str, Assignment] = {f"member-{n:05}": nothing for n in range(case.members)}
    joined = {member_id: _joined(topics, nothing, {}) for member_id in owned}
    joined["member-00000"] = _joined(topics, nothing, weights)
    if case.event != "first":
        owned = dict(WeightedAssignor().assign(Cluster(_counts(case)), joined))
        if case.event.startswith("weights"):
            weights = _drifted(weights, chance)
        joined = {
            member_id: _joined(topics, each, _part(weights, each))
            for member_id, each in owned.items()
        }
        if case.event.startswith("a tenth"):
            for member_id in chance.sample(sorted(owned), case.members // 10):
                del joined[member_id]
                seen = _part(weights, owned.pop(member_id))
                joined[f"newcomer-{member_id}"] = _joined(topics, nothing, seen)
    return weights, owned, {member_id: encode_subscription(s) for member_id, s in joined.items()}


def _median(rounds: int, call: Callable[..., Any], *arguments: Any) -> float:
    taken = []
    for _ in range(rounds):
        start = time.process_time()
        call(*arguments)
        taken.append(time.process_time() - start)
    return statistics.median(taken)


def _lead(cluster: Cluster, members: GroupMembers) -> None:
    encode_assignments(WeightedAssignor().assign(cluster, decode_subscriptions(members)))


def run(arguments: list[str], *, quick: bool) -> Result:
    del quick
    rounds = options_of("weighted_assignor", arguments, rounds=3).rounds
    result = Result(
        "weighted_assignor",
        "The weighted assignor: CPU seconds of the leader, balance, moves",
        ["group", "assign", "with decoding and encoding", "greatest load / mean", "moves"],
        notes=[_NOTE],
        raw={},
    )
    for case in CASES:
        weights, owned, data = build(case)
        cluster, members = Cluster(_counts(case)), GroupMembers(data)
        subscriptions = decode_subscriptions(members)
        alone = _median(rounds, WeightedAssignor().assign, cluster, subscriptions)
        whole = _median(rounds, _lead, cluster, members)
        plan = WeightedAssignor().assign(cluster, subscriptions)
        loads = [
            sum(weights[topic][n] for topic, numbers in each.partitions.items() for n in numbers)
            for each in plan.values()
        ]
        evenness = max(loads) / (sum(loads) / len(loads))
        moves = sum(len(set(before) - set(plan[member_id])) for member_id, before in owned.items())
        result.rows.append(
            [case.name, f"{alone:.3f}", f"{whole:.3f}", f"{evenness:.3f}", f"{moves:,}"]
        )
        result.raw[case.name] = [alone, whole, evenness, moves]
    return result
