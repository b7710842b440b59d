"""Shard workers, for threads and for asyncio, on the embedded broker."""

import threading
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from groupsdk.broker.embedded import EmbeddedBroker
from groupsdk.shards import Lease, Shard, ShardError
from tests.shards.crew import (
    KINDS,
    SHARDS,
    Driven,
    Recorder,
    Worker,
    await_shared,
    tell,
)
from tests.support.workers import Gate, eventually


pytestmark = pytest.mark.timeout(300)

Start = Callable[..., Driven]


@pytest.fixture(scope="module")
def broker() -> Iterator[EmbeddedBroker]:
    with EmbeddedBroker(group_min_session_timeout_ms=100) as broker:
        yield broker


@pytest.fixture(params=KINDS, ids=["threads", "asyncio"])
def kind(request: pytest.FixtureRequest) -> Callable[..., Worker]:
    made: Callable[..., Worker] = request.param
    return made


@pytest.fixture
def start(broker: EmbeddedBroker, group_id: str, kind: Callable[..., Worker]) -> Iterator[Start]:
    started: list[Driven] = []

    def begin(recorder: Recorder | None = None, **settings: Any) -> Driven:
        given: dict[str, Any] = {
            "bootstrap_servers": broker.bootstrap_servers,
            "group_id": group_id,
            **settings,
        }
        driven = Driven(kind(recorder or Recorder(), **given))
        started.append(driven)
        return driven.__enter__()

    yield begin
    for each in started:
        each.recorder.hooks.clear()
        each.stop()


def test_a_worker_alone_gains_all_and_its_leases_are_held(start: Start) -> None:
    one = start()
    await_shared(one)
    leases = one.worker.leases()
    assert [lease.name for lease in leases] == sorted(SHARDS)
    assert all(lease.held() for lease in leases)
    assert {lease.holder for lease in leases} == {one.worker.member_id()}
    assert one.worker.lease("shard-3") in leases
    assert one.worker.lease("shard-99") is None
    status = one.worker.shard_status()
    assert (status.leads, status.shard_count, status.error) == (True, len(SHARDS), "")
    assert status.plan is not None
    assert status.plan.imbalance == 1.0
    one.stop()
    assert one.worker.leases() == ()
    assert not any(lease.held() for lease in leases)
    assert one.recorder.told("released") == dict.fromkeys(SHARDS, 1)
    assert one.recorder.told("lost") == {}
    assert one.errors == []


def test_of_two_workers_only_what_moves_stops_and_epochs_rise(start: Start) -> None:
    one = start()
    await_shared(one)
    before = {lease.name: lease for lease in one.worker.leases()}
    two = start()
    await_shared(one, two)
    moved = set(two.names)
    assert one.recorder.told("released") == dict.fromkeys(moved, 1)
    for lease in one.worker.leases():
        assert lease == before[lease.name]
        assert before[lease.name].held()
    for lease in two.worker.leases():
        assert lease.epoch > before[lease.name].epoch
        assert not before[lease.name].held()
    two.stop()
    await_shared(one)
    assert one.recorder.told("gained") == {name: 1 + (name in moved) for name in SHARDS}
    assert one.errors == two.errors == []


def test_slow_release_stops_no_other_shard(start: Start) -> None:
    one = start()
    await_shared(one)
    with Gate() as gate:
        one.recorder.hooks["released"] = lambda _: gate.wait()
        two = start()
        assert gate.reached.wait(60)
        going = set(one.recorder.named("released")[0])
        assert one.worker.shard_status().releasing == tuple(sorted(going))
        assert set(one.names) == set(SHARDS) - going
        # it takes part in further rebalances meanwhile
        before = one.worker.shard_status().generation
        three = start()
        eventually(lambda: one.worker.shard_status().generation > before)
        gained = one.recorder.named("gained")[0]
        assert all(lease.held() for lease in gained), "also what it has not stopped yet"
        assert two.names == []
    await_shared(one, two, three)


def test_a_hung_release_costs_the_worker_all_its_shards_and_it_comes_back(start: Start) -> None:
    one = start(release_timeout_ms=500)
    await_shared(one)
    leases = one.worker.leases()
    with Gate() as gate:
        one.recorder.hooks["released"] = lambda _: gate.wait()
        two = start()
        await_shared(two)
        assert one.recorder.told("lost") == dict.fromkeys(SHARDS, 1)
        assert not any(lease.held() for lease in leases)
        assert one.names == []
        assert one.worker.snapshot().generation.is_reset
        one.recorder.hooks.clear()
    await_shared(one, two)


def test_a_drained_worker_has_released_everything_and_left(start: Start) -> None:
    one, two = start(), start()
    await_shared(one, two)
    drained = set(two.names)
    before = two.recorder.told("released")
    two.worker.drain()
    eventually(lambda: two.worker.drained, lambda: tell(one, two))
    await_shared(one)
    assert two.recorder.told("released") - before == dict.fromkeys(drained, 1)
    assert two.recorder.told("lost") == {}
    assert two.worker.snapshot().generation.is_reset
    assert two.worker.shard_status().drained


