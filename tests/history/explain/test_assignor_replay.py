"""Other assignors, taken through what a group had."""

from collections.abc import Collection, Mapping
from random import Random
from typing import Any

import pytest
from typing_extensions import override

from assignors.cooperative_sticky import CooperativeStickyAssignor
from assignors.range import RangeAssignor
from assignors.sticky import StickyAssignor
from groupsdk.assignment import Assignment, Cluster, GroupAssignment, GroupSubscription
from groupsdk.errors import ConfigError
from groupsdk.history.explain.assignor_replay import (
    UNKNOWN_TOPICS,
    Candidate,
    PastGeneration,
    ReplayedMember,
    ReplayRow,
    _is_plain,
    _plain_copy,
    new_assignor,
)
from tests.history.explain.timelines import replay
from tests.support.cases import each_case


ALL = ("range", "roundrobin", "sticky", "cooperative-sticky")


def past(
    seq: int, shares: dict[str, list[int]], *, topic: str = "t", cooperative: bool = False
) -> PastGeneration:
    """Make a generation in which members of one topic had these partitions."""
    members = [
        ReplayedMember(member_id, None, ("t",), None, ((topic, tuple(numbers)),))
        for member_id, numbers in shares.items()
    ]
    return PastGeneration("g", seq, seq + 1, cooperative, members)


HISTORY = [
    past(0, {"a": [0, 1, 2, 3, 4, 5]}),
    past(1, {"a": [0, 1, 2], "b": [3, 4, 5]}),
    past(2, {"a": [0, 1], "b": [2, 3], "c": [4, 5]}),
    past(3, {"b": [0, 1, 2], "c": [3, 4, 5]}),
]


def by_assignor(rows: list[ReplayRow], name: str) -> list[ReplayRow]:
    """Take the rows of one assignor."""
    return [row for row in rows if row.assignor == name]


def test_replay_compares_the_real_assignments_with_those_of_other_assignors() -> None:
    rows = list(replay(HISTORY, ALL))
    assert len(rows) == len(HISTORY) * (1 + len(ALL))
    actual = by_assignor(rows, "actual")
    assert [row.moved for row in actual] == [0, 3, 3, 3]
    # every member that stays gives up everything for a rebalance
    assert [row.revoked for row in actual] == [0, 6, 6, 4]
    sticky = by_assignor(rows, "sticky")
    assert [row.moved for row in sticky] == [0, 3, 2, 2]
    cooperative = by_assignor(rows, "cooperative-sticky")
    assert [row.moved for row in cooperative] == [0, 3, 2, 2]
    assert [row.revoked for row in cooperative] == [0, 3, 2, 0]
    assert all(row.max_load - row.min_load == 0 for row in sticky)
    assert all(row.n_partitions == 6 and row.problem is None for row in rows)


def test_a_partition_that_no_topic_has_makes_no_assignor_place_those_below() -> None:
    """Any client can write an assignment, and a record can be damaged."""
    forged = past(1, {"a": [0, 1, 2, 2**31 - 1], "b": [3, 4, 5]})
    rows = list(replay([HISTORY[0], forged, HISTORY[1]], ALL))
    assert all(row.n_partitions == 6 for row in rows if row.assignor != "actual")
    # a topic of thousands of partitions is one
    wide = past(0, {"a": list(range(0, 6000, 2)), "b": list(range(1, 6000, 2))})
    assert {row.n_partitions for row in replay([wide], ["range"])} == {6000}


def test_each_group_starts_afresh() -> None:
    other = [each._replace(group_id="h") for each in HISTORY]
    rows = list(replay([*HISTORY, *other], ["sticky"]))
    half = len(rows) // 2
    assert [row._replace(group_id="g") for row in rows[half:]] == rows[:half]


def test_partitions_are_known_as_far_as_they_were_seen() -> None:
    grown = [*HISTORY, past(4, {"b": [0, 1, 2, 6], "c": [3, 4, 5, 7]})]
    rows = list(replay(grown, ["range"]))
    assert [row.n_partitions for row in by_assignor(rows, "range")] == [6, 6, 6, 6, 8]


def test_topics_that_go_by_ids_alone_are_a_problem_and_no_zero() -> None:
    rows = list(replay([past(0, {"a": [0]}, topic="AAAAAAAAAAAAAAAAAAAABQ")], ["range"]))
    assert by_assignor(rows, "actual")[0].problem is None
    assert by_assignor(rows, "range")[0].problem == UNKNOWN_TOPICS


