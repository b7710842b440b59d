"""Holds workers together: alone with a file, and several of them on brokers."""

import logging
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import Future
from contextlib import ExitStack
from functools import partial
from pathlib import Path
from typing import TypeVar

import pytest
from confluent_kafka import KafkaError, KafkaException

from groupsdk.connect.errors import ConnectError, RebalancingError
from groupsdk.connect.store.config_backing_store import TargetState
from groupsdk.connect.store.kafka_store import KafkaStore
from groupsdk.connect.worker import ConnectWorker
from groupsdk.wire.connect_protocol import ConnectorTaskId
from tests.connect.workers import (
    Counting,
    Telling,
    app,
    count,
    eventually,
    standalone,
    states,
)


T = TypeVar("T")

COUNTING = {"connector.class": "Counting", "count": "4"}


def test_a_worker_that_is_alone_runs_everything_and_comes_back_with_it(tmp_path: Path) -> None:
    path = tmp_path / "store"
    with standalone(path) as worker:
        assert worker.admin.put_connector("c", COUNTING).result(60)
        eventually(lambda: len(worker.owned.tasks) == 4, lambda: states(worker))
        eventually(lambda: count(worker, "c") > 3)
        first = worker._store.last_token()
    with standalone(path) as worker:
        eventually(lambda: states(worker).get("status-task-c-3") == "RUNNING")
        assert worker.admin.connectors() == ["c"]
        assert worker._store.last_token() > first
        eventually(lambda: count(worker, "c") > 3)


def test_request_to_a_worker_that_has_ended_is_answered_with_an_error() -> None:
    with standalone() as worker:
        eventually(lambda: worker.is_leader)
    with pytest.raises(RebalancingError):
        worker.admin.put_connector("c", COUNTING).result(60)


def test_a_request_that_is_given_up_does_not_end_the_worker() -> None:
    with standalone() as worker:
        eventually(lambda: worker.is_leader)
        held, ran = threading.Event(), threading.Event()
        running = threading.Event()

        def hold() -> bool:
            running.set()
            return held.wait(120)

        first = worker.requests.put(hold)
        given_up = worker.requests.put(ran.set)
        assert running.wait(60)
        assert given_up.cancel()
        # its turn has come: it runs to its end
        assert not first.cancel()
        held.set()
        assert first.result(60)
        assert worker.admin.put_connector("c", COUNTING).result(60)
        assert not ran.is_set()
        assert worker.error is None


def test_more_and_fewer_tasks_touch_only_those(tmp_path: Path) -> None:
    with standalone() as worker:
        worker.admin.put_connector("c", COUNTING).result(60)
        eventually(lambda: len(worker.owned.tasks) == 4)
        worker.admin.put_connector("c", {**COUNTING, "count": "6"}).result(60)
        eventually(lambda: len(worker.owned.tasks) == 6)
        worker.admin.put_connector("c", {**COUNTING, "count": "1"}).result(60)
        eventually(lambda: len(worker.owned.tasks) == 1)
        # the task's thread ends after the worker has given the task up
        eventually(lambda: Counting.running["c", "t3"] == 0)


class Group:
    """Some workers of one group."""

    def __init__(self, servers: str, group_id: str, stack: ExitStack) -> None:
        self.servers = servers
        self.group_id = group_id
        self.workers: list[ConnectWorker] = []
        self._stack = stack

    def start(self, worker_id: str, **settings: object) -> ConnectWorker:
        worker = app(**settings).start(
            bootstrap_servers=self.servers, group_id=self.group_id, worker_id=worker_id
        )
        self._stack.callback(worker.stop)
        self.workers.append(worker)
        return worker

    def shares(self) -> list[int]:
        return sorted(len(worker.owned.tasks) for worker in self.workers)

    def ask(self, act: Callable[[ConnectWorker], "Future[T]"]) -> T:
        """Ask the leader for something, again while the group rebalances."""
        answers: list[T] = []

        def once() -> bool:
            try:
                answers.append(act(self.leader()).result(60))
            except ConnectError as error:
                if not error.retriable:
                    raise
            return bool(answers)

        eventually(once)
        return answers[0]

    def leader(self) -> ConnectWorker:
        found: ConnectWorker = eventually(
            lambda: next((each for each in self.workers if each.is_leader), None)
        )
        return found


