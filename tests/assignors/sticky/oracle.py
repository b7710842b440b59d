"""Says by other means than the assignor how good an assignment can be: OR-tools' minimum cost flow.

Every partition is a node of its own, every unit of load an arc of its own; nothing is shared with the
assignor, not even who owns what.
"""

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass

from ortools.graph.python.min_cost_flow import SimpleMinCostFlow

from groupsdk.assignment import Cluster, Partitions, Subscription


@dataclass(frozen=True)
class Group:
    """A group as its leader sees it, with the claims apart from the subscriptions."""

    cluster: Cluster
    subscriptions: dict[str, Subscription]
    claims: dict[str, Partitions]
    generations: dict[str, int]


@dataclass(frozen=True)
class Quality:
    """How good an assignment is; the less of each the better, in this order but for the last two."""

    squares: int
    off_rack: int
    moves: int


def owners(group: Group) -> dict[tuple[str, int], str]:
    """Find the owner of each partition that has one: the newest claim of a subscriber, if it is alone."""
    found: dict[tuple[str, int], str] = {}
    for topic, count in group.cluster.partition_counts.items():
        for number in range(count):
            claimants = [
                member
                for member, subscription in group.subscriptions.items()
                if topic in subscription.topics and number in group.claims[member].get(topic, ())
            ]
            newest = max((group.generations[member] for member in claimants), default=0)
            newest_ones = [m for m in claimants if group.generations[m] == newest]
            if len(newest_ones) == 1:
                found[topic, number] = newest_ones[0]
    return found


def is_off_rack(group: Group, topic: str, number: int, member: str) -> bool:
    """Return whether no replica is in the member's rack, where both are known."""
    rack = group.subscriptions[member].rack_id
    racks = group.cluster.replica_racks.get(topic, ())
    if not rack or number >= len(racks) or not racks[number]:
        return False
    return rack not in racks[number]


def quality(group: Group, assigned: Mapping[str, Partitions]) -> Quality:
    """Check that an assignment is valid, and measure it."""
    owned = owners(group)
    assert set(assigned) == set(group.subscriptions)
    seen: Counter[tuple[str, int]] = Counter()
    off_rack = moves = squares = 0
    for member, partitions in assigned.items():
        load = 0
        for topic, numbers in partitions.items():
            assert topic in group.subscriptions[member].topics, (member, topic)
            for number in numbers:
                assert 0 <= number < group.cluster.partition_counts[topic], (topic, number)
                seen[topic, number] += 1
                load += 1
                off_rack += is_off_rack(group, topic, number, member)
                moves += owned.get((topic, number), member) != member
        squares += load * load
    wanted = {
        (topic, number)
        for topic, count in group.cluster.partition_counts.items()
        if any(topic in each.topics for each in group.subscriptions.values())
        for number in range(count)
    }
    assert set(seen) == wanted
    assert set(seen.values()) <= {1}, "assigned twice"
    return Quality(squares, off_rack, moves)


def best(group: Group, *, moves_first: bool) -> Quality:
    """Compute the quality of the best assignment.

    The sum of squares is least just where the sorted loads are: the load vectors of assignments are the
    integer points of a base polytope, on which the two mean the same (Frank and Murota).
    """
    owned = owners(group)
    members = sorted(group.subscriptions)
    partitions = [
        (topic, number)
        for topic, count in group.cluster.partition_counts.items()
        if any(topic in each.topics for each in group.subscriptions.values())
        for number in range(count)
    ]
    if not partitions:
        return Quality(0, 0, 0)
    total = len(partitions)
    light = total + 1
    heavy = light * light
    flow = SimpleMinCostFlow()
    sink = total + len(members)
    cells: list[tuple[int, bool, bool]] = []
    for node, (topic, number) in enumerate(partitions):
        flow.set_node_supply(node, 1)
        for index, member in enumerate(members):
            if topic in group.subscriptions[member].topics:
                off = is_off_rack(group, topic, number, member)
                moved = owned.get((topic, number), member) != member
                cost = (off + moved * light) if moves_first else (off * light + moved)
                arc = flow.add_arc_with_capacity_and_unit_cost(node, total + index, 1, cost)
                cells.append((arc, off, moved))
    rungs = []
    for index in range(len(members)):
        for load in range(total):
            # One more than `load` adds this much to the sum of squares.
            arc = flow.add_arc_with_capacity_and_unit_cost(
                total + index, sink, 1, (2 * load + 1) * heavy
            )
            rungs.append((arc, 2 * load + 1))
    flow.set_node_supply(sink, -total)
    status = flow.solve()
    assert status == flow.OPTIMAL, status
    return Quality(
        squares=sum(step for arc, step in rungs if flow.flow(arc)),
        off_rack=sum(off for arc, off, _ in cells if flow.flow(arc)),
        moves=sum(moved for arc, _, moved in cells if flow.flow(arc)),
    )
