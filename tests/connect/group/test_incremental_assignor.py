"""Holds the incremental assignor to Kafka's trace, to Kafka's class itself, and to what it promises."""

from collections import Counter
from dataclasses import dataclass, field
from random import Random

import pytest

from assignors.subscribers import java_map_order
from groupsdk.connect.group.assignors import IncrementalCooperativeAssignor
from groupsdk.connect.group.work import ClusterAssignment, Work
from groupsdk.errors import ConfigError
from groupsdk.wire.connect_protocol import ConnectorTaskId
from tests.connect.kafka_assignor import (
    KafkaAssignors,
    Round,
    shares,
)
from tests.support.cases import each_case


def work(text: str) -> Work:
    """Read "a b a0 a1": connectors, and tasks by their numbers."""
    parts = text.split()
    return Work(
        tuple(each for each in parts if each.isalpha()),
        tuple(ConnectorTaskId(each[0], int(each[1:])) for each in parts if not each.isalpha()),
    )


def text(given: Work) -> str:
    return " ".join([*given.connectors, *(f"{name}{number}" for name, number in given.tasks)])


@dataclass
class Cluster:
    """Workers that do as they are told, round by round."""

    configured: dict[str, int]
    max_delay_ms: int = 300_000
    held: dict[str, Work] = field(default_factory=dict)
    generation: int = 0

    def __post_init__(self) -> None:
        self.assignor = IncrementalCooperativeAssignor(self.max_delay_ms, java_map_order)

    def question(self, now_ms: int, missed: bool = False) -> Round:
        last = self.generation - (1 if missed else 0)
        self.generation += 1
        return Round(now_ms, last, self.generation, dict(self.configured), dict(self.held))

    def answer(self, question: Round) -> ClusterAssignment:
        return self.assignor.assign(
            question.work(),
            question.members,
            last_completed_generation=question.last_completed_generation,
            generation=question.generation,
            now_ms=question.now_ms,
        )

    def apply(self, given: ClusterAssignment, deaf: frozenset[str] = frozenset()) -> None:
        """Have the workers do as told; the deaf ones do not hear it."""
        for member in self.held:
            if member not in deaf:
                kept = self.held[member].minus(given.revoked.get(member, Work()))
                self.held[member] = kept.plus(given.assigned[member])

    def round(self, now_ms: int) -> ClusterAssignment:
        given = self.answer(self.question(now_ms))
        self.apply(given)
        return given

    def shown(self) -> dict[str, str]:
        """Who holds what."""
        return {member: text(held) for member, held in self.held.items()}


def gains(given: ClusterAssignment) -> dict[str, str]:
    """Who got something."""
    return {member: text(each) for member, each in given.assigned.items() if each}


def losses(given: ClusterAssignment) -> dict[str, str]:
    """Who lost something."""
    return {member: text(each) for member, each in given.revoked.items()}


def test_the_trace_of_kafkas_class() -> None:
    cluster = Cluster({"a": 4, "b": 4}, held={"W1": Work(), "W2": Work()})
    given = cluster.round(0)
    assert gains(given) == {"W1": "a a0 a2 b0 b2", "W2": "b a1 a3 b1 b3"}
    cluster.held["W3"] = Work()
    given = cluster.round(10)
    assert (losses(given), gains(given), given.delay_ms) == ({"W1": "a0", "W2": "a1"}, {}, 0)
    given = cluster.round(20)
    assert (losses(given), gains(given)) == ({}, {"W3": "a0 a1"})
    # W2 is gone; its work is held back
    del cluster.held["W2"]
    given = cluster.round(2_000)
    assert (losses(given), gains(given), given.delay_ms) == ({}, {}, 300_000)
    given = cluster.round(102_000)
    assert (losses(given), gains(given), given.delay_ms) == ({}, {}, 200_000)
    # it comes back empty-handed, and gets what it had
    cluster.held["W2"] = Work()
    given = cluster.round(103_000)
    assert (losses(given), gains(given), given.delay_ms) == ({}, {}, 199_000)
    given = cluster.round(302_001)
    assert (losses(given), gains(given), given.delay_ms) == ({}, {"W2": "b a3 b1 b3"}, 0)
    # W3 is gone for good
    del cluster.held["W3"]
    assert cluster.round(310_000).delay_ms == 300_000
    given = cluster.round(610_001)
    assert (losses(given), gains(given)) == ({}, {"W1": "a0", "W2": "a1"})
    cluster.held["W4"] = Work()
    given = cluster.round(620_000)
    assert (losses(given), gains(given)) == ({"W1": "a2", "W2": "a3"}, {})
    cluster.held["W5"] = Work()
    given = cluster.round(620_010)
    assert (losses(given), gains(given), given.delay_ms) == ({}, {"W4": "a2", "W5": "a3"}, 40)
    cluster.held["W6"] = Work()
    given = cluster.round(620_011)
    assert (losses(given), gains(given), given.delay_ms) == ({}, {}, 39)
    given = cluster.round(620_051)
    assert (losses(given), gains(given)) == ({"W1": "b0", "W2": "b1"}, {})
    given = cluster.round(620_060)
    assert gains(given) == {"W6": "b0 b1"}
    del cluster.configured["b"]
    given = cluster.round(620_070)
    assert losses(given) == {"W2": "b b3", "W1": "b2", "W6": "b0 b1"}
    assert gains(given) == {}


