"""Holds the balance of weights: its bound, that it is reached, and that nothing moves without need."""

from collections import Counter
from random import Random

from groupsdk.connect.group.assignors import IncrementalCooperativeAssignor
from groupsdk.connect.group.work import ClusterAssignment, Work
from groupsdk.wire.connect_protocol import ConnectorTaskId
from tests.support.cases import each_case


class Group:
    """Workers that do as they are told, and the weights of their tasks."""

    def __init__(self, max_delay_ms: int = 0) -> None:
        self.weights: dict[ConnectorTaskId, int] = {}
        self.held: dict[str, Work] = {}
        self.now_ms = 0
        self.assignor = IncrementalCooperativeAssignor(max_delay_ms)
        self._generation = 0

    def weigh(self, *weights: int) -> None:
        """Have so many tasks of one connector."""
        self.weights = {ConnectorTaskId("c", n): weight for n, weight in enumerate(weights)}

    def round(self) -> ClusterAssignment:
        differ = len(set(self.weights.values())) > 1
        self._generation += 1
        given = self.assignor.assign(
            Work((), tuple(self.weights)),
            self.held,
            last_completed_generation=self._generation - 1,
            generation=self._generation,
            now_ms=self.now_ms,
            weights=self.weights if differ else {},
        )
        for member in self.held:
            kept = self.held[member].minus(given.revoked.get(member, Work()))
            self.held[member] = kept.plus(given.assigned[member])
        self.now_ms += max(1, given.delay_ms)
        return given

    def settle(self) -> list[ClusterAssignment]:
        """Run rounds until one changes nothing."""
        rounds: list[ClusterAssignment] = []
        for _ in range(12):
            given = self.round()
            if not (any(given.assigned.values()) or given.revoked or given.delay_ms):
                return rounds
            rounds.append(given)
        raise AssertionError(f"not at rest after 12 rounds: {self.held}")

    def loads(self) -> dict[str, int]:
        """The sum of each worker's weights."""
        return {m: sum(self.weights[t] for t in work.tasks) for m, work in self.held.items()}

    def check(self) -> None:
        """Every task has one owner, and no task would be better off with another."""
        owned = Counter(task for work in self.held.values() for task in work.tasks)
        assert owned == dict.fromkeys(self.weights, 1)
        loads = self.loads()
        least = min(loads.values())
        for member, work in self.held.items():
            for task in work.tasks:
                assert loads[member] - least <= self.weights[task], (loads, work.tasks)


def moved(rounds: list[ClusterAssignment]) -> list[ConnectorTaskId]:
    """What was taken from anybody."""
    return [task for given in rounds for work in given.revoked.values() for task in work.tasks]


def test_heavy_tasks_are_spread_and_light_ones_fill_up() -> None:
    group = Group()
    group.weigh(1, 1, 1, 1, 8, 8, 4)
    group.held = {"W1": Work(), "W2": Work(), "W3": Work()}
    group.settle()
    assert sorted(group.loads().values()) == [8, 8, 8]


def test_a_newcomer_gets_its_share_by_few_moves_and_those_it_was_meant_for() -> None:
    group = Group()
    group.weigh(5, 5, 5, 5, 1, 1, 1, 1)
    group.held = {"W1": Work(), "W2": Work()}
    group.settle()
    group.held["W3"] = Work()
    rounds = group.settle()
    assert [bool(given.revoked) for given in rounds] == [True, False]
    group.check()
    # two heavy ones would be too much for it, and one is too little: what is lighter makes up for that
    assert len(moved(rounds)) <= 4
    assert set(moved(rounds)) == set(group.held["W3"].tasks)


def test_without_weights_it_is_kafkas_way() -> None:
    with_weights, without = Group(), Group()
    for group, weight in ((with_weights, 7), (without, 1)):
        group.weigh(*[weight] * 10)
        group.held = {"W1": Work(), "W2": Work()}
        group.settle()
        group.held["W3"] = Work()
        group.settle()
    assert with_weights.held == without.held


@each_case("seed", range(60))
def test_after_any_change_the_bound_holds_and_nothing_moved_without_need(seed: int) -> None:
    """The bound: nobody has more than another by more than the lightest task that it could give to that one."""
    chance = Random(seed)
    group = Group(chance.choice((0, 0, 1_000, 300_000)))
    weights = chance.choice(((1, 2), (1, 2, 3, 5, 8), (1, 1_000), tuple(range(1, 60))))
    group.weigh(*chance.choices(weights, k=chance.randint(1, 60)))
    group.held = {f"W{n}": Work() for n in range(chance.randint(1, 6))}
    group.settle()
    group.check()
    for turn in range(12):
        # at rest nothing moves, however often they join
        assert not moved([group.round(), group.round()])
        event = chance.randrange(4)
        if event == 0:
            group.held[f"N{turn}"] = Work()
        elif event == 1 and len(group.held) > 1:
            del group.held[chance.choice(sorted(group.held))]
        elif event == 2:
            group.weights[chance.choice(sorted(group.weights))] = chance.choice(weights)
        else:
            number = max(group.weights).task + 1
            group.weights[ConnectorTaskId("c", number)] = chance.choice(weights)
        before = {task: member for member, work in group.held.items() for task in work.tasks}
        rounds = group.settle()
        group.check()
        after = {task: member for member, work in group.held.items() for task in work.tasks}
        differ = len(set(group.weights.values())) > 1
        for task in moved(rounds) if differ else ():
            # it was taken from someone to go to someone else
            assert after[task] != before[task], (task, before, after)


def test_task_of_a_lost_member_goes_to_its_standby_at_once() -> None:
    assignor = IncrementalCooperativeAssignor(300_000)
    tasks = tuple(ConnectorTaskId("c", n) for n in range(4))

    def round_of(generation: int, held: dict[str, Work]) -> ClusterAssignment:
        return assignor.assign(
            Work((), tasks),
            held,
            last_completed_generation=generation - 1,
            generation=generation,
            now_ms=generation,
            standbys={tasks[1]: ("gone", "W3"), tasks[3]: ("gone",)},
        )

    given = round_of(1, {"W1": Work(), "W2": Work(), "W3": Work((), ())})
    held = dict(given.held)
    assert held["W2"].tasks == (tasks[1],)
    assert held["W1"].tasks == (tasks[0], tasks[3])
    given = round_of(2, {"W1": held["W1"], "W3": held["W3"]})
    assert given.assigned["W3"].tasks == (tasks[1],)
    assert (given.assigned["W1"], given.revoked, given.delay_ms) == (Work(), {}, 0)
    # the other one's standby is gone as well
    given = round_of(3, {"W3": given.held["W3"]})
    assert given.assigned["W3"].tasks == ()
    assert given.delay_ms == 300_000


def test_ten_thousand_tasks_that_weigh_differently_are_balanced_by_few_moves() -> None:
    chance = Random(7)
    group = Group()
    group.weigh(*(chance.randint(1, 100) for _ in range(10_000)))
    group.held = {f"W{n:03}": Work() for n in range(100)}
    group.settle()
    group.check()
    share = sum(group.weights.values()) / 101
    group.held["newcomer"] = Work()
    rounds = group.settle()
    group.check()
    heaviest_first = sorted(group.weights.values(), reverse=True)
    needed = next(n for n in range(1, 10_000) if sum(heaviest_first[:n]) >= share)
    # not many more than if the heaviest of all had been at hand
    assert len(moved(rounds)) <= 3 * needed
