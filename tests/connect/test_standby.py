"""Holds who keeps what warm, and how that is written down."""

from collections import Counter
from random import Random

import pytest

from groupsdk.connect.errors import ConnectorConfigError
from groupsdk.connect.group.work import StandbyRecord, Work, choose_standbys, replicas_of
from groupsdk.wire.connect_protocol import ConnectorTaskId


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