@pytest.fixture
def group(servers: str, group_id: str) -> Iterator[Group]:
    """A group of workers that has none yet."""
    with ExitStack() as stack:
        yield Group(servers, group_id, stack)


def _owners_are(worker: ConnectWorker, expected: set[str]) -> bool:
    return set(_owners(worker).values()) == expected


def test_workers_share_out_hand_over_and_take_over(group: Group) -> None:
    Counting.most = 0
    for number in range(3):
        group.start(f"w{number}")
    group.ask(lambda leader: leader.admin.put_connector("c", {**COUNTING, "count": "6"}))
    eventually(lambda: group.shares() == [2, 2, 2], group.shares)
    # every worker can say who owns what
    for worker in group.workers:
        eventually(partial(_owners_are, worker, {"w0", "w1", "w2"}), worker.admin.statuses)
    leader = group.leader()
    group.workers.remove(leader)
    assert leader.stop()
    eventually(lambda: group.shares() == [3, 3], group.shares)
    kept = {task: count(group.workers[0], "c", f"t{task}") for task in range(1)}
    assert kept[0] >= 1
    assert Counting.most == 1


def test_changed_configuration_reaches_the_tasks_on_all_workers(group: Group) -> None:
    for number in range(2):
        group.start(f"w{number}")
    config = {"connector.class": "Telling", "word": "old"}
    group.ask(lambda leader: leader.admin.put_connector("told", config))
    eventually(lambda: group.shares() == [2, 2], group.shares)
    eventually(lambda: set(Telling.words.values()) == {"old"} and len(Telling.words) == 4)
    group.ask(lambda leader: leader.admin.put_connector("told", {**config, "word": "new"}))
    eventually(lambda: set(Telling.words.values()) == {"new"}, lambda: Telling.words)


def test_pausing_reaches_all_workers(group: Group) -> None:
    group.start("w0")
    group.start("w1")
    group.ask(lambda leader: leader.admin.put_connector("c", COUNTING))
    leader = group.leader()
    eventually(lambda: group.shares() == [2, 2], group.shares)
    eventually(lambda: list(states(leader).values()).count("RUNNING") == 5)
    group.ask(lambda leader: leader.admin.set_target_state("c", TargetState.PAUSED))
    eventually(lambda: list(states(leader).values()).count("PAUSED") == 5, lambda: states(leader))
    assert all(Counting.running["c", f"t{number}"] == 0 for number in range(4))
    group.ask(lambda leader: leader.admin.set_target_state("c", TargetState.STARTED))
    eventually(lambda: list(states(leader).values()).count("RUNNING") == 5, lambda: states(leader))
    group.ask(lambda leader: leader.admin.delete_connector("c"))
    eventually(lambda: group.shares() == [0, 0], group.shares)
    eventually(lambda: states(leader) == {}, lambda: states(leader))


def test_weights_are_balanced_and_others_interrupt_nothing(group: Group) -> None:
    group.start("w0")
    group.start("w1")
    heavy = {**COUNTING, "weights": "3 1 1 1"}
    group.ask(lambda leader: leader.admin.put_connector("c", heavy))
    eventually(lambda: group.shares() == [1, 3], group.shares)
    heaviest = next(each for each in group.workers if len(each.owned.tasks) == 1)
    assert heaviest.owned.tasks == (ConnectorTaskId("c", 0),)
    eventually(lambda: len(_owners(heaviest)) == 4, heaviest.admin.statuses)
    before = heaviest.admin.statuses()["status-task-c-0"]
    Counting.most = 0
    group.ask(lambda leader: leader.admin.put_connector("c", COUNTING))
    eventually(lambda: group.shares() == [2, 2], group.shares)
    # it goes on under the token that it began with
    assert heaviest.admin.statuses()["status-task-c-0"] == before
    eventually(lambda: len(_owners(heaviest)) == 4, heaviest.admin.statuses)
    assert Counting.most <= 1


