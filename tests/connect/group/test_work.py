"""Holds sums and differences of work, what is a weight, and who keeps what warm."""

from collections import Counter
from random import Random

import pytest

from groupsdk.connect.errors import ConnectorConfigError
from groupsdk.connect.group.work import (
    NO_WORK,
    StandbyRecord,
    Work,
    choose_standbys,
    counted,
    replicas_of,
    tasks_sorted,
    weight_of,
)
from groupsdk.wire.connect_protocol import ConnectorTaskId


A0, A1, B0 = ConnectorTaskId("a", 0), ConnectorTaskId("a", 1), ConnectorTaskId("b", 0)


def test_added_work_comes_last_and_once() -> None:
    assert Work(("a",), (A1,)).plus(Work(("b", "a"), (A0, A1))) == Work(("a", "b"), (A1, A0))


def test_removed_work_leaves_the_order_of_the_rest() -> None:
    assert Work(("b", "a"), (B0, A1, A0)).minus(Work(("b",), (A1,))) == Work(("a",), (B0, A0))


def test_no_work_is_false_and_any_is_true() -> None:
    assert not NO_WORK
    assert Work(("a",))
    assert len(Work(("a",), (A0, A1))) == 3


def test_tasks_sort_as_in_java() -> None:
    astral, private = ConnectorTaskId("\U0001f600", 0), ConnectorTaskId("\ue000", 0)
    assert tasks_sorted([B0, A1, A0]) == [A0, A1, B0]
    # by UTF-16 code units, in which the former begins with a surrogate
    assert tasks_sorted([private, astral]) == [astral, private]


def test_weights_are_counted_in_thousandths() -> None:
    assert [counted(each) for each in (1, 2.5, "0.001", "1e6")] == [1_000, 2_500, 1, 10**9]
    assert weight_of({"task.weight": "3"}) == 3_000
    assert weight_of({}) is None


@pytest.mark.parametrize("wrong", [0, -1, 0.0001, 1_000_001, "x", "", "nan", "inf", None, True, []])
def test_bad_weight_is_refused_by_its_key(wrong: object) -> None:
    with pytest.raises(
        ConnectorConfigError, match=r"task\.weight: must be a number from 0\.001 to 1,000,000"
    ):
        counted(wrong)


def tasks(count: int, connector: str = "c") -> list[ConnectorTaskId]:
    return [ConnectorTaskId(connector, number) for number in range(count)]


def dealt(count: int, members: int) -> dict[str, Work]:
    """So many tasks among so many members."""
    all_tasks = tasks(count)
    return {f"m{n}": Work((), tuple(all_tasks[n::members])) for n in range(members)}


def test_the_number_of_standbys_is_read_and_checked() -> None:
    assert replicas_of({}) == 0
    assert replicas_of({"standby.replicas": "2"}) == 2
    for wrong in ("", "-1", "x", "11", "1.5", "\u0661"):
        with pytest.raises(ConnectorConfigError, match=r"standby\.replicas: must be an integer"):
            replicas_of({"standby.replicas": wrong})


def test_each_task_has_another_member_as_standby_and_what_is_lost_with_one_is_spread() -> None:
    held = dealt(30, 6)
    chosen = choose_standbys(held, {"c": 1}, {})
    assert chosen.keys() == set(tasks(30))
    assert Counter(ids[0] for ids in chosen.values()) == {f"m{n}": 5 for n in range(6)}
    for member, work in held.items():
        ready = Counter(chosen[task][0] for task in work.tasks)
        assert member not in ready
        assert max(ready.values()) <= 2


def test_lone_worker_keeps_no_standby() -> None:
    assert choose_standbys(dealt(3, 1), {"c": 1}, {}) == {}
    assert choose_standbys({}, {"c": 1}, {tasks(1)[0]: ("m1",)}) == {}
    assert choose_standbys(dealt(3, 2), {"other": 1}, {}) == {}


@pytest.mark.parametrize("seed", range(40))
def test_standbys_stay_where_they_are_as_members_come_and_go(seed: int) -> None:
    chance = Random(seed)
    replicas = chance.randint(1, 3)
    held = dealt(chance.randint(1, 60), chance.randint(2, 8))
    before = choose_standbys(held, {"c": replicas}, {})
    for turn in range(15):
        if chance.random() < 0.5 or len(held) < 3:
            held[f"n{turn}"] = Work()
        else:
            gone = chance.choice(sorted(held))
            # what it had goes to its standbys
            for task in held.pop(gone).tasks:
                owner = next((m for m in before.get(task, ()) if m in held), None)
                if owner is not None:
                    held[owner] = held[owner].plus(Work((), (task,)))
        after = choose_standbys(held, {"c": replicas}, before)
        owners = {task: member for member, work in held.items() for task in work.tasks}
        wanted = min(replicas, len(held) - 1)
        for task, owner in owners.items():
            assert len(set(after[task])) == len(after[task]) == wanted
            assert owner not in after[task]
            assert held.keys() >= set(after[task])
        assert choose_standbys(held, {"c": replicas}, after) == after
        before = after


def test_a_record_is_read_as_it_was_written() -> None:
    record = StandbyRecord(7, {tasks(1)[0]: ("m2", "m1"), ConnectorTaskId("d-e", 12): ("m1",)})
    assert StandbyRecord.of(record.value()) == record


@pytest.mark.parametrize(
    "wrong",
    [
        None,
        (),
        [],
        "text",
        {},
        {"generation": 1},
        {"generation": "1", "members": [], "tasks": {}},
        {"generation": 1, "members": ["m"], "tasks": {"c": {"x": [0]}}},
        {"generation": 1, "members": ["m"], "tasks": {"c": {"0": [1]}}},
        {"generation": 1, "members": ["m"], "tasks": {"c": {"0": [-1]}}},
        {"generation": 1, "members": ["m"], "tasks": {"c": {"0": 7}}},
        {"generation": 1, "members": ["m"], "tasks": {"c": [0]}},
        {"generation": 1, "members": ["m"], "tasks": 3},
        {"generation": 1, "members": 3, "tasks": {}},
        {"generation": 2**63, "members": [], "tasks": {}},
    ],
)
def test_malformed_standby_record_is_ignored(wrong: object) -> None:
    assert StandbyRecord.of(wrong) is None