class Failing:
    """An assignor that fails from its second assignment on."""

    name = "failing"
    version = 0
    supported_protocols: frozenset[Any] = frozenset()

    def __init__(self) -> None:
        self.calls = 0

    def subscription_user_data(self, topics: Collection[str]) -> bytes | None:
        return None

    def assign(self, cluster: Cluster, subscriptions: GroupSubscription) -> GroupAssignment:
        self.calls += 1
        if self.calls > 1:
            raise ZeroDivisionError("no")
        return {member_id: Assignment() for member_id in subscriptions}

    def on_assignment(self, assignment: Assignment, generation_id: int) -> None:
        """Take no note."""


def test_an_assignor_that_fails_stops_no_other() -> None:
    rows = list(replay(HISTORY[:2], [Failing(), "range"]))
    assert [row.problem for row in by_assignor(rows, "failing")] == [None, "ZeroDivisionError: no"]
    assert [row.problem for row in by_assignor(rows, "range")] == [None, None]


def test_assignors_are_meant_by_name_place_class_or_object() -> None:
    for each in ("sticky", "assignors.sticky:StickyAssignor", StickyAssignor, StickyAssignor()):
        assert new_assignor(each).name == "sticky"
    one = StickyAssignor()
    assert new_assignor(one) is not one
    with pytest.raises(ConfigError, match="did you mean 'sticky'"):
        list(replay(HISTORY, ["stiky"]))


def test_members_get_assignors_of_their_own() -> None:
    class Counting(Failing):
        """An assignor with a list, which no two members may share."""

        def __init__(self) -> None:
            super().__init__()
            self.taken: list[int] = []

        @override
        def assign(self, cluster: Cluster, subscriptions: GroupSubscription) -> GroupAssignment:
            return {member_id: Assignment({"t": [0]}) for member_id in subscriptions}

        @override
        def on_assignment(self, assignment: Assignment, generation_id: int) -> None:
            self.taken.append(generation_id)
            assert self.taken == sorted(set(self.taken))

    rows = list(replay(HISTORY, [Counting()]))
    assert [row.problem for row in by_assignor(rows, "failing")] == [None] * len(HISTORY)


class Plain(Failing):
    """An assignor with nothing but a number."""

    @override
    def assign(self, cluster: Cluster, subscriptions: GroupSubscription) -> GroupAssignment:
        return {member_id: Assignment({"t": [0]}) for member_id in subscriptions}

    @override
    def on_assignment(self, assignment: Assignment, generation_id: int) -> None:
        self.calls += 1


class OfItsOwn(Plain):
    """An assignor that says how it is copied."""

    @override
    def __reduce__(self) -> tuple[Any, ...]:
        return OfItsOwn, ()


class Slotted(Plain):
    """An assignor with a number beside its dictionary."""

    __slots__ = ("more",)


@pytest.mark.parametrize(("kind", "plain"), [(Plain, True), (OfItsOwn, False), (Slotted, False)])
def test_assignor_of_plain_attributes_is_copied_by_them(kind: type[Plain], plain: bool) -> None:
    one = kind()
    one.calls = 5
    assert _is_plain(one) is plain
    if plain:
        other = _plain_copy(one)
        assert type(other) is kind
        assert vars(other) == {"calls": 5}
        other.on_assignment(Assignment(), 1)
        assert one.calls == 5
    rows = list(replay(HISTORY, [one]))
    assert [row.problem for row in by_assignor(rows, "failing")] == [None] * len(HISTORY)
    assert one.calls == 5


def test_members_who_change_their_wishes_are_replayed_with_the_new_ones() -> None:
    def generation(seq: int, topics: Mapping[str, tuple[str, ...]]) -> PastGeneration:
        own = {"a": (("t", (0, 1)),), "b": (("u", (0, 1)),)}
        members = [ReplayedMember(each, None, topics[each], None, own[each]) for each in topics]
        return PastGeneration("g", seq, seq + 1, False, members)

    both, apart = ("t", "u"), {"a": ("t",), "b": ("u",)}
    changing = [
        generation(0, apart),
        generation(1, {"a": both, "b": both}),
        generation(2, apart),
        generation(3, {"a": ("t",), "b": ("t",)}),
    ]
    found = by_assignor(list(replay(changing, ["range"])), "range")
    assert [row.moved for row in found] == [0, 2, 2, 1]
    assert [row.n_partitions for row in found] == [4, 4, 4, 2]


class Counted(RangeAssignor):
    """Range, which counts how often it is asked."""

    name = "counted"
    asked = 0

    @override
    def assign(self, cluster: Cluster, subscriptions: GroupSubscription) -> GroupAssignment:
        Counted.asked += 1
        return super().assign(cluster, subscriptions)