def test_a_loggers_level_is_set_by_all_workers(group: Group) -> None:
    name = "tests.of.all.workers"
    # the workers of the test before may have set it after that test reset it
    logging.getLogger(name).setLevel(logging.INFO)
    workers = [group.start(f"w{n}", client_id=f"w{n}") for n in range(2)]
    group.ask(lambda leader: leader.admin.set_logger_level(name, "ERROR"))
    # here they are in one process: only the first finds another level
    eventually(
        lambda: any(
            each.admin.loggers.all().get(name, {}).get("last_modified") for each in workers
        ),
        lambda: [each.admin.loggers.all().get(name) for each in workers],
    )
    assert logging.getLogger(name).level == logging.ERROR
    logging.getLogger(name).setLevel(logging.NOTSET)


def test_states_are_set_while_nobody_has_the_tasks(group: Group) -> None:
    group.start("w0")
    group.start("w1")
    group.ask(lambda leader: leader.admin.put_connector("c", COUNTING))
    eventually(lambda: group.shares() == [2, 2], group.shares)
    group.ask(lambda leader: leader.admin.set_target_state("c", TargetState.STOPPED))
    # refused until they have ended
    wanted = {"t0": {"count": 10_000}, "t1": None}
    assert group.ask(lambda leader: leader.admin.set_task_states("c", wanted)) == 2
    assert group.shares() == [0, 0]
    states = group.leader().admin.task_states("c")
    assert states["t0"] == {"count": 10_000}
    assert set(states) <= {"t0", "t2", "t3"}
    group.ask(lambda leader: leader.admin.set_target_state("c", TargetState.STARTED))
    eventually(lambda: group.shares() == [2, 2], group.shares)
    eventually(lambda: all(count(each, "c") > 10_000 for each in group.workers))
    eventually(lambda: all(0 < count(each, "c", "t1") < 10_000 for each in group.workers))


def test_a_full_restart_comes_back_with_the_same_configurations_and_states(group: Group) -> None:
    worker = group.start("w0")
    group.ask(lambda leader: leader.admin.put_connector("c", COUNTING))
    eventually(lambda: count(worker, "c") > 5)
    worker.stop()
    group.workers.clear()
    again = group.start("w1")
    eventually(lambda: group.shares() == [4], group.shares)
    assert again.admin.connectors() == ["c"]
    eventually(lambda: count(again, "c") > 5)


@pytest.mark.timeout(900)
@pytest.mark.parametrize("count", [3, pytest.param(10, marks=pytest.mark.slow)])
def test_a_rolling_restart_with_the_delay_on_moves_no_task(group: Group, count: int) -> None:
    # longer than a restart takes on a busy machine that stalls: what comes back later finds its tasks moved, and
    # rightly. Each restart takes as long.
    delay = {"scheduled_rebalance_max_delay_ms": 12_000, "session_timeout_ms": 60_000}
    for number in range(count):
        group.start(f"w{number}", **delay)
    wanted = {**COUNTING, "count": str(2 * count)}
    group.ask(lambda leader: leader.admin.put_connector("c", wanted))
    eventually(lambda: group.shares() == [2] * count, group.shares)
    watch = group.workers[-1]
    eventually(lambda: len(_owners(watch)) == 2 * count, watch.admin.statuses)
    before = _owners(watch)
    assert set(before.values()) == {f"w{number}" for number in range(count)}
    for _ in range(count):
        leaving = group.workers.pop(0)
        had = set(leaving.owned.tasks)
        assert leaving.stop()
        again = group.start(leaving.worker_id, **delay)
        # one after the other: two that are away at a time share what both had
        eventually(lambda: set(again.owned.tasks) == had, again.admin.statuses)  # noqa: B023  # used at once
        eventually(lambda: _owners(again) == before, again.admin.statuses)  # noqa: B023  # used at once


def _owners(worker: ConnectWorker) -> dict[str, str]:
    return {
        key: status.worker_id
        for key, status in worker.admin.statuses().items()
        if key.startswith("status-task") and status.state.value == "RUNNING"
    }