def test_a_drain_takes_no_heartbeat_interval_a_wave(
    start: Start, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Members know from their assignment that another round follows, and look out for it."""
    one, two = start(), start()
    await_shared(one, two)
    expected: list[int] = []
    for each in (one, two):
        side = each.worker._groupsdk_shards._member
        monkeypatch.setattr(side, "expect_rebalance", expected.append)
    two.worker.drain()
    eventually(lambda: two.worker.drained, lambda: tell(one, two))
    assert set(expected) == {30_000}, "release.timeout.ms, in each round in which shards wait"


def test_a_rolling_restart_with_drains_loses_nothing(start: Start) -> None:
    """Of twenty workers; each shard is released before the next one gains it, under a greater epoch."""
    shards = [f"shard-{number}" for number in range(60)]
    running = [start(Recorder(shards)) for _ in range(20)]
    await_shared(*running, shards=shards)
    epochs = {lease.name: lease.epoch for each in running for lease in each.worker.leases()}
    over: list[Driven] = []
    while len(over) < 20:
        goes = running.pop(0)
        goes.worker.drain()
        eventually(lambda: goes.worker.drained, lambda: tell(goes))  # noqa: B023
        goes.stop()
        over.append(goes)
        running.append(start(Recorder(shards)))
        await_shared(*running, shards=shards)
    assert [each.recorder.told("lost") for each in (*over, *running)] == [{}] * 40
    assert [error for each in (*over, *running) for error in each.errors] == []
    after = {lease.name: lease.epoch for each in running for lease in each.worker.leases()}
    assert after.keys() == set(shards)
    assert all(after[name] > epoch for name, epoch in epochs.items())


def test_a_callback_that_raises_is_called_again(start: Start) -> None:
    one = start()
    await_shared(one)
    failures = 3

    def fail(_: Any) -> None:
        nonlocal failures
        if failures:
            failures -= 1
            raise ValueError("odd")

    one.recorder.hooks["released"] = fail
    two = start()
    await_shared(one, two)
    assert [type(error) for error in one.errors] == [ValueError] * 3
    calls = one.recorder.named("released")
    assert len(calls) == 4
    assert len(set(calls)) == 1
    one.errors.clear()
    failures = 2
    one.recorder.hooks["gained"] = fail
    two.stop()
    await_shared(one)
    assert [type(error) for error in one.errors] == [ValueError] * 2


def test_a_list_that_raises_moves_nothing_and_is_asked_for_again(start: Start) -> None:
    recorder = Recorder()
    one = start(recorder)
    await_shared(one)
    broken = threading.Event()
    broken.set()

    def listed(_: Any) -> Any:
        if broken.is_set():
            raise LookupError("no list")
        return SHARDS

    recorder.hooks["shards"] = listed
    two = start()
    eventually(lambda: any(isinstance(error, LookupError) for error in one.errors))
    eventually(lambda: "no list" in two.worker.shard_status().error)
    assert len(one.names) == len(SHARDS)
    broken.clear()
    await_shared(one, two)
    assert one.recorder.told("lost") == {}


def test_a_list_that_changes_moves_only_what_is_new_and_gone(start: Start) -> None:
    recorder = Recorder()
    one, two = start(recorder, shards_refresh_ms=50), start(recorder, shards_refresh_ms=50)
    await_shared(one, two)
    recorder.calls.clear()
    changed = [*SHARDS[2:], "new-1", "new-2"]
    recorder.list = changed
    await_shared(one, two, shards=changed)
    assert recorder.told("gained") == {"new-1": 1, "new-2": 1}
    # nobody waits for these, so the group may be done before their owner is told
    eventually(lambda: recorder.told("released") == {"shard-0": 1, "shard-1": 1})


def test_a_list_with_a_shard_twice_is_an_error_that_names_it(start: Start) -> None:
    one = start(Recorder(["a", "a"]))
    error = eventually(lambda: one.errors and one.errors[0])
    assert isinstance(error, ShardError)
    assert "'a'" in str(error)
    assert one.names == []


def test_shard_that_nobody_can_own_is_warned_of_once_and_owned_when_somebody_can(
    start: Start, caplog: pytest.LogCaptureFixture
) -> None:
    listed: list[str | Shard] = [Shard("heavy", needs={"gpu"}), "light"]
    one = start(Recorder(listed))
    eventually(lambda: one.names == ["light"], lambda: tell(one))
    generation = one.worker.shard_status().generation
    one.worker.request_rejoin("test")
    eventually(lambda: one.worker.shard_status().generation > generation, lambda: tell(one))
    assert one.worker.shard_status().unplaceable_count == 1
    warned = [each.message for each in caplog.records if "unplaceable: " in each.message]
    assert [each.partition(": ")[2] for each in warned] == [
        "1 unplaceable: heavy (no member has the capabilities ['gpu'])"
    ]
    two = start(Recorder(listed), capabilities={"gpu"})
    eventually(lambda: two.names == ["heavy"], lambda: tell(one, two))


def test_the_log_names_a_callback_that_raises(
    start: Start, caplog: pytest.LogCaptureFixture
) -> None:
    recorder = Recorder()

    def refuse(_: object) -> None:
        del recorder.hooks["released"]
        raise LookupError("not now")

    recorder.hooks["released"] = refuse
    one = start(recorder)
    await_shared(one)
    await_shared(one, start())
    assert "on_shards_released raised LookupError" in caplog.text


def test_epochs_rise_though_the_clock_of_the_next_leader_is_back(start: Start) -> None:
    one = start(epoch_topic="epochs")
    await_shared(one)
    before = {lease.name: lease.epoch for lease in one.worker.leases()}
    one.stop()
    two = start(epoch_topic="epochs")
    two.worker._groupsdk_shards.leader._now_s = lambda: 5  # before it has joined
    await_shared(two)
    assert all(lease.epoch > before[lease.name] for lease in two.worker.leases())


def test_lists_that_differ_are_warned_of_by_a_new_leader(
    start: Start, caplog: pytest.LogCaptureFixture
) -> None:
    one = start()
    await_shared(one)
    two = start(Recorder([*SHARDS, "odd"]))
    await_shared(one, two)
    one.stop()
    await_shared(two, shards=two.recorder.list)
    assert [each.message for each in caplog.records if "list of shards differs" in each.message]


def test_standbys_become_ready_and_the_owner_when_it_leaves(start: Start) -> None:
    one, two = start(standbys=1), start(standbys=1)
    await_shared(one, two)
    eventually(
        lambda: (
            sum(map(sum, (each.worker.shard_status().standbys.values() for each in (one, two))))
            == len(SHARDS)
        ),
        lambda: tell(one, two),
    )
    assert set(two.worker.shard_status().standbys) == set(one.names)
    one.stop()
    await_shared(two)
    assert two.recorder.told("standby released") == {}
    assert one.recorder.told("standby released") == one.recorder.told("standby gained")


@pytest.mark.parametrize("callback", ["standby gained", "standby released"])
@pytest.mark.parametrize("closes", [True, False], ids=["close", "leave"])
def test_next_owners_wait_for_no_standby_of_a_worker_that_leaves(
    start: Start, callback: str, closes: bool
) -> None:
    with Gate() as gate:
        one, recorder = start(standbys=1), Recorder()
        recorder.hooks[callback] = lambda _: gate.wait()
        two = start(recorder, standbys=1)
        await_shared(one, two)
        eventually(lambda: bool(recorder.named("standby gained")), lambda: tell(one, two))
        ending = threading.Thread(target=two.stop)
        if closes:
            ending.start()
        else:
            two.leave.set()
        await_shared(one)
        eventually(gate.reached.is_set, lambda: tell(one, two))
        assert not closes or ending.is_alive(), "it has left, and waits for its own callbacks"
    if closes:
        ending.join(60)
        assert recorder.told("standby released") == recorder.told("standby gained")
    else:
        await_shared(one, two)
    assert one.errors == two.errors == []


def test_a_load_is_reported_for_a_shard_that_is_owned(start: Start) -> None:
    one = start()
    await_shared(one)
    one.worker.report_load("shard-1", 3)
    one.worker.report_load("unknown", 3.0)
    with pytest.raises(ShardError, match="shard-1"):
        one.worker.report_load("shard-1", float("nan"))
    with pytest.raises(ShardError, match="name of a shard"):
        one.worker.report_load("", 1.0)


def test_a_lease_of_before_is_never_held_again(start: Start) -> None:
    one = start()
    await_shared(one)
    before: tuple[Lease, ...] = one.worker.leases()
    one.leave.set()
    one.worker.wakeup()
    eventually(lambda: one.recorder.told("gained")["shard-0"] == 2)
    await_shared(one)
    assert not any(lease.held() for lease in before)
    assert min(lease.epoch for lease in one.worker.leases()) > max(lease.epoch for lease in before)


def test_a_static_leader_that_comes_back_to_a_plan_that_failed_plans_again(start: Start) -> None:
    def begin(instance: str, recorder: Recorder | None = None) -> Driven:
        static = {"group_instance_id": instance, "session_timeout_ms": 60_000}
        return start(recorder, **static)

    def fail(_: object) -> None:
        raise LookupError("no list")

    one = begin("one")
    await_shared(one)
    one.recorder.hooks["shards"] = fail
    two = begin("two")
    eventually(lambda: "LookupError" in two.worker.shard_status().error)
    one.stop()  # a static one stays in the group, which keeps its assignments
    again = begin("one")
    await_shared(again, two)


def test_a_static_worker_that_comes_back_with_other_capabilities_is_planned_for_anew(
    start: Start,
) -> None:
    listed: list[str | Shard] = [Shard("gpu-1", needs=frozenset({"gpu"})), *SHARDS]

    def begin(instance: str, **settings: Any) -> Driven:
        # the coordinator gives one that returns its assignment of before, and holds no rebalance
        static = {"group_instance_id": instance, "session_timeout_ms": 60_000, **settings}
        return start(Recorder(listed), **static)

    one, two = begin("one"), begin("two")
    await_shared(one, two)
    two.stop()  # a static one stays in the group
    again = begin("two", capabilities={"gpu"})
    await_shared(one, again, shards=["gpu-1", *SHARDS])
    assert "gpu-1" in again.names
