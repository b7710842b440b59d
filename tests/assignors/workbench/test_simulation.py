"""Test that a group goes through events as a real one would."""

from collections.abc import Mapping

import pytest
from typing_extensions import override

from assignors.range import RangeAssignor
from assignors.workbench import (
    Join,
    Leave,
    RemoveTopic,
    SetPartitions,
    Simulation,
    Subscribe,
    simulate,
)
from assignors.workbench.simulation import MAX_ROUNDS
from groupsdk.assignment import (
    Assignment,
    Cluster,
    GroupAssignment,
    GroupSubscription,
    RebalanceProtocol,
    Subscription,
)
from groupsdk.errors import ConfigError


TOPICS = {"t": 12, "u": 6}


def moves(simulation: Simulation) -> dict[str, list[int]]:
    return {
        name: [row[place].quality.moves for row in simulation.outcomes]
        for place, name in enumerate(simulation.assignors)
    }


def test_moves_are_those_from_one_plan_to_the_next() -> None:
    simulation = simulate(
        ["a", "b"], TOPICS, [Join("c"), Leave("c")], ["range", "sticky", "cooperative-sticky"]
    )

    assert simulation.events == ["start", "c joins", "c leaves"]
    # range: t goes from runs of 6 to runs of 4, and u from 3 to 2, and back
    assert moves(simulation) == {
        "range": [0, 9, 3],
        "sticky": [0, 6, 0],
        "cooperative-sticky": [0, 6, 0],
    }


def test_a_cooperative_group_rebalances_until_it_has_settled() -> None:
    simulation = simulate(["a", "b"], TOPICS, [Join("c"), Leave("a")], ["cooperative-sticky"])

    # what leaves with a member needs no revoking
    assert [row[0].rounds for row in simulation.outcomes] == [1, 2, 1]
    assert all(row[0].quality.is_valid and row[0].quality.is_fairest for row in simulation.outcomes)


def test_every_event_counts() -> None:
    simulation = simulate(
        {"a": ["t"], "b": ["t", "u"]},
        TOPICS,
        [Subscribe("a", ["t", "u"]), SetPartitions("u", 8), RemoveTopic("t")],
        ["sticky"],
    )

    assert [row[0].quality.partitions for row in simulation.outcomes] == [18, 18, 20, 8]
    assert [row[0].members for row in simulation.outcomes] == [2, 2, 2, 2]


def test_whole_subscriptions_and_clusters_with_racks() -> None:
    cluster = Cluster({"t": 4}, {"t": [("x",), ("x",), ("y",), ("y",)]})
    members = {"a": Subscription(("t",), rack_id="y"), "b": Subscription(("t",), rack_id="x")}

    (start,) = simulate(members, cluster, [], ["range"]).outcomes

    assert (start[0].quality.with_racks, start[0].quality.off_rack) == (4, 0)


class Counting(RangeAssignor):
    """Keeps its own count of assignments, and reports it."""

    name = "counting"

    def __init__(self) -> None:
        self.assignments = 0

    @override
    def subscription_user_data(self, topics: object) -> bytes | None:
        return bytes([self.assignments])

    @override
    def on_assignment(self, assignment: Assignment, generation_id: int) -> None:
        self.assignments += 1

    @override
    def assign(self, cluster: Cluster, subscriptions: GroupSubscription) -> GroupAssignment:
        SEEN.append({m: each.user_data for m, each in subscriptions.items()})
        return super().assign(cluster, subscriptions)


SEEN: list[Mapping[str, bytes | None]] = []


@pytest.mark.parametrize("as_object", [False, True])
def test_every_member_has_an_assignor_of_its_own(as_object: bool) -> None:
    SEEN.clear()
    given = Counting()

    simulate(["a"], TOPICS, [Join("b"), Leave("a")], [given if as_object else Counting])

    assert SEEN == [{"a": b"\0"}, {"a": b"\1", "b": b"\0"}, {"b": b"\1"}]
    assert given.assignments == 0


class Losing(RangeAssignor):
    """Forgets everybody but the first."""

    name = "losing"

    @override
    def assign(self, cluster: Cluster, subscriptions: GroupSubscription) -> GroupAssignment:
        return dict(list(super().assign(cluster, subscriptions).items())[:1])


class Restless(Losing):
    """Says that it is cooperative, and never gives everything out."""

    supported_protocols = frozenset({RebalanceProtocol.COOPERATIVE})


def test_assignor_that_never_settles_is_given_up() -> None:
    simulation = simulate(["a", "b"], TOPICS, [Leave("a")], [Restless])

    assert [row[0].rounds for row in simulation.outcomes] == [MAX_ROUNDS, 1]


def test_an_invalid_plan_is_measured_and_said_to_be_one() -> None:
    simulation = simulate(["a", "b"], TOPICS, [Leave("a")], [Losing, "range"])

    assert [row[0].quality.is_valid for row in simulation.outcomes] == [False, True]
    assert "invalid" in simulation.table()
    assert "invalid plan" in simulation.svg()


def test_time_is_that_of_assign_alone() -> None:
    ticks = iter(range(0, 1000, 5))

    simulation = simulate(
        ["a", "b"],
        TOPICS,
        [Join("c")],
        ["range", "cooperative-sticky"],
        cpu_ns=lambda: next(ticks) * 1_000_000,
    )

    # 5 ms from one reading to the next; the second event takes two rounds
    assert [[each.cpu_ms for each in row] for row in simulation.outcomes] == [[5, 5], [5, 10]]


def test_time_is_taken_from_the_real_clock_without_another() -> None:
    (start,) = simulate([f"m{n}" for n in range(50)], {"t": 5000}, [], ["range"]).outcomes

    assert start[0].cpu_ms > 0


def test_one_assignor_twice_is_told_apart() -> None:
    simulation = simulate(["a"], TOPICS, [], ["range", "sticky", "range"])

    assert simulation.assignors == ["range (1)", "sticky", "range (2)"]


def test_simulation_is_written_as_its_table_and_drawn_in_notebooks() -> None:
    simulation = simulate(["a"], TOPICS, [], ["range"])

    assert str(simulation) == simulation.table()
    assert simulation._repr_svg_() == simulation.svg()


def test_unknown_assignor_or_impossible_event_is_refused_by_simulate() -> None:
    with pytest.raises(ConfigError, match="no assignor 'rnage'"):
        simulate(["a"], TOPICS, [], ["rnage"])
    with pytest.raises(ValueError, match="member 'b' cannot leave"):
        simulate(["a"], TOPICS, [Leave("b")], ["range"])
