"""Test what every host promises, with the real engine and a broker over TCP."""

import gc
import logging
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import Future
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest

from groupsdk.clock import ManualClock, SystemClock
from groupsdk.drivers.engine_handle import open_host
from groupsdk.drivers.hosts.host import Host, Mailbox, promise
from groupsdk.drivers.hosts.process import ProcessHost
from groupsdk.drivers.hosts.thread import ThreadHost
from groupsdk.errors import (
    ConfigError,
    CoordinatorNotAvailableError,
    EngineError,
    IllegalGenerationError,
    MemberClosedError,
)
from groupsdk.member.actions import PrepareJoin
from groupsdk.member.events import CloseRequested, JoinPrepared, Polled, RejoinRequested
from groupsdk.member.view import MemberView
from groupsdk.settings.config import MemberConfig
from groupsdk.types import GroupMembershipOperation, ProtocolMetadata
from groupsdk.wire.messages.metadata import MetadataRequest
from groupsdk.wire.messages.offsets import OffsetCommitRequest
from groupsdk.wire.schema import ApiKey
from tests.support.plain_workers import PlainWorker
from tests.support.scripted_broker import ScriptedBroker
from tests.support.workers import eventually


TIMEOUT_S = 60.0


@pytest.fixture
def broker() -> Iterator[ScriptedBroker]:
    with ScriptedBroker() as broker:
        yield broker


@pytest.fixture(params=["thread", "process"])
def kind(request: pytest.FixtureRequest) -> str:
    return str(request.param)


def settings(broker: ScriptedBroker, kind: str, **more: Any) -> MemberConfig:
    return MemberConfig.of(
        {
            "bootstrap_servers": broker.address,
            "group_id": "group",
            "heartbeat": kind,
            "heartbeat_interval_ms": 30,
            **more,
        }
    )


def wait_for(mailbox: Mailbox, condition: Callable[[MemberView], bool]) -> MemberView:
    """Wait for a view that meets a condition."""
    deadline_ms = SystemClock().now_ms() + TIMEOUT_S * 1000
    while True:
        version, latest = mailbox.version, mailbox.view
        if condition(latest):
            return latest
        assert SystemClock().now_ms() < deadline_ms, latest
        mailbox.wait_newer(version, 1_000)


def test_the_configuration_chooses_the_host(broker: ScriptedBroker) -> None:
    for kind, host_class in (("thread", ThreadHost), ("process", ProcessHost)):
        host = open_host(settings(broker, kind), SystemClock(), Mailbox())
        assert isinstance(host, host_class)


def test_a_clock_of_ones_own_does_not_reach_another_process(broker: ScriptedBroker) -> None:
    with pytest.raises(ConfigError, match="goes by the machine's clock"):
        open_host(settings(broker, "process"), ManualClock(), Mailbox())


def test_a_promise_cannot_be_cancelled_by_who_waits_for_it() -> None:
    future: Future[None] = promise()
    assert not future.cancel()
    future.set_result(None)
    assert future.done()
    assert not future.cancelled()


def test_a_member_joins_heartbeats_and_leaves(broker: ScriptedBroker, kind: str) -> None:
    with PlainWorker(settings(broker, kind)) as worker:
        assert worker.ensure_active_group(TIMEOUT_S)
        assert worker.generation_if_stable() is not None
        broker.wait_for(lambda: len(broker.seen(ApiKey.HEARTBEAT)) >= 3)
        assert worker.metrics()["heartbeat-total"] >= 2
        assert worker.poll()
        worker.request_rejoin("new metadata")
        assert worker.poll(TIMEOUT_S)
        assert [event.reason for event in worker.events()][1:] == ["new metadata"]
        assert worker.snapshot().assignment_epoch == 2
    assert broker.seen()[-1].api is ApiKey.LEAVE_GROUP
    assert worker.metrics()["join-total"] == 2  # the last ones known
    assert worker.generation_if_stable() is None


def test_events_are_handled_in_order_and_counted(broker: ScriptedBroker, kind: str) -> None:
    mailbox = Mailbox()
    host = open_host(settings(broker, kind), SystemClock(), mailbox)
    host.start()
    try:
        host.post(Polled())
        for number in range(500):
            host.post(RejoinRequested(f"reason {number}"))
        wait_for(mailbox, lambda latest: latest.handled == 501)
        joining = wait_for(mailbox, lambda latest: latest.call is not None)
        assert isinstance(joining.call, PrepareJoin)
        host.post(JoinPrepared(joining.call.call_id, "work", (ProtocolMetadata("v0", b"x"),)))
        broker.wait_for(lambda: bool(broker.seen(ApiKey.JOIN_GROUP)))
        request: Any = broker.seen(ApiKey.JOIN_GROUP)[0].request
        assert request.reason == "reason 499"
    finally:
        host.abort()
        host.ended.result(TIMEOUT_S)