def test_without_a_delay_lost_work_is_given_away_at_once() -> None:
    cluster = Cluster({"a": 4}, max_delay_ms=0, held={"W1": Work(), "W2": Work()})
    cluster.round(0)
    del cluster.held["W2"]
    given = cluster.round(1)
    assert gains(given) == {"W1": "a1 a3"}
    assert given.delay_ms == 0


def test_work_of_two_owners_is_taken_from_both_and_given_to_one() -> None:
    cluster = Cluster({"a": 2}, held={"W1": Work(), "W2": Work()})
    cluster.round(0)
    cluster.held["W2"] = cluster.held["W2"].plus(work("a a0"))
    given = cluster.round(1)
    assert losses(given) == {"W1": "a a0", "W2": "a a0"}
    assert gains(given) == {}
    cluster.round(2)
    owned = Counter(each for held in cluster.held.values() for each in text(held).split())
    assert owned == {"a": 1, "a0": 1, "a1": 1}


def test_an_assignment_that_did_not_get_through_is_made_again_at_once() -> None:
    cluster = Cluster({"a": 2}, held={"W1": Work(), "W2": Work()})
    cluster.apply(cluster.answer(cluster.question(0)), deaf=frozenset({"W2"}))
    given = cluster.round(1)
    assert (gains(given), given.delay_ms) == ({"W2": "a1"}, 0)


def test_a_revocation_that_was_not_carried_out_is_made_again() -> None:
    cluster = Cluster({"a": 4}, held={"W1": Work()})
    cluster.round(0)
    cluster.held["W2"] = Work()
    given = cluster.answer(cluster.question(1))
    assert losses(given) == {"W1": "a0 a1"}
    cluster.apply(given, deaf=frozenset({"W1"}))
    for now_ms in (2, 100, 200):
        given = cluster.round(now_ms)
    assert cluster.shown() == {"W1": "a a2 a3", "W2": "a0 a1"}


@pytest.mark.parametrize("deaf", [True, False])
def test_after_a_revocation_that_was_not_carried_out_nothing_counts_as_lost(deaf: bool) -> None:
    """The leader starts over from the reports: work that is gone is new, and is not held back for its worker."""
    cluster = Cluster({"a": 4, "b": 2}, held={"W1": Work(), "W2": Work()})
    cluster.round(0)
    assert cluster.shown() == {"W1": "a a0 a2 b0", "W2": "b a1 a3 b1"}
    cluster.held["W3"] = Work()
    given = cluster.answer(cluster.question(1))
    assert losses(given) == {"W1": "a0", "W2": "a1"}
    # one item of one kind speaks for the connectors as well
    cluster.apply(given, deaf=frozenset({"W1"} if deaf else ()))
    del cluster.held["W2"]
    cluster.round(2)
    held = {*cluster.held["W1"].connectors, *cluster.held["W3"].connectors}
    assert held == ({"a", "b"} if deaf else {"a"})


def test_a_leader_that_missed_a_generation_forgets_what_it_knew() -> None:
    cluster = Cluster({"a": 2}, held={"W1": Work(), "W2": Work()})
    cluster.round(0)
    del cluster.held["W2"]
    # what it does not know to be lost is new work
    given = cluster.answer(cluster.question(1, missed=True))
    assert (gains(given), given.delay_ms) == ({"W1": "a1"}, 0)