class Noted(Counted):
    """The same, which takes note of what it is given."""

    noted: int = 0

    @override
    def on_assignment(self, assignment: Assignment, generation_id: int) -> None:
        self.noted += 1


AGAIN = [
    past(0, {"a": [0, 1, 2], "b": [3]}),
    past(1, {"a": [0, 1, 2], "b": [3]}),
    past(2, {"a": [0, 1, 2], "b": [3, 4]}),
    past(3, {"a": [0, 1, 2], "c": [3, 4]}),
    past(4, {"a": [0, 1, 2], "c": [3, 4]}),
]


@pytest.mark.parametrize(("assignor", "asked"), [(Counted, 3), (Noted, 5)])
def test_stateless_assignor_is_asked_only_where_something_changed(
    assignor: type[Counted], asked: int
) -> None:
    Counted.asked = 0
    rows = by_assignor(list(replay(AGAIN, [assignor])), "counted")
    assert Counted.asked == asked
    plain = by_assignor(list(replay(AGAIN, ["range"])), "range")
    assert [row._replace(assignor="range") for row in rows] == plain


def test_partition_that_is_named_twice_moves_once() -> None:
    twice = past(1, {"b": [0, 0, 1]}, cooperative=True)
    rows = list(replay([past(0, {"a": [0], "b": [1]}), twice], ()))
    assert [row.moved for row in rows] == [0, 1]


def test_plan_is_made_again_after_a_generation_without_names() -> None:
    unknown = ReplayedMember("a", None, ("u",), None, (("AAAAAAAAAAAAAAAAAAAABQ", (0,)),))
    idle = unknown._replace(assigned=())
    generations = [
        past(0, {"a": [0, 1]}),
        PastGeneration("g", 1, 2, False, [unknown]),
        PastGeneration("g", 2, 3, False, [idle._replace(topics=("t",))]),
        PastGeneration("g", 3, 4, False, [unknown]),
        PastGeneration("g", 4, 5, False, [idle]),
    ]
    rows = by_assignor(list(replay(generations, ["range"])), "range")
    assert [row.n_partitions for row in rows] == [2, 0, 2, 0, 0]
    assert [row.problem for row in rows] == [None, UNKNOWN_TOPICS, None, UNKNOWN_TOPICS, None]


class StickyByUserData(StickyAssignor):
    """Sticky, replayed as members and leaders use it: by the bytes that they exchange."""

    @override
    def on_assignment(self, assignment: Assignment, generation_id: int) -> None:
        super().on_assignment(assignment, generation_id)


class CooperativeByUserData(CooperativeStickyAssignor):
    """The same of cooperative-sticky."""

    @override
    def on_assignment(self, assignment: Assignment, generation_id: int) -> None:
        super().on_assignment(assignment, generation_id)


def random_history(seed: int) -> list[PastGeneration]:
    """Make generations in which members come, go, return, want other topics and topics grow."""
    random = Random(seed)
    sizes = {"t": 5, "u": 3, "v": 1}
    wishes: list[tuple[str, ...]] = [("t",), ("t", "u"), ("u", "v"), (), ("t", "unknown")]
    if random.random() < 0.5:
        wishes = wishes[:1]
    members: dict[str, tuple[str, ...]] = {}
    found = []
    for seq in range(40):
        for _ in range(random.randrange(3)):
            member = f"m{random.randrange(9)}"
            if members.pop(member, None) is None or random.random() < 0.3:
                members[member] = random.choice(wishes)
        if random.random() < 0.1:
            sizes[random.choice(list(sizes))] += 2
        names = ("AAAAAAAAAAAAAAAAAAAABQ",) if random.random() < 0.03 else tuple(sizes)
        everyone = sorted(members)
        own: dict[str, list[tuple[str, tuple[int, ...]]]] = {each: [] for each in everyone}
        for topic in names if everyone else ():
            for number in range(sizes.get(topic, 1)):
                own[everyone[number % len(everyone)]].append((topic, (number,)))
        found.append(
            PastGeneration(
                *("g", seq, seq + 1, False),
                [
                    ReplayedMember(each, None, members[each], None, tuple(own[each]))
                    for each in everyone
                ],
            )
        )
    return found


@each_case("seed", range(60))
def test_sticky_assignors_are_replayed_without_user_data_as_with_it(seed: int) -> None:
    generations = random_history(seed)
    assert Candidate("sticky").takes_claims
    assert Candidate("cooperative-sticky").takes_claims
    for name, kind in (
        ("sticky", StickyByUserData),
        ("cooperative-sticky", CooperativeByUserData),
    ):
        assert not Candidate(kind).takes_claims
        assert list(replay(generations, [name])) == list(replay(generations, [kind]))
