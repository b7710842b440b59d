"""Smooth what members measure, and move work only where the loads are far apart."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from math import exp, fsum

from assignors.weighted.local_search import Item, LocalSearch
from groupsdk.shards.types import Shard
from groupsdk.shards.work import NOBODY, Work


_ROUNDS = 50
"""How often the search, whose steps are bounded, is taken up again."""
_STEP, _NEAR = 0.7, 1.05


class SmoothedLoad:
    """The load of one shard: a mean in which a report counts less the older it is.

    Args:
        time_constant_ms: after so long a report counts 1/e of what it did.
    """

    __slots__ = ("_time_constant_ms", "_updated_ms", "value")

    def __init__(self, time_constant_ms: int = 60_000) -> None:
        self._time_constant_ms = time_constant_ms
        self._updated_ms: int | None = None
        self.value = 0.0

    def report(self, value: float, now_ms: int) -> None:
        """Take in what was measured; the first report counts in full."""
        if self._updated_ms is None:
            self.value = value
        else:
            age = max(now_ms - self._updated_ms, 0)
            self.value = value + (self.value - value) * exp(-age / self._time_constant_ms)
        self._updated_ms = now_ms


def effective_weights(shards: Sequence[Shard], loads: Mapping[str, float]) -> list[float]:
    """Return what each shard counts: its load if it was measured, else its weight in the measure of the loads."""
    measured = [shard for shard in shards if shard.name in loads]
    total = fsum(loads[shard.name] for shard in measured)
    weight = fsum(shard.weight for shard in measured)
    scale = total / weight if total > 0 else 1.0
    return [loads.get(shard.name, shard.weight * scale) for shard in shards]


@dataclass(frozen=True, slots=True)
class Balance:
    """How evenly work is spread."""

    greatest: float
    """The greatest load over capacity of a member."""
    mean: float
    """All load over all capacity."""
    least: float
    """A bound that no placement can get the greatest load below: the mean, or the heaviest shard on the largest member."""

    @property
    def ratio(self) -> float:
        """The greatest load over the mean; 1 without loads."""
        return self.greatest / self.mean if self.mean else 1.0

    @property
    def excess(self) -> float:
        """By which part the greatest load is above the bound."""
        return self.greatest / self.least - 1 if self.least else 0.0


def balance_of(work: Work, targets: Sequence[int]) -> Balance:
    """Return how evenly a placement spreads the work."""
    weights = work.weights or [1.0] * len(work.shards)
    loads = loads_of(work, targets)
    placed = [weight for weight, target in zip(weights, targets, strict=True) if target != NOBODY]
    if not placed:
        return Balance(0.0, 0.0, 0.0)
    greatest = max(load / work.capacities[member] for member, load in enumerate(loads))
    mean = fsum(placed) / fsum(work.capacities)
    return Balance(greatest, mean, max(mean, max(placed) / max(work.capacities)))


def loads_of(work: Work, targets: Sequence[int]) -> list[float]:
    """Return the load of each member."""
    weights = work.weights or [1.0] * len(work.shards)
    shares: list[list[float]] = [[] for _ in work.members]
    for weight, target in zip(weights, targets, strict=True):
        if target != NOBODY:
            shares[target].append(weight)
    return [fsum(share) for share in shares]


def relieve(work: Work, targets: Sequence[int], goal: float, budget: int) -> list[int]:
    """Move shards off the members that are above a goal, the most loaded first.

    Args:
        targets: by shard: the member that has it, or `NOBODY`.
        goal: the load over capacity to come below.
        budget: how many shards may move.

    Returns:
        The new targets. They may be above the goal, if no exchange of one or two shards helps.
    """
    now = list(targets)
    changed: set[int] = set()
    for step in _goals(balance_of(work, now).greatest, goal):
        for _ in range(_ROUNDS):
            search = _search(work, now, step)
            reached = search.run()
            if not _apply(search.moves, targets, now, changed, budget):
                return now
            if reached or not search.moves:
                break
    return now


def _goals(greatest: float, goal: float) -> Iterator[float]:
    """Yield goals that come nearer step by step: with a low one at once, no member has room for a heavy shard."""
    while greatest > goal * _NEAR:
        greatest = goal + (greatest - goal) * _STEP
        yield greatest
    yield goal


def _apply(
    moves: Sequence[tuple[Item, int, int]],
    start: Sequence[int],
    now: list[int],
    changed: set[int],
    budget: int,
) -> bool:
    """Carry out moves; return whether all were within the budget."""
    for place, (item, source, target) in enumerate(moves):
        shard = item[3]
        if shard not in changed and len(changed) >= budget:
            # half of an exchange is worse than none
            if place and moves[place - 1][1:] == (target, source):
                now[moves[place - 1][0][3]] = target
            return False
        now[shard] = target
        if target == start[shard]:
            changed.discard(shard)
        else:
            changed.add(shard)
    return True


def _search(work: Work, targets: Sequence[int], goal: float) -> LocalSearch:
    weights = work.weights
    assert weights is not None
    kinds, zones = work.kinds, [state.zone for state in work.states]
    able = [frozenset(each) for each in work.able]
    held: list[list[int]] = [[] for _ in work.members]
    for shard, target in enumerate(targets):
        if target != NOBODY:
            held[target].append(shard)
    unlimited = [limit >= len(targets) for limit in work.limits]
    room = [limit - len(mine) for limit, mine in zip(work.limits, held, strict=True)]

    def items(member: int) -> Iterable[Item]:
        return [(0, -weights[shard], "", shard) for shard in held[member]]

    def may_get(member: int, item: Item) -> bool:
        shard = item[3]
        if member not in able[kinds[shard]]:
            return False
        zone = work.shards[shard].zone
        if work.have_zones and zone is not None and zones[targets[shard]] == zone != zones[member]:
            return False
        # what a member passes on meanwhile makes no room: it is only a bound
        return unlimited[member] or room[member] > sum(
            target == member for _, _, target in search.moves
        )

    search = LocalSearch(loads_of(work, targets), work.capacities, goal, items, may_get)
    return search
