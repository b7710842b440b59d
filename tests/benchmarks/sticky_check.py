"""Prove for one large assignment that it is balanced and that nothing as balanced moves less.

By other means than the assignor's: a search for a path that would better the loads, and OR-tools' minimum
cost flow over all assignments with loads as good.
"""

from collections import Counter, defaultdict
from collections.abc import Mapping, Sequence

import numpy as np
from ortools.graph.python.min_cost_flow import SimpleMinCostFlow

from groupsdk.assignment import Cluster, Partitions, Subscription


Cell = tuple[str, frozenset[str]]
"""A topic, and the racks of a partition's replicas."""


def moves(claims: Mapping[str, Partitions], assigned: Mapping[str, Partitions]) -> int:
    """Count the partitions that had an owner and have another one now."""
    owners = {
        (topic, number): member
        for member, claim in claims.items()
        for topic, numbers in claim.items()
        for number in numbers
    }
    return sum(
        owners.get((topic, number), member) != member
        for member, partitions in assigned.items()
        for topic, numbers in partitions.items()
        for number in numbers
    )


def is_balanced(
    subscriptions: Mapping[str, Subscription], assigned: Mapping[str, Partitions]
) -> bool:
    """Return whether no way of passing partitions on leads from a member to one that has two less.

    Then no loads are better. Looks at every subscription and every part once: members are visited back
    from those with the least load, and whoever is reached from a load may have one more at most.
    """
    loads = {member: sum(map(len, each.values())) for member, each in assigned.items()}
    holders: dict[str, list[str]] = defaultdict(list)
    for member, partitions in assigned.items():
        for topic in partitions:
            holders[topic].append(member)
    members: set[str] = set()
    topics: set[str] = set()
    for start in sorted(loads, key=loads.__getitem__):
        frontier = [start] if start not in members else []
        while frontier:
            new_topics = set(subscriptions[frontier.pop()].topics) - topics
            topics |= new_topics
            new = {member for topic in new_topics for member in holders[topic]} - members
            if any(loads[member] > loads[start] + 1 for member in new):
                return False
            members |= new
            frontier += new
        members.add(start)
    return True


class _Problem:
    """The arcs of all assignments whose loads are as good as those of one."""

    def __init__(self) -> None:
        self.arcs: list[tuple[int, int, int, int]] = []

    def add(self, tail: int, head: int, capacity: int, cost: int) -> None:
        self.arcs.append((tail, head, capacity, cost))

    def solve(self, supplies: Mapping[int, int]) -> list[int]:
        """Return the flow on each arc."""
        columns = np.array(self.arcs, dtype=np.int64).T
        flow = SimpleMinCostFlow()
        arcs = flow.add_arcs_with_capacity_and_unit_cost(*columns)
        for node, supply in supplies.items():
            flow.set_node_supply(node, supply)
        status = flow.solve()
        if status != flow.OPTIMAL:
            raise RuntimeError(f"OR-tools found no cheapest flow: {status}")
        found: list[int] = flow.flows(arcs).tolist()
        return found


def _cells(cluster: Cluster) -> dict[Cell, list[int]]:
    cells: dict[Cell, list[int]] = defaultdict(list)
    for topic, count in cluster.partition_counts.items():
        racks: Sequence[object] = cluster.replica_racks.get(topic, ())
        for number in range(count):
            cells[topic, frozenset(racks[number]) if racks else frozenset()].append(number)  # type: ignore[call-overload]
    return cells


def least_moves(
    cluster: Cluster,
    subscriptions: Mapping[str, Subscription],
    claims: Mapping[str, Partitions],
    assigned: Mapping[str, Partitions],
) -> tuple[int, int]:
    """Compute the least partitions off rack, and with those the least moves, of what is as balanced.

    Args:
        claims: what they own, without contradiction.
        assigned: a balanced assignment. A member's load differs by one at most between two of those.
    """
    cells = _cells(cluster)
    cell_of = {
        (topic, n): cell for cell, numbers in cells.items() for n in numbers for topic in cell[:1]
    }
    owned = Counter(
        (cell_of[topic, number], member)
        for member, claim in claims.items()
        for topic, numbers in claim.items()
        for number in numbers
        if (topic, number) in cell_of
    )
    by_topic: dict[str, list[Cell]] = defaultdict(list)
    for cell in cells:
        by_topic[cell[0]].append(cell)
    nodes = {cell: index for index, cell in enumerate(cells)}
    members = {member: len(nodes) + index for index, member in enumerate(subscriptions)}
    sink = len(nodes) + len(members)
    loads = {member: sum(map(len, each.values())) for member, each in assigned.items()}
    total = sum(loads.values())
    # No circle of steps has more of them than this: what counts more outweighs what counts less.
    circle = 2 * (len(nodes) + len(members)) + 1
    off = circle if cluster.replica_racks else 0
    square = circle * max(off, 1)
    problem = _Problem()
    for member, subscription in subscriptions.items():
        for topic in subscription.topics:
            for cell in by_topic[topic]:
                away = off if cell[1] and subscription.rack_id not in {None, *cell[1]} else 0
                own, size = owned[cell, member], len(cells[cell])
                if own:
                    problem.add(nodes[cell], members[member], own, away)
                if own < size:
                    problem.add(nodes[cell], members[member], size - own, away + 1)
    priced = len(problem.arcs)
    supplies = {nodes[cell]: len(numbers) for cell, numbers in cells.items()}
    supplies[sink] = 0
    least = min(loads.values())
    for member, load in loads.items():
        # So much every one of the balanced ones gives it; beyond that the next one, and one more, are open.
        sure = max(load - 1, 0)
        supplies[members[member]] = -sure
        supplies[sink] -= load - sure
        for more in range(sure, load + 1):
            problem.add(members[member], sink, 1, square * 2 * (more - least + 1))
    flows = problem.solve(supplies)
    moved = off_rack = 0
    for (_, _, _, cost), flow in zip(problem.arcs[:priced], flows, strict=False):
        away = bool(off) and cost >= off
        off_rack += away * flow
        moved += (cost - off * away) * flow
    # Partitions without an owner, and those whose owner is gone or unsubscribed, cost one wherever they go.
    homeless = total - sum(
        count for (cell, member), count in owned.items() if cell[0] in subscriptions[member].topics
    )
    return off_rack, moved - homeless
