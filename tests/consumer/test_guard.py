"""Test that one thread at a time uses a consumer, and that nothing that interrupts a call keeps others out."""

import signal
import threading
from collections.abc import Callable
from typing import Any

import pytest
from confluent_kafka import TopicPartition as NativePartition

from groupsdk.consumer.guard import OneUser
from groupsdk.errors import ConcurrentUseError, EngineError, MemberClosedError
from tests.consumer.rig import Bench, BrokerAssignedGroup, Listener
from tests.support.interrupts import everywhere


def in_a_thread(work: Callable[[], object]) -> list[BaseException]:
    """Do something on another thread; return what it raised."""
    raised: list[BaseException] = []

    def run() -> None:
        try:
            work()
        except BaseException as error:  # noqa: BLE001  # for the test to look at
            raised.append(error)

    thread = threading.Thread(target=run)
    thread.start()
    thread.join()
    return raised


def nothing() -> None:
    """Be what is done by whoever is let in."""


def test_a_second_thread_is_told() -> None:
    guard = OneUser()
    (error,) = guard.run(lambda: in_a_thread(lambda: guard.run(nothing)))
    assert isinstance(error, ConcurrentUseError)
    assert "another thread" in str(error)
    assert in_a_thread(lambda: guard.run(nothing)) == []


def test_a_listener_may_use_the_consumer_and_close_it_but_not_drive_it() -> None:
    guard = OneUser()

    def drive() -> None:
        guard.run(nothing, driving=True, within_callbacks=False)

    def listener() -> None:
        guard.run(nothing)
        with pytest.raises(ConcurrentUseError, match="not poll"):
            drive()
        with pytest.raises(ConcurrentUseError, match="not poll"):
            guard.run(drive, driving=True)  # within close()

    guard.run(listener, driving=True, within_callbacks=False)
    drive()


def test_nobody_comes_in_from_a_fork_of_the_process(monkeypatch: pytest.MonkeyPatch) -> None:
    guard = OneUser()
    monkeypatch.setattr("os.getpid", lambda: -1)
    with pytest.raises(EngineError, match="after forking"):
        guard.run(nothing)


def test_nobody_comes_in_once_it_is_closed() -> None:
    guard = OneUser()

    def close() -> None:
        guard.closed = True

    guard.run(close, driving=True)
    with pytest.raises(MemberClosedError):
        guard.run(nothing)
    guard.closed = False
    guard.run(nothing)


def test_whatever_interrupts_a_call_lets_others_in_afterwards() -> None:
    guard = OneUser()

    def run(block: Callable[[], Any]) -> None:
        with block():
            guard.run(nothing, driving=True, within_callbacks=False)

    places = 0
    for place in everywhere(run, ("/groupsdk/consumer/guard.py", "/groupsdk/drivers/one_thread")):
        places += 1
        assert in_a_thread(lambda: guard.run(nothing, within_callbacks=False)) == [], place
    assert places >= 6


def test_a_real_signal_at_any_time_keeps_no_other_thread_out(bench: Bench) -> None:
    interrupted = 0

    def interrupt(*_: object) -> None:
        raise KeyboardInterrupt

    before = signal.signal(signal.SIGALRM, interrupt)
    try:
        for number in range(1_500):
            try:
                # soon enough that most come while a call is being made
                signal.setitimer(signal.ITIMER_REAL, (5 + number % 97) / 1e6)
                while True:
                    bench.consumer.pause([])
                    bench.consumer.poll(0)
            except KeyboardInterrupt:
                interrupted += 1
            assert in_a_thread(lambda: bench.consumer.pause([])) == []
            assert bench.consumer.poll(0) is None
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)
    assert interrupted == 1_500


WHERE = ("/groupsdk/consumer/", "/groupsdk/drivers/threads/", "/groupsdk/drivers/engine_handle")
STATEFUL = (
    "/consumer/reader.py",
    "/consumer/coordinator.py",
    "/consumer/broker_assigned.py",
    "/consumer/guard.py",
)
MEMBERS = {
    "range": {"partition_assignment_strategy": "range"},
    "cooperative-sticky": {"partition_assignment_strategy": "cooperative-sticky"},
    "consumer protocol": {"group_protocol": "consumer"},
}


