"""Improve a placement under limits until none is better: by cycles of shards that are passed on (Klein's algorithm).

Members are nodes; an arc leads from one to another that is able to own one of its shards, and costs what passing that on does. What a
member has costs the more the more it has (convex), by arcs from and to a further node. A placement is the best if and only if no
cycle has a negative cost.
"""

from collections.abc import Iterator, Sequence
from typing import Final

from groupsdk.shards.work import NOBODY, Work


GREATEST_SIZE: Final = 200_000
"""How many shards times members a placement may have to be improved: each cycle looks at that many arcs."""
_MOST_CYCLES: Final = 1_000

Arc = tuple[int, int, int, int]
"""From, to, its cost, and the shard that is passed on, or `NOBODY`."""


def improve(work: Work, targets: list[int]) -> None:
    """Bring loads nearer to each other, then shards into their zones, then more of them to their owners.

    Who is at its limit stays there, and as many shards as before are placed. Larger placements stay as they are.
    """
    if len(targets) * len(work.members) > GREATEST_SIZE:
        return
    for _ in range(_MOST_CYCLES):
        cycle = _negative_cycle(len(work.members) + 2, list(_arcs(work, targets)))
        if not cycle:
            return
        for _, member, _, shard in cycle:
            if shard != NOBODY:
                targets[shard] = member if member < len(work.members) else NOBODY


def _arcs(work: Work, targets: Sequence[int]) -> Iterator[Arc]:
    members = range(len(work.members))
    nobody, sink = len(members), len(members) + 1
    # a zone weighs more than all moves, and a load more than all zones
    zone_weight = len(targets) + 1
    load_weight = zone_weight * zone_weight
    loads = [0] * len(members)
    cheapest: dict[tuple[int, int], tuple[int, int]] = {}
    seen = set()
    costs = _Costs(work, zone_weight)
    for shard, target in enumerate(targets):
        place = nobody if target == NOBODY else target
        if target != NOBODY:
            loads[target] += 1
        group = place, work.alike[shard], work.owners[shard]
        if group in seen:
            continue  # another one costs the same
        seen.add(group)
        now = costs.of(shard, target)
        for other in (*work.able[work.kinds[shard]], nobody):
            cost = costs.of(shard, NOBODY if other == nobody else other) - now
            if other != place and cost < cheapest.get((place, other), (cost + 1, 0))[0]:
                cheapest[place, other] = cost, shard
    for (place, other), (cost, shard) in cheapest.items():
        yield place, other, cost, shard
    for member, load in enumerate(loads):
        if load < work.limits[member]:
            yield member, sink, load_weight * (2 * load + 1), NOBODY
        if load:
            yield sink, member, -load_weight * (2 * load - 1), NOBODY


class _Costs:
    """What it costs that a shard is with a member."""

    def __init__(self, work: Work, zone_weight: int) -> None:
        self._work = work
        self._zone_weight = zone_weight
        self._zones = [{work.states[member].zone for member in able} - {None} for able in work.able]

    def of(self, shard: int, member: int) -> int:
        """Return it: whether it has moved, and whether it is in another zone than it could be."""
        work = self._work
        moved = int(work.owners[shard] not in (NOBODY, member))
        zone = work.shards[shard].zone
        if member == NOBODY or zone not in self._zones[work.kinds[shard]]:
            return moved
        return moved + self._zone_weight * (work.states[member].zone not in (None, zone))


def _negative_cycle(nodes: int, arcs: Sequence[Arc]) -> list[Arc]:
    """Return the arcs of a cycle with a negative cost; empty if there is none (Bellman and Ford)."""
    distances = [0] * nodes
    last: list[Arc | None] = [None] * nodes
    changed = NOBODY
    for _ in range(nodes):
        changed = NOBODY
        for arc in arcs:
            origin, end, cost, _ = arc
            if distances[origin] + cost < distances[end]:
                distances[end] = distances[origin] + cost
                last[end] = arc
                changed = end
        if changed == NOBODY:
            return []
    node = changed
    for _ in range(nodes):  # back into the cycle
        node = _arc_to(last, node)[0]
    cycle: list[Arc] = []
    start = node
    while not cycle or node != start:
        cycle.append(_arc_to(last, node))
        node = cycle[-1][0]
    return cycle


def _arc_to(last: Sequence[Arc | None], node: int) -> Arc:
    arc = last[node]
    assert arc is not None, "each node of a cycle, and from there on, has an arc to it"
    return arc
