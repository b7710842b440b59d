"""The workload in numbers: weights, capacities, possible receivers, current owners."""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from assignors.sticky.ownership import Ownership
from assignors.weighted.report import WeightReport


LIGHTEST = 0.01
"""The least that a partition counts, as a part of the mean weight: nothing is without cost."""


@dataclass(frozen=True, slots=True)
class Workload:
    """All that the plan depends on.

    Attributes:
        capacities: by member.
        weights: topic to weight of each partition; topics sorted.
        subscribers: topic to members, ascending; topics with the same subscribers hold the same object.
        ownership: who has what.
        racks: by member; empty where racks do not matter.
        replica_racks: topic to the racks of each partition's replicas; without topics whose racks are not
            known.
    """

    capacities: Sequence[float]
    weights: Mapping[str, Sequence[float]]
    subscribers: Mapping[str, Sequence[int]]
    ownership: Ownership
    racks: Sequence[str | None] = ()
    replica_racks: Mapping[str, Sequence[frozenset[str]]] = field(default_factory=dict)

    @property
    def alike(self) -> Sequence[int] | None:
        """Return the members that may get everything; None where some may get some of it only."""
        different = {id(members): members for members in self.subscribers.values()}
        return next(iter(different.values())) if len(different) == 1 else None

    def least_load(self) -> float:
        """Return a load that no plan can do better than in its most loaded member, as load over capacity.

        The greatest of: the mean, of all and of the topics of each set of subscribers over these members;
        the heaviest partition on the member with the greatest capacity.
        """
        by_set: dict[int, list[float]] = {}
        members_of: dict[int, Sequence[int]] = {}
        bounds = [0.0]
        for topic, weights in self.weights.items():
            members = self.subscribers[topic]
            members_of[id(members)] = members
            by_set.setdefault(id(members), []).append(math.fsum(weights))
            bounds.append(max(weights) / max(self.capacities[m] for m in members))
        for key, sums in by_set.items():
            bounds.append(math.fsum(sums) / self._capacity_of(members_of[key]))
        everyone = set().union(*members_of.values())
        if everyone:
            total = math.fsum(total for sums in by_set.values() for total in sums)
            bounds.append(total / self._capacity_of(sorted(everyone)))
        return max(bounds)

    def _capacity_of(self, members: Sequence[int]) -> float:
        return math.fsum(self.capacities[member] for member in members)


def counted_capacity(capacity: float) -> float:
    """Round a capacity to the two significant digits that count."""
    return float(f"{capacity:.1e}")


def merged_weights(
    counts: Mapping[str, int],
    reports: Sequence[WeightReport],
    owned: Sequence[Mapping[str, Sequence[int]]],
) -> dict[str, list[float]]:
    """Find the weight of every partition.

    What the owner reports counts; without that, the most that another member reports; without any report,
    the mean of the topic, or else of all topics, or else 1. Nothing counts less than `LIGHTEST` of the mean.
    """
    known = _reported(counts, reports, owned)
    usual = _mean([weight for weights in known.values() for weight in weights.values()], 1.0)
    merged = {}
    for topic in sorted(counts):
        weights = known[topic]
        numbers = range(counts[topic])
        if len(weights) == len(numbers):
            merged[topic] = list(map(weights.__getitem__, numbers))
        else:
            mean = _mean(list(weights.values()), usual)
            merged[topic] = [weights.get(number, mean) for number in numbers]
    return _with_a_floor(merged)


def _reported(
    counts: Mapping[str, int],
    reports: Sequence[WeightReport],
    owned: Sequence[Mapping[str, Sequence[int]]],
) -> dict[str, dict[int, float]]:
    """Return what the owner reports for each partition that there is, or else the most that is reported."""
    by_owner: dict[str, dict[int, float]] = {topic: {} for topic in counts}
    by_others: dict[str, dict[int, float]] = {topic: {} for topic in counts}
    for report, mine in zip(reports, owned, strict=True):
        for topic, weights in report.weights.items():
            numbers = mine.get(topic, ())
            # What a member reports is mostly what it owns.
            if weights.keys() == set(numbers):
                if weights:
                    by_owner[topic].update(weights)
            elif topic in counts:
                by_owner[topic].update((p, weights[p]) for p in numbers if p in weights)
                others, count = by_others[topic], counts[topic]
                for partition, weight in weights.items():
                    if 0 <= partition < count and weight > others.get(partition, -1.0):
                        others[partition] = weight
    return {topic: by_others[topic] | by_owner[topic] for topic in counts}


def _mean(values: Sequence[float], default: float) -> float:
    # the exact sum, so that no order of the values makes a difference
    return math.fsum(values) / len(values) if values else default


def _with_a_floor(weights: dict[str, list[float]]) -> dict[str, list[float]]:
    mean = _mean([weight for each in weights.values() for weight in each], 0.0)
    if mean == 0.0:
        return {topic: [1.0] * len(each) for topic, each in weights.items()}
    floor = LIGHTEST * mean
    return {
        topic: each if min(each) >= floor else [max(weight, floor) for weight in each]
        for topic, each in weights.items()
    }