@pytest.mark.parametrize(
    ("held", "given_away", "delay_ms"),
    [
        pytest.param("a a0", {}, 300_000, id="lost along with the old leader"),
        pytest.param("", {"W1": "a a0 a1"}, 0, id="nobody has anything"),
    ],
)
def test_a_new_leader_holds_back_what_was_lost_in_a_group_that_has_something(
    held: str, given_away: dict[str, str], delay_ms: int
) -> None:
    cluster = Cluster({"a": 2}, held={"W1": work(held)})
    question = cluster.question(0)
    given = cluster.assignor.assign(
        question.work(),
        question.members,
        last_completed_generation=0,
        generation=1,
        now_ms=0,
        before=work("a a0 a1"),
    )
    assert (gains(given), given.delay_ms) == (given_away, delay_ms)


def test_a_negative_delay_is_refused() -> None:
    with pytest.raises(
        ConfigError, match=r"scheduled\.rebalance\.max\.delay\.ms must not be negative, but is -1"
    ):
        IncrementalCooperativeAssignor(-1)


def _turn(cluster: Cluster, chance: Random, now_ms: int) -> tuple[int, frozenset[str], bool]:
    """Change something; returns the time, who does not hear the next answer, and whether the leader did not."""
    deaf: frozenset[str] = frozenset()
    event = chance.randrange(10)
    members = list(cluster.held)
    if event <= 1 or not members:
        for _ in range(chance.choice((1, 1, 2, 3))):
            cluster.held[f"worker-{chance.randrange(10**6)}"] = Work()
    elif event == 2 and len(members) > 1:
        for member in chance.sample(members, chance.randint(1, len(members) - 1)):
            del cluster.held[member]
    elif event == 3:
        gone = chance.choice(members)
        del cluster.held[gone]
        cluster.held[f"{gone}-again"] = Work()
    elif event == 4:
        cluster.configured[f"connector-{chance.randrange(6)}"] = chance.randrange(7)
    elif event == 5 and cluster.configured:
        del cluster.configured[chance.choice(sorted(cluster.configured))]
    elif event == 6:
        deaf = frozenset(chance.sample(members, chance.randint(1, len(members))))
    elif event == 7:
        one, other = chance.choice(members), chance.choice(members)
        cluster.held[one] = cluster.held[one].plus(cluster.held[other])
    later = chance.choice((0, 1, 39, 41, 1_700, 70_000, 299_999, 300_001))
    return now_ms + later, deaf, chance.random() < 0.05


@each_case("seed", range(40))
def test_churn_ends_with_every_item_owned_once_and_in_balance(seed: int) -> None:
    chance = Random(seed)
    cluster = Cluster({"a": 5, "b": 3}, chance.choice((0, 1_000, 300_000)))
    now_ms = 0
    for _ in range(30):
        now_ms, deaf, missed = _turn(cluster, chance, now_ms)
        cluster.apply(cluster.answer(cluster.question(now_ms, missed)), deaf)
    while not cluster.held:
        cluster.held["last"] = Work()
    for _ in range(12):
        now_ms += 400_000
        cluster.round(now_ms)
    everything = cluster.question(now_ms).work()
    owned = Counter(
        each for held in cluster.held.values() for each in (*held.connectors, *held.tasks)
    )
    configured = {*everything.connectors, *everything.tasks}
    assert {each: owned[each] for each in configured} == dict.fromkeys(configured, 1)
    # what a leader forgot about is revoked from nobody: workers stop by themselves what is not configured
    for kind in ("connectors", "tasks"):
        sizes = [
            sum(each in configured for each in getattr(held, kind))
            for held in cluster.held.values()
        ]
        if len(owned) == len(configured):
            assert max(sizes) - min(sizes) <= 1


@pytest.mark.kafka
@each_case("seed", range(60))
def test_every_step_is_that_of_kafkas_class(kafka_class: KafkaAssignors, seed: int) -> None:
    chance = Random(1_000 + seed)
    max_delay_ms = chance.choice((0, 1, 1_000, 300_000, 300_000))
    cluster = Cluster({"a": 5, "b": 3}, max_delay_ms)
    kafka_class.begin(max_delay_ms)
    now_ms = 1_000
    seen: Counter[str] = Counter()
    for step in range(50):
        now_ms, deaf, missed = _turn(cluster, chance, now_ms)
        question = cluster.question(now_ms, missed)
        theirs = kafka_class.assign(question)
        ours = cluster.answer(question)
        assert (ours.delay_ms, shares(ours)) == theirs, (seed, step, question)
        seen["delay"] += ours.delay_ms > 0
        seen["revoked"] += bool(ours.revoked)
        seen["assigned"] += bool(gains(ours))
        cluster.apply(ours, deaf)
    assert seen["revoked"] >= 1, seen
    assert seen["assigned"] >= 1, seen
    assert seen["delay"] >= 1 or max_delay_ms == 0, seen