def test_a_worker_that_cannot_read_configurations_leaves_its_work_to_others(
    group: Group, monkeypatch: pytest.MonkeyPatch
) -> None:
    # of another client id, so that it reads for itself
    deaf = group.start("deaf", client_id="deaf", worker_sync_timeout_ms=300)
    other = group.start("w1")
    group.ask(lambda leader: leader.admin.put_connector("c", {**COUNTING, "count": "2"}))
    eventually(lambda: group.shares() == [1, 1], group.shares)
    # a start would wait for what cannot be read
    eventually(lambda: len(_owners(other)) == 2, other.admin.statuses)

    def fail() -> None:
        raise KafkaException(KafkaError(KafkaError._FATAL))

    store = deaf._store
    assert isinstance(store, KafkaStore)
    monkeypatch.setattr(store._state.log, "_read_on", fail)
    eventually(lambda: len(other.owned.tasks) == 2, group.shares)
    eventually(lambda: not deaf.owned)
    assert (deaf.health().status, other.health().status) == ("unhealthy", "healthy")
    with pytest.raises(RebalancingError):
        deaf.admin.put_connector("d", COUNTING).result(60)
    assert other.admin.put_connector("c", {**COUNTING, "count": "4"}).result(60) is False
    eventually(lambda: len(other.owned.tasks) == 4, group.shares)
    monkeypatch.undo()
    eventually(lambda: group.shares() == [2, 2], group.shares)
    assert deaf.admin.configs().connectors["c"]["count"] == "4"
    assert Counting.most <= 1


def test_a_worker_whose_thread_is_held_up_halts_its_tasks(group: Group) -> None:
    """Past its poll interval the group goes on without it: its tasks end by themselves, before that."""
    worker = group.start("w0", session_timeout_ms=2_000, rebalance_timeout_ms=1_500)
    group.ask(lambda leader: leader.admin.put_connector("held", COUNTING))
    eventually(lambda: group.shares() == [4], group.shares)
    eventually(lambda: Counting.running.get(("held", "t0")) == 1)
    hold = threading.Event()
    worker.requests.put(lambda: hold.wait(120))
    eventually(lambda: all(Counting.running["held", f"t{n}"] == 0 for n in range(4)))
    hold.set()
    eventually(lambda: Counting.running["held", "t0"] == 1, lambda: states(worker))


def test_tasks_are_halted_a_margin_before_the_session_ends(monkeypatch: pytest.MonkeyPatch) -> None:
    with standalone() as worker:
        worker.admin.put_connector("margin", COUNTING).result(60)
        eventually(lambda: states(worker).get("status-task-margin-0") == "RUNNING")
        group, halted = worker._group, threading.Event()
        monkeypatch.setattr(worker._supervisor, "halt", halted.set)
        monkeypatch.setattr(group, "margin_ms", 400, raising=False)
        monkeypatch.setattr(group, "held_until_ms", lambda: 10_000)
        assert worker._lease() == (9_800, 10_000), "processes must go on for as long, and no longer"
        # the session lasts: no task asks in vain, and nobody but the guard can end them
        left_ms = 200
        monkeypatch.setattr(group, "holds_for", lambda margin_ms: left_ms >= margin_ms)
        asked = threading.Event()
        monkeypatch.setattr(worker._supervisor, "renew_lease", asked.set)
        assert asked.wait(60)
        assert not halted.is_set()
        left_ms = 199
        assert halted.wait(60)


def test_halted_work_begins_again_and_is_not_halted_twice(
    group: Group, monkeypatch: pytest.MonkeyPatch
) -> None:
    worker = group.start("w0")
    group.ask(lambda leader: leader.admin.put_connector("halted", COUNTING))
    key = "status-task-halted-0"
    eventually(lambda: states(worker).get(key) == "RUNNING")
    supervisor = worker._supervisor
    halt = supervisor.halt
    seen: list[bool] = []

    def held_up() -> None:
        # a worker that knew already would be free to start tasks before they are halted
        seen.append(worker._halted)
        halt()

    monkeypatch.setattr(supervisor, "halt", held_up)
    before = worker.admin.statuses()[key].generation
    worker._halt()

    def runs_again() -> bool:
        status = worker.admin.statuses()[key]
        return status.state.value == "RUNNING" and status.generation > before

    eventually(runs_again, worker.admin.statuses)
    assert seen == [False]
