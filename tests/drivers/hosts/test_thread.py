"""Test what is particular to the background thread; `test_host.py` has what all hosts promise."""

import asyncio
import gc
import logging
import os
import threading
from collections.abc import Callable
from typing import Any

import pytest

from groupsdk.clock import SystemClock
from groupsdk.drivers.hosts.host import Mailbox
from groupsdk.drivers.hosts.thread import ThreadHost
from groupsdk.errors import EngineError
from groupsdk.member.events import Polled
from tests.drivers.virtual import config
from tests.support.interrupts import everywhere
from tests.support.workers import eventually


def ours() -> list[threading.Thread]:
    """Return the threads of members: those that run, as one whose start was interrupted stays in Python's list for ever."""
    return [
        each for each in threading.enumerate() if each.name == "groupsdk-group" and each.is_alive()
    ]


@pytest.fixture
def host() -> ThreadHost:
    return ThreadHost(config(bootstrap_servers="127.0.0.1:1"), SystemClock(), Mailbox())


def test_the_thread_is_a_daemon_with_the_name_of_its_group(host: ThreadHost) -> None:
    host.start()
    (thread,) = ours()
    assert thread.daemon
    host.abort()
    host.ended.result(60)


def test_a_machine_without_room_for_a_thread(
    host: ThreadHost, monkeypatch: pytest.MonkeyPatch
) -> None:
    def start(_: threading.Thread) -> None:
        raise RuntimeError("can't start new thread")

    monkeypatch.setattr(threading.Thread, "start", start)
    with pytest.raises(EngineError, match=r"cannot start .* can't start new"):
        host.start()
    assert host.ended.done()
    assert host._loop is None
    host.post(Polled())
    assert host.metrics().result(0) == {}


def test_greenlets_in_place_of_threads_are_refused_with_a_way_out(
    host: ThreadHost, monkeypatch: pytest.MonkeyPatch
) -> None:
    def start_new_thread() -> None:
        raise AssertionError("not started")

    start_new_thread.__module__ = "gevent.thread"
    monkeypatch.setattr("_thread.start_new_thread", start_new_thread)
    with pytest.raises(EngineError, match=r"gevent has replaced .* set heartbeat='process'"):
        host.start()
    assert host.ended.done()


def test_a_machine_without_room_for_a_loop(monkeypatch: pytest.MonkeyPatch) -> None:
    def new_event_loop() -> None:
        raise OSError(24, "Too many open files")

    monkeypatch.setattr(asyncio, "new_event_loop", new_event_loop)
    host = ThreadHost(config(), SystemClock(), Mailbox())
    with pytest.raises(EngineError, match=r"cannot start .* Too many open files"):
        host.start()
    assert host.ended.done()
    host.post(Polled())
    assert host.metrics().result(0) == {}


def test_an_interrupted_start_leaves_neither_a_thread_nor_a_loop() -> None:
    """As by Ctrl-C, whose handler raises; a loop that nobody closed would give a ResourceWarning."""

    def run(interrupted: Callable[[], Any]) -> None:
        host = ThreadHost(config(bootstrap_servers="127.0.0.1:1"), SystemClock(), Mailbox())
        started = False
        with interrupted():
            host.start()
            started = True
        if started:
            host.abort()
        eventually(lambda: not ours())
        gc.collect()

    where = ("/groupsdk/drivers/hosts/", "/concurrent/futures/", "/asyncio/")
    assert len(list(everywhere(run, where))) > 5


def test_a_fork_leaves_the_engine_of_its_parent_alone(
    host: ThreadHost, monkeypatch: pytest.MonkeyPatch
) -> None:
    host.start()
    here = os.getpid()
    monkeypatch.setattr(os, "getpid", lambda: here + 1)
    host.abandon()
    monkeypatch.undo()
    assert "join-total" in host.metrics().result(60)
    assert not host.ended.done()
    with pytest.warns(ResourceWarning, match="dropped without close"):
        host.abandon()
    host.ended.result(60)


def test_the_first_event_is_handled_at_once() -> None:
    # posted before the engine ran, it used to lie there until the next one
    for _ in range(30):
        mailbox = Mailbox()
        host = ThreadHost(config(bootstrap_servers="127.0.0.1:1"), SystemClock(), mailbox)
        host.start()
        host.post(Polled())
        mailbox.wait_newer(0, 20_000)
        assert mailbox.view.handled == 1
        host.abort()
        host.ended.result(60)


def test_calls_before_the_end_of_the_host_are_answered(
    host: ThreadHost, caplog: pytest.LogCaptureFixture
) -> None:
    host.start()
    with caplog.at_level(logging.WARNING):
        host.abort()
        answers = [host.metrics() for _ in range(100)]
        assert all("join-total" in answer.result(60) for answer in answers)
    host.ended.result(60)
    assert caplog.records == []
