"""Test that an interrupted call of a member keeps no other thread out of it."""

import threading
from collections.abc import Callable
from concurrent.futures import Future
from random import Random
from typing import Any

import pytest

from groupsdk.clock import ManualClock, SystemClock
from groupsdk.consumer.calls import CoordinatorCalls
from groupsdk.consumer.metrics import ConsumerMetrics
from groupsdk.consumer.processing import PartitionProcessor
from groupsdk.drivers.hosts.host import Mailbox, promise, settle
from groupsdk.drivers.hosts.process import ProcessHost
from groupsdk.drivers.hosts.thread import ThreadHost
from groupsdk.drivers.one_thread import OneThread
from groupsdk.election.leader_election import LeaderElection
from groupsdk.errors import ConcurrentUseError, MemberClosedError
from groupsdk.settings.backoff import ExponentialBackoff
from groupsdk.shards.directory import ShardDirectory
from groupsdk.telemetry.opentelemetry import RebalanceTracer
from groupsdk.telemetry.registry import MetricsRegistry
from tests.consumer.rig import Bench as ConsumerBench
from tests.drivers.virtual import Bench, config
from tests.support.cases import each_case
from tests.support.interrupts import everywhere


def test_a_thread_that_was_refused_is_in_nobodys_way() -> None:
    alone = OneThread("busy", "nested")
    refused: list[str] = []

    def other() -> None:
        try:
            alone.run(lambda: None)
        except ConcurrentUseError as error:
            refused.append(str(error))

    def within() -> None:
        thread = threading.Thread(target=other)
        thread.start()
        thread.join()

    alone.run(within)
    within()
    assert refused == ["busy"]
    assert alone.visits == []


def test_a_callback_that_would_drive_is_refused_and_one_that_would_not_is_let_in() -> None:
    alone = OneThread("busy", "nested")

    def callback() -> None:
        alone.run(lambda: None)
        with pytest.raises(ConcurrentUseError, match="nested"):
            alone.run(lambda: None, within_callbacks=False)

    alone.run(callback, driving=True)


def test_whatever_interrupts_a_poll_another_thread_may_poll_afterwards() -> None:
    benches: list[Bench] = []
    errors: list[BaseException] = []

    def run(block: Callable[[], Any]) -> None:
        benches[:] = [Bench()]
        with block():
            benches[0].member.ensure_active_group(1)
            benches[0].member.poll(0.1)

    def poll() -> None:
        try:
            benches[0].member.poll(0)
        except BaseException as error:  # noqa: BLE001  # for the test to look at
            errors.append(error)

    places = 0
    for place in everywhere(run, ("/drivers/threads/member.py", "/drivers/one_thread.py")):
        places += 1
        thread = threading.Thread(target=poll)
        thread.start()
        thread.join()
        assert errors == [], place
    assert places > 20


def listened_to() -> Callable[[], Any]:
    metrics = ConsumerMetrics(ManualClock(0))

    def call() -> None:
        with metrics.callback("lost"):
            pass
        metrics.snapshot(1)

    return call


def rejoining() -> Callable[[], Any]:
    member = Bench().member
    member.ensure_active_group(1)
    return lambda: member.request_rejoin("a reason")


def processing() -> Callable[[], Any]:
    consumer = ConsumerBench(enable_auto_offset_store=False).consumer
    return PartitionProcessor(consumer, print)._raise_failure


LOCKS: dict[str, Callable[[], Callable[[], Any]]] = {
    "consumer/metrics": listened_to,
    "consumer/processing": processing,
    "drivers/engine_handle": rejoining,
    "drivers/hosts/thread": lambda: ThreadHost(config(), SystemClock(), Mailbox()).metrics,
    "drivers/hosts/process": lambda: ProcessHost(config(), Mailbox()).metrics,
    "election/leader_election": lambda: LeaderElection("e", bootstrap_servers="x")._tell_lost,
    "shards/directory": lambda: ShardDirectory(group_id="g", bootstrap_servers="x").close,
    "telemetry/opentelemetry": lambda: RebalanceTracer(Bench().member).flush,
    "telemetry/registry": lambda: MetricsRegistry().families,
}


@each_case("module", LOCKS)
def test_whatever_interrupts_who_takes_a_lock_others_get_it(module: str) -> None:
    used: list[Callable[[], Any]] = []

    def run(block: Callable[[], Any]) -> None:
        used[:] = [LOCKS[module]()]
        with block():
            used[0]()

    places = 0
    for place in everywhere(run, (f"/{module}.py", "/drivers/one_thread.py")):
        places += 1
        other = threading.Thread(target=used[0], daemon=True)
        other.start()
        other.join(60)
        assert not other.is_alive(), f"interrupted in {place}"
    assert places > 3


def test_whatever_interrupts_who_waits_for_an_answer_the_engine_can_give_it() -> None:
    calls = CoordinatorCalls(lambda _: promise(), SystemClock(), ExponentialBackoff(1, 1), Random())
    answers: list[Future[Any]] = []

    def run(block: Callable[[], Any]) -> None:
        answers[:] = [promise()]
        with block():
            answers[0].add_done_callback(id)
            calls.wait(answers[0], 1)
            answers[0].done()

    places = 0
    for place in everywhere(run, ("/hosts/host.py", "/concurrent/futures/", "/threading.py")):
        places += 1
        engine = threading.Thread(target=settle, args=(answers[0], MemberClosedError("x")))
        engine.daemon = True
        engine.start()
        engine.join(60)
        assert not engine.is_alive(), f"interrupted in {place}, the answer stays locked"
        assert isinstance(answers[0].exception(0), MemberClosedError)
    assert places > 10


def test_a_promise_wakes_all_who_wait_and_none_too_late() -> None:
    answer: Future[Any] = promise()
    with pytest.raises(TimeoutError):
        answer.result(0.001)
    threads = [threading.Thread(target=answer.exception) for _ in range(3)]
    for each in threads:
        each.start()
    settle(answer, MemberClosedError("x"))
    for each in threads:
        each.join(60)
        assert not each.is_alive()
    with pytest.raises(MemberClosedError):
        answer.result(0)
    assert not answer.cancel()