def rebalance(bench: Bench, *numbers: int) -> None:
    """Have a member of the classic protocol rejoin, or one of the consumer protocol own these partitions."""
    if isinstance(bench.group, BrokerAssignedGroup):
        bench.group.assign(*numbers)
        bench.advance(1_000)
    else:
        bench.consumer.enforce_rebalance("test")


@pytest.mark.parametrize("member", MEMBERS)
@pytest.mark.parametrize(
    "where", [STATEFUL, pytest.param(WHERE, marks=[pytest.mark.slow, pytest.mark.timeout(300)])]
)
def test_a_ctrl_c_anywhere_in_a_consumer_loses_no_record_and_no_commit(
    member: str, where: tuple[str, ...]
) -> None:
    made: list[tuple[Bench, list[str]]] = []
    told: set[str] = set()
    listener = Listener()
    listener.hooks = {
        "assigned": told.update,
        "revoked": told.difference_update,
        "lost": told.difference_update,
    }

    def run(block: Callable[[], Any]) -> None:
        bench = Bench(auto_commit_interval_ms=100, **MEMBERS[member])
        got: list[str] = []
        made[:] = [(bench, got)]
        told.clear()
        bench.fill(3)
        with block():
            bench.consumer.subscribe("t", listener=listener)
            for _ in range(2):
                got.extend(bench.read(4, 0.3))
            bench.advance(200)
            rebalance(bench, 0)
            got.extend(bench.read(4, 0.3))
            bench.fill(1)
            rebalance(bench, 0, 1, 2)
            got.extend(bench.read(4, 0.3))
            bench.consumer.commit(asynchronous=False)

    places = 0
    for place in everywhere(run, where):
        places += 1
        ((bench, got),) = made
        bench.consumer.subscribe("t", listener=listener)
        if isinstance(bench.group, BrokerAssignedGroup):
            bench.group.assign(0, 1, 2)
        end = max(bench.native.ends.values())
        wanted = {f"t-{number}@{offset}" for number in range(3) for offset in range(end)}
        for _ in range(40):
            batch = bench.read(4, 0.5)
            got.extend(batch)
            if not batch and wanted <= set(got):  # after what is read again, too
                break
        owned = {f"t-{each.partition}" for each in bench.consumer.assignment()}
        assert told == owned, f"{place}: the listener believes in {sorted(told)}"
        assert wanted <= set(got), f"{place}: {sorted(wanted - set(got))} never came"
        bench.consumer.close()
        assert set(bench.group.offsets.values()) == {end}, place
    assert places > 100


@pytest.mark.parametrize("member", MEMBERS)
def test_a_ctrl_c_anywhere_while_a_client_is_replaced_loses_no_record(member: str) -> None:
    benches: list[Bench] = []
    got: list[str] = []

    def run(block: Callable[[], Any]) -> None:
        bench = Bench(enable_auto_commit=False, auto_offset_reset="latest", **MEMBERS[member])
        benches[:] = [bench]
        bench.consumer.subscribe("t")
        bench.read(9, 0.3)
        for number in range(3):  # nothing is committed that it could go on at
            bench.consumer.seek(NativePartition("t", number, 0))
        bench.fill(4)
        got[:] = bench.read(7, 0.3)
        bench.forget_brokers()
        with block():
            got.extend(bench.read(2, 0.3))

    places = 0
    for place in everywhere(run, (*STATEFUL, "/consumer/session.py")):
        places += 1
        (bench,) = benches
        while batch := bench.read(4, 0.5):
            got.extend(batch)
        wanted = {f"t-{number}@{offset}" for number in range(3) for offset in range(4)}
        assert wanted <= set(got), f"{place}: {sorted(wanted - set(got))} never came"
        assert bench.connections in (2, 3), place
        bench.consumer.close()
        assert bench.native.closed, place
    assert places > 20