def test_a_host_that_has_ended_takes_everything_in_its_stride(
    broker: ScriptedBroker, kind: str
) -> None:
    mailbox = Mailbox()
    host = open_host(settings(broker, kind), SystemClock(), mailbox)
    host.start()
    host.post(Polled())
    host.post(CloseRequested(GroupMembershipOperation.DEFAULT, 1_000, "test"))
    host.ended.result(TIMEOUT_S)
    version, latest = mailbox.version, mailbox.view
    assert latest.crash is None
    assert latest.stopped
    host.post(Polled())
    assert "join-total" in host.metrics().result(TIMEOUT_S)
    host.abandon()
    host.abort()
    assert (mailbox.version, mailbox.view) == (version, latest)


def join(broker: ScriptedBroker, config: MemberConfig) -> tuple[PlainWorker, Host]:
    worker = PlainWorker(config)
    assert worker.ensure_active_group(TIMEOUT_S)
    host = worker._groupsdk_handle.host
    assert host is not None
    return worker, host


@pytest.mark.parametrize(("instance_id", "leaves"), [(None, True), ("static", False)])
def test_an_abandoned_engine_ends_by_itself_and_a_dynamic_member_leaves(
    broker: ScriptedBroker, kind: str, instance_id: str | None, leaves: bool
) -> None:
    worker, host = join(broker, settings(broker, kind, group_instance_id=instance_id))
    with pytest.warns(ResourceWarning, match="group=group: a member was dropped without close"):
        host.abandon()
    host.ended.result(TIMEOUT_S)
    assert bool(broker.seen(ApiKey.LEAVE_GROUP)) is leaves
    assert worker.generation_if_stable() is None
    worker.close(0)


def test_a_dropped_member_leaves_at_once(broker: ScriptedBroker, kind: str) -> None:
    worker, host = join(broker, settings(broker, kind))
    gc.collect()
    gc.disable()  # which may not run for a long time, and the others of the group would wait
    try:
        with pytest.warns(ResourceWarning, match="group=group: a member was dropped without close"):
            del worker
        host.ended.result(TIMEOUT_S)
    finally:
        gc.enable()
    assert broker.seen(ApiKey.LEAVE_GROUP)


def test_an_aborted_engine_is_silent(broker: ScriptedBroker, kind: str) -> None:
    worker, host = join(broker, settings(broker, kind))
    host.abort()
    host.ended.result(TIMEOUT_S)
    assert not broker.seen(ApiKey.LEAVE_GROUP)
    worker.close(0)
    broker.wait_for(lambda: broker.connected == 0)


def test_a_bug_of_the_engine_reaches_the_caller_and_the_log(
    broker: ScriptedBroker, kind: str, caplog: pytest.LogCaptureFixture
) -> None:
    worker, host = join(broker, settings(broker, kind))
    bug: Any = None
    host.post(RejoinRequested(bug))
    host.ended.result(TIMEOUT_S)
    assert worker.generation_if_stable() is None
    with pytest.raises(EngineError, match="AttributeError"):
        worker.poll()
    worker.close()
    (record,) = [each for each in caplog.records if each.levelno >= logging.ERROR]
    assert "group=group" in record.getMessage()
    assert "AttributeError" in (record.exc_text or caplog.text)


def test_nothing_is_left_behind(broker: ScriptedBroker, kind: str) -> None:
    def used() -> tuple[int, set[threading.Thread], set[str]]:
        children: set[str] = set()
        for task in Path("/proc/self/task").iterdir():
            with suppress(FileNotFoundError):  # a thread that ended just now
                children |= set((task / "children").read_text().split())
        return len(list(Path("/proc/self/fd").iterdir())), set(threading.enumerate()), children

    def cycle() -> None:
        with PlainWorker(settings(broker, kind)) as worker:
            assert worker.ensure_active_group(TIMEOUT_S)
        broker.wait_for(lambda: broker.connected == 0)
        gc.collect()

    cycle()  # what the first one imports stays
    before = used()
    for _ in range(4):
        cycle()

    def is_no_more() -> bool:
        files, threads, children = used()
        return files <= before[0] and threads <= before[1] and children <= before[2]

    # the threads that report the end have a few instructions left then, and those of other tests may end meanwhile
    eventually(is_no_more, lambda: f"{used()} after {before}")


def test_every_request_to_a_host_is_answered_in_the_end(broker: ScriptedBroker, kind: str) -> None:
    mailbox = Mailbox()
    host = open_host(settings(broker, kind), SystemClock(), mailbox)
    host.start()
    early = host.ask(MetadataRequest())
    assert isinstance(early.exception(TIMEOUT_S), CoordinatorNotAvailableError)
    host.post(Polled())
    wait_for(mailbox, lambda latest: latest.call is not None)
    stale = host.ask(OffsetCommitRequest(group_id="group", generation_id_or_member_epoch=7))
    assert isinstance(stale.exception(TIMEOUT_S), IllegalGenerationError)
    host.post(CloseRequested(GroupMembershipOperation.DEFAULT, 1_000, "test"))
    last = host.ask(MetadataRequest())
    assert isinstance(last.exception(TIMEOUT_S), MemberClosedError)
    host.ended.result(TIMEOUT_S)
    assert isinstance(host.ask(MetadataRequest()).exception(0), MemberClosedError)
