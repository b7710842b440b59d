"""Test the thread that does an asyncio consumer's work."""

import asyncio
import logging
import threading
from concurrent.futures import Future

import pytest

from groupsdk.consumer.job_thread import JobThread
from groupsdk.errors import EngineError


@pytest.fixture
def loop() -> asyncio.AbstractEventLoop:
    loop = asyncio.new_event_loop()
    loop.close()  # the thread never runs anything on it
    return loop


def ended(name: str) -> bool:
    """Wait until the thread is gone."""
    for each in threading.enumerate():
        if each.name == name:
            each.join(60)
            return not each.is_alive()
    return True


def test_jobs_are_done_in_order_and_those_behind_the_end_too(
    loop: asyncio.AbstractEventLoop,
) -> None:
    thread, go = JobThread("jobs-1"), threading.Event()
    done: list[object] = []
    thread.put(loop, lambda: go.wait(60))
    thread.put(loop, lambda: done.append(1))
    thread.end()
    thread.put(loop, lambda: done.append((2, thread.loop is loop)))
    go.set()
    assert ended("jobs-1")
    assert done == [1, (2, True)]
    assert thread.loop is None


def test_a_job_that_waits_has_others_done_and_the_end_waits_for_it(
    loop: asyncio.AbstractEventLoop,
) -> None:
    thread, running, done = JobThread("jobs-2"), Future[object](), []

    def outer() -> None:
        thread.serve_until_done(running, loop)
        done.append("outer")

    thread.put(loop, outer)
    thread.put(loop, lambda: done.append("inner"))
    thread.end()
    thread.put(loop, lambda: running.set_result(None))
    assert ended("jobs-2")
    assert done == ["inner", "outer"]


def test_a_job_may_be_done_behind_one_that_waits_rather_than_within_it(
    loop: asyncio.AbstractEventLoop,
) -> None:
    thread, running, done = JobThread("jobs-7"), Future[object](), []

    def outer() -> None:
        thread.serve_until_done(running, loop)
        done.append("outer")

    thread.put(loop, outer)
    thread.put(loop, lambda: done.append("first behind"), within=False)
    thread.put(loop, lambda: done.append("second behind"), within=False)
    thread.put(loop, lambda: done.append("inner"))
    thread.end()
    thread.put(loop, lambda: running.set_result(None))
    assert ended("jobs-7")
    assert done == ["inner", "outer", "first behind", "second behind"]


def test_nobody_waits_for_a_loop_that_is_closed(
    loop: asyncio.AbstractEventLoop, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("groupsdk.consumer.job_thread._LOOK_S", 0.001)
    with pytest.raises(EngineError, match="loop was closed"):
        JobThread("jobs-3").serve_until_done(Future(), loop)


def test_a_job_that_fails_ends_nothing(
    loop: asyncio.AbstractEventLoop, caplog: pytest.LogCaptureFixture
) -> None:
    thread, done = JobThread("jobs-4"), []
    with caplog.at_level(logging.ERROR):
        thread.put(loop, lambda: 1 / 0)
        thread.put(loop, lambda: done.append(1))
        thread.end()
        assert ended("jobs-4")
    assert done == [1]
    assert "a job of the thread jobs-4 failed" in caplog.text


def test_an_end_before_any_job_starts_no_thread() -> None:
    JobThread("jobs-5").end()
    assert "jobs-5" not in [each.name for each in threading.enumerate()]


def test_a_fork_of_the_process_has_no_such_thread(
    loop: asyncio.AbstractEventLoop, monkeypatch: pytest.MonkeyPatch
) -> None:
    thread = JobThread("jobs-6")
    monkeypatch.setattr("os.getpid", lambda: -1)
    assert thread.forked
    with pytest.raises(EngineError, match="after forking"):
        thread.put(loop, print)
